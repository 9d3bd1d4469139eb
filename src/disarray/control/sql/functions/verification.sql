-- All that is stored about one subject, for a recompute that believes none of it, and what came of such recomputes.

create function disarray.list_verified_subjects(p_subject_key text default null)
returns table (subject_key text, readings bigint, verified_at timestamptz, verification_id uuid)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
with known as (
    select
        stored.subject_key,
        sum(stored.readings) as readings
    from segment as stored
    where p_subject_key is null or stored.subject_key = p_subject_key
    group by stored.subject_key
    union all
    select distinct
        file.subject_key,
        0 as readings
    from file_info as file
    where p_subject_key is null or file.subject_key = p_subject_key
)

select
    known.subject_key,
    sum(known.readings)::bigint,
    noted.verified_at,
    noted.verification_id
from known
left join subject_verification as noted on known.subject_key = noted.subject_key
group by known.subject_key, noted.verified_at, noted.verification_id
order by known.subject_key
$$;
comment on function disarray.list_verified_subjects(text) is
    'Every subject of which a file was announced or a reading is kept, how many readings that are, and when it was last verified.';

create function disarray.start_verification(p_verification_id uuid, p_selection jsonb, p_subjects bigint, p_readings bigint)
returns void
language sql
security definer
set search_path = disarray, pg_temp
as $$
delete from verification as old
where old.started_at < clock() - interval '400 days';
insert into verification (verification_id, selection, started_at, subjects, readings)
values (p_verification_id, p_selection, clock(), p_subjects, p_readings)
$$;
comment on function disarray.start_verification(uuid, jsonb, bigint, bigint) is
    'Write down that a verification starts, and what it is to cover. Runs of more than 400 days ago are forgotten.';

create function disarray.claim_scheduled_verification(p_verification_id uuid, p_selection jsonb, p_every interval)
returns boolean
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    -- Workers come one after the other: the second finds what the first has written.
    perform enter_gate('scheduled verification');
    if exists (
        select
        from verification as former
        where
            former.selection ? 'scheduled_by'
            and former.started_at > clock() - p_every
    ) then
        return false;
    end if;
    insert into verification (verification_id, selection, started_at, subjects, readings)
    select
        p_verification_id,
        p_selection,
        clock(),
        count(*),
        coalesce(sum(known.readings), 0)
    from list_verified_subjects() as known;
    return true;
end
$$;
comment on function disarray.claim_scheduled_verification(uuid, jsonb, interval) is
    'Write down that a worker verifies by itself, unless one did so within this time; its selection says scheduled_by.';

create function disarray.find_open_verification()
returns table (verification_id uuid, selection jsonb, started_at timestamptz)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    newest.verification_id,
    newest.selection,
    newest.started_at
from (
    select
        known.verification_id,
        known.selection,
        known.started_at,
        known.ended_at
    from verification as known
    order by known.started_at desc
    limit 1
) as newest
where
    newest.ended_at is null
    and not newest.selection ? 'scheduled_by'
$$;
comment on function disarray.find_open_verification() is 'The newest verification, if it has not ended.';

create function disarray.note_subject_verification(
    p_verification_id uuid,
    p_subject_key text,
    p_verdict text,
    p_readings bigint,
    p_finding_count bigint,
    p_findings jsonb
)
returns void
language sql
security definer
set search_path = disarray, pg_temp
as $$
insert into subject_verification as noted (
    subject_key, verification_id, verified_at, verdict, readings, finding_count, findings
)
values (p_subject_key, p_verification_id, clock(), p_verdict, p_readings, p_finding_count, p_findings)
on conflict (subject_key) do update set
    verification_id = excluded.verification_id,
    verified_at = excluded.verified_at,
    verdict = excluded.verdict,
    readings = excluded.readings,
    finding_count = excluded.finding_count,
    findings = excluded.findings
$$;
comment on function disarray.note_subject_verification(uuid, text, text, bigint, bigint, jsonb) is
    'Write down what a verification found out about one subject; what an earlier one did is replaced.';

create function disarray.end_verification(p_verification_id uuid)
returns void
language sql
security definer
set search_path = disarray, pg_temp
as $$
update verification as own
set ended_at = clock()
where own.verification_id = p_verification_id and own.ended_at is null
$$;
comment on function disarray.end_verification(uuid) is 'Write down that a verification has done what it was to do.';

create function disarray.verification_state()
returns table (
    verification_id uuid,
    started_at timestamptz,
    ended_at timestamptz,
    verified_subjects bigint,
    unverified_subjects bigint,
    oldest_verified_at timestamptz,
    different_subjects bigint,
    unproven_subjects bigint,
    not_final_subjects bigint,
    different_keys text []
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
with newest as (
    select
        known.verification_id,
        known.started_at,
        known.ended_at
    from verification as known
    order by known.started_at desc
    limit 1
),

noted as (
    select
        count(*) as subjects,
        min(own.verified_at) as oldest_at,
        count(*) filter (where own.verdict = 'different') as different,
        count(*) filter (where own.verdict = 'unproven') as unproven,
        count(*) filter (where own.verdict = 'not_final') as not_final
    from subject_verification as own
    where exists (select from subject as known where known.subject_key = own.subject_key)
)

select
    newest.verification_id,
    newest.started_at,
    newest.ended_at,
    noted.subjects,
    (select count(*) from subject) - noted.subjects,
    noted.oldest_at,
    noted.different,
    noted.unproven,
    noted.not_final,
    array(
        select own.subject_key
        from subject_verification as own
        where own.verdict = 'different'
        order by own.subject_key
        limit 5
    )
from noted
left join newest on true
$$;
comment on function disarray.verification_state() is
    'The newest verification, how many subjects were ever verified and how many not, how many are not as the files say, and the first of these.';

create function disarray.load_subject_files(p_subject_key text)
returns table (source_uri text, dataset text, is_blacklisted boolean, is_about_to_change boolean, fingerprint bytea, arrival bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    file.source_uri,
    file.dataset,
    exists (select from file_blacklist as listed where listed.source_uri = file.source_uri),
    exists (
        select
        from ingest_queue as item
        where
            item.source_uri = file.source_uri
            and item.reason in ('remove', 'allow', 'release')
    ),
    known.fingerprint,
    file.arrival
from file_info as file
inner join file_fingerprint as known on file.source_uri = known.source_uri
where file.subject_key = p_subject_key
order by file.source_uri
$$;
comment on function disarray.load_subject_files(text) is
    'The files of a subject that were ever taken in, and what is remembered of their bytes; is_about_to_change where it is decided '
    'that a file counts or does not, and the numbers do not say so yet.';

create function disarray.load_subject_segments(p_subject_key text)
returns setof disarray.segment
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select known.*
from segment as known
where known.subject_key = p_subject_key
$$;
comment on function disarray.load_subject_segments(text) is 'Every segment of a subject that has readings, in every dataset.';

create function disarray.load_subject_summaries(p_subject_key text)
returns setof disarray.segment_metric
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select summary.*
from segment_metric as summary
where summary.subject_key = p_subject_key
$$;
comment on function disarray.load_subject_summaries(text) is 'Every summary and base of a subject, in every dataset.';

create function disarray.load_subject_rollup_parts(p_subject_key text)
returns setof disarray.rollup
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select part.*
from rollup as part
where part.subject_key = p_subject_key
$$;
comment on function disarray.load_subject_rollup_parts(text) is 'Every part of every bucket of a subject, in every dataset.';

create function disarray.load_rejected_positions(p_subject_key text, p_reason text)
returns table (source_uri text, "position" bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    line.source_uri,
    line.position
from rejected_row as line
inner join file_info as file on line.source_uri = file.source_uri
where
    file.subject_key = p_subject_key
    and line.reason = p_reason
union all
-- Lines that are no readings are kept with the file, whatever its parts are about.
select
    part.part_uri,
    line.position
from rejected_row as line
inner join file_part as part on line.source_uri = part.parent_uri
where
    part.subject_key = p_subject_key
    and line.reason = p_reason
$$;
comment on function disarray.load_rejected_positions(text, text) is 'Where lines were rejected for one reason, in the files of a subject.';
