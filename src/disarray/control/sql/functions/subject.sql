-- Where each subject stands.

create function disarray.list_subject_states(
    p_subject_key text default null,
    p_limit integer default 1000,
    p_after text[] default null
)
returns table (
    subject_key text,
    first_seen_at timestamptz,
    files bigint,
    dead_letters bigint,
    waiting_items bigint,
    claimed_items bigint,
    held_by text,
    lease_expires_at timestamptz,
    stale_from timestamptz
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    known.subject_key,
    known.first_seen_at,
    counted.files,
    counted.dead_letters,
    (
        select count(*)
        from ingest_queue as item
        where
            item.subject_key = known.subject_key
            and item.status = 'available'
    ),
    (
        select count(*)
        from ingest_queue as item
        where
            item.claimed_by_instance_name = lock.instance_name
            and item.subject_key = known.subject_key
    ),
    lock.instance_name,
    lock.lease_expires_at,
    (
        select min(open.range_start)
        from dirty_range as open
        where
            open.subject_key = known.subject_key
            and open.resolved_at is null
    )
from subject as known
left join subject_lock as lock on known.subject_key = lock.subject_key
cross join lateral (
    select
        count(*) as files,
        count(*) filter (where file.failed_at is not null and file.discarded_at is null) as dead_letters
    from file_info as file
    where file.subject_key = known.subject_key
) as counted
where
    (p_subject_key is null or known.subject_key = p_subject_key)
    and known.subject_key > coalesce(p_after[1], '')
    -- A file that was split is locked under a name of its own, and no subject.
    and not exists (
        select
        from file_info as file
        inner join file_part as part on file.source_uri = part.parent_uri
        where file.subject_key = known.subject_key
    )
order by known.subject_key
limit p_limit
$$;
comment on function disarray.list_subject_states(text, integer, text[]) is 'Every subject ever seen: its files, what waits, who holds it, from when on it is stale.';
