-- Verifications: runs of `verify`, and what the newest one found out about each subject.
-- breaking: no

create table disarray.verification (
    verification_id uuid primary key,
    selection jsonb not null,
    started_at timestamptz not null,
    ended_at timestamptz,
    subjects bigint not null,
    readings bigint not null,
    constraint a_verification_ends_after_it_starts check (ended_at >= started_at)
);
comment on table disarray.verification is 'One run of verify; without ended_at it was broken off, or runs still.';
comment on column disarray.verification.selection is 'What was asked for: subject, dataset, since, sample and budget, as far as they were given.';
comment on column disarray.verification.subjects is 'How many subjects there were to verify.';
comment on column disarray.verification.readings is 'How many readings these had when the run started.';

create index verification_in_time on disarray.verification (started_at desc);

create table disarray.subject_verification (
    subject_key text primary key,
    verification_id uuid not null,
    verified_at timestamptz not null,
    verdict text not null,
    readings bigint not null,
    finding_count bigint not null,
    findings jsonb not null,
    constraint verdict_is_known check (verdict in ('identical', 'unproven', 'not_final', 'different')),
    constraint an_identical_subject_has_no_findings check (verdict <> 'identical' or finding_count = 0)
);
comment on table disarray.subject_verification is 'What the newest verification of each subject found out; whoever has waited longest is next.';
comment on column disarray.subject_verification.readings is 'How many readings the subject had; of a sample, not all were recomputed.';
comment on column disarray.subject_verification.findings is 'The first of what was found, for people.';

create index subject_verification_verdict on disarray.subject_verification (verdict) where verdict <> 'identical';
