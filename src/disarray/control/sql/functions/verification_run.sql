-- Runs of `verify`: what they are to cover, and what is known of each subject since.

create function disarray.list_verified_subjects(p_subject_key text default null)
returns table (
    subject_key text, readings bigint, verified_at timestamptz, wholly_verified_at timestamptz, verification_id uuid, verdict text
)
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
    noted.wholly_verified_at,
    noted.verification_id,
    noted.verdict
from known
left join subject_verification as noted on known.subject_key = noted.subject_key
group by known.subject_key, noted.verified_at, noted.wholly_verified_at, noted.verification_id, noted.verdict
order by known.subject_key
$$;
comment on function disarray.list_verified_subjects(text) is
    'Every subject of which a file was announced or a reading is kept, how many readings that are, and when it was last verified, with what verdict.';

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
with part as (
    select exists (
        select
        from verification as run
        where
            run.verification_id = p_verification_id
            and run.selection ?| array['since', 'sample', 'dataset']
    ) as is_part
),

given as (
    select
        p_subject_key as subject_key,
        -- A part that is as it should be takes nothing back from a whole that was, and makes no whole.
        case
            when p_verdict = 'identical' and part.is_part and not exists (
                select
                from subject_verification as former
                where
                    former.subject_key = p_subject_key
                    and former.verdict = 'identical'
            ) then 'identical_in_part'
            else p_verdict
        end as verdict,
        p_finding_count as finding_count,
        p_findings as findings
    from part
    union all
    -- What was left out of this run may be what differed: only one that leaves nothing out takes that back.
    select
        former.subject_key,
        former.verdict,
        former.finding_count,
        former.findings
    from subject_verification as former
    where
        former.subject_key = p_subject_key
        and former.verdict = 'different'
        and p_verdict <> 'different'
        and (select part.is_part from part)
)

insert into subject_verification as noted (
    subject_key, verification_id, verified_at, wholly_verified_at, verdict, readings, finding_count, findings
)
select
    given.subject_key,
    p_verification_id,
    clock(),
    case when not part.is_part then clock() end,
    given.verdict,
    p_readings,
    given.finding_count,
    given.findings
from given
cross join part
order by given.verdict = 'different' desc
limit 1
on conflict (subject_key) do update set
    verification_id = excluded.verification_id,
    verified_at = excluded.verified_at,
    wholly_verified_at = coalesce(excluded.wholly_verified_at, noted.wholly_verified_at),
    verdict = excluded.verdict,
    readings = excluded.readings,
    finding_count = excluded.finding_count,
    findings = excluded.findings
$$;
comment on function disarray.note_subject_verification(uuid, text, text, bigint, bigint, jsonb) is
    'Write down what a verification found out about one subject; what an earlier one did is replaced. That a subject differs is taken '
    'back, and that it is identical is said, only by a run that leaves nothing of it out.';

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
    partly_verified_subjects bigint,
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
        min(coalesce(own.wholly_verified_at, own.verified_at)) as oldest_at,
        count(*) filter (where own.verdict = 'identical_in_part') as identical_in_part,
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
    noted.identical_in_part,
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
    'The newest verification, how many subjects were ever verified and how many not, how many of these only in part, how many are not as the '
    'files say, and the first of those. The oldest counts from when a subject was last verified whole, if it ever was.';
