-- Summaries say from when on their first piece can no longer be read: a reset may come at the instant of its only readings.
-- A subject of which only a part was ever recomputed is told apart from one that was verified whole.
-- breaking: yes

alter table disarray.segment_metric add column reset_us bigint;
comment on column disarray.segment_metric.reset_us is
    'Of piece 0: the first reading after it, where a reset ends it; from here on nothing of it can be read. '
    'NULL beside a piece 1: not known, for it was written before this column was.';

alter type disarray.scanned_summary add attribute reset_us bigint;

alter table disarray.subject_verification add column wholly_verified_at timestamptz;
comment on column disarray.subject_verification.wholly_verified_at is
    'When a run that left nothing of it out last verified the subject; NULL where none ever did.';
-- A row for each subject: few, and every one of them keeps to what is wanted of it already.
alter table disarray.subject_verification
-- squawk-ignore ban-drop-constraint
drop constraint verdict_is_known,
-- squawk-ignore ban-drop-constraint
drop constraint an_identical_subject_has_no_findings,
-- squawk-ignore constraint-missing-not-valid
add constraint verdict_is_known check (verdict in ('identical', 'identical_in_part', 'unproven', 'not_final', 'different')),
-- squawk-ignore constraint-missing-not-valid
add constraint an_identical_subject_has_no_findings check (verdict not in ('identical', 'identical_in_part') or finding_count = 0);

-- Of runs that are forgotten nobody knows what they left out.
update disarray.subject_verification as noted
set wholly_verified_at = noted.verified_at
from disarray.verification as run
where
    noted.verification_id = run.verification_id
    and not run.selection ?| array['since', 'sample', 'dataset'];
update disarray.subject_verification
set verdict = 'identical_in_part'
where
    verdict = 'identical'
    and wholly_verified_at is null;
