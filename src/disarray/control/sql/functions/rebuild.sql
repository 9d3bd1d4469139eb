-- Rebuilds one subject after the other: which is next, and how far they are.

create function disarray.measure_pending_rebuilds(p_datasets text[], p_subjects text[])
returns table (subjects bigint, readings bigint, last_subject_key text, last_dataset text)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
with pending as (
    select
        due.subject_key,
        due.dataset
    from pending_rebuilds() as due
    where
        due.dataset = any(p_datasets)
        and (p_subjects is null or due.subject_key = any(p_subjects))
),

last as (
    select
        pending.subject_key,
        pending.dataset
    from pending
    order by
        pending.subject_key desc,
        pending.dataset desc
    limit 1
)

select
    (select count(*) from pending),
    (
        select coalesce(sum(known.readings), 0)::bigint
        from pending
        inner join segment as known
            on
                pending.dataset = known.dataset
                and pending.subject_key = known.subject_key
    ),
    (select last.subject_key from last),
    (select last.dataset from last)
$$;
comment on function disarray.measure_pending_rebuilds(text[], text[]) is
    'How much waits for the definition in force: pairs of subject and dataset, their readings, and the last of them; NULL where nothing does.';

create function disarray.next_pending_rebuild(p_after text[], p_datasets text[], p_subjects text[])
returns table (subject_key text, dataset text, readings bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    pending.subject_key,
    pending.dataset,
    coalesce(counted.readings, 0)::bigint
from pending_rebuilds() as pending
cross join lateral (
    select sum(known.readings) as readings
    from segment as known
    where
        known.dataset = pending.dataset
        and known.subject_key = pending.subject_key
) as counted
where
    (p_after is null or (pending.subject_key, pending.dataset) > (p_after[1], p_after[2]))
    and pending.dataset = any(p_datasets)
    and (p_subjects is null or pending.subject_key = any(p_subjects))
order by
    pending.subject_key,
    pending.dataset
limit 1
$$;
comment on function disarray.next_pending_rebuild(text[], text[], text[]) is
    'The next subject and dataset behind a cursor that wait for the definition in force, and how many readings they have.';

create function disarray.rebuild_progress(p_dataset text, p_subject_key text, p_since timestamptz)
returns table (is_pending boolean, is_queued boolean, last_error text)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    exists (select from pending_rebuilds(p_dataset, p_subject_key)),
    is_rebuild_queued(p_dataset, p_subject_key),
    newest_failure(p_subject_key, 'rebuild', p_since)
$$;
comment on function disarray.rebuild_progress(text, text, timestamptz) is
    'Whether a subject still waits for the definition in force, whether an order that moves it is queued, and why one failed since an instant.';
