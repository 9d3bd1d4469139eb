-- What a person or a dashboard sees. Nothing here changes anything.

create function disarray.queue_status()
returns jsonb
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
begin
    return jsonb_build_object(
        'at', v_now,
        'queue', (
            select jsonb_build_object(
                'available', count(*) filter (where item.status = 'available'),
                'delayed', count(*) filter (where item.status = 'available' and item.available_at > v_now),
                'claimed', count(*) filter (where item.status = 'claimed'),
                'oldest_seconds', round(extract(epoch from v_now - min(item.enqueued_at))::numeric, 3)
            )
            from ingest_queue as item
        ),
        'lanes', (
            select jsonb_build_object(
                'live', count(*) filter (where item.lane = 'live'),
                'backfill', count(*) filter (where item.lane = 'backfill')
            )
            from ingest_queue as item
            where item.status = 'available'
        ),
        'files', (
            select coalesce(jsonb_object_agg(counted.status, counted.files), '{}')
            from (
                select
                    file.status,
                    count(*) as files
                from file_info as file
                group by file.status
            ) as counted
        ),
        'dead_letters', (
            select count(*)
            from file_info as dead
            where
                dead.failed_at is not null
                and dead.discarded_at is null
        ),
        'waiting_files', (
            select coalesce(jsonb_agg(to_jsonb(waiting) order by waiting.available_at, waiting.source_uri), '[]')
            from (
                select
                    item.source_uri,
                    item.subject_key,
                    item.available_at,
                    file.last_error
                from ingest_queue as item
                inner join file_info as file on item.source_uri = file.source_uri
                where
                    item.status = 'available'
                    and item.available_at > v_now
                    and file.last_error is not null
                order by
                    item.available_at,
                    item.source_uri
                limit 10
            ) as waiting
        ),
        'subjects', (
            select jsonb_build_object(
                'known', (select count(*) from subject),
                'held', (select count(*) from subject_lock),
                'waiting', (
                    select count(*)
                    from subject as waiting
                    where least(waiting.live_turn_at, waiting.backfill_turn_at) <= v_now
                )
            )
        ),
        'unserved_subjects', (
            select coalesce(jsonb_agg(unserved.subject_key order by unserved.subject_key), '[]')
            from (
                select waiting.subject_key
                from subject as waiting
                where
                    (waiting.live_turn_at is not null or waiting.backfill_turn_at is not null)
                    -- Nobody visits such a subject, so nobody notes that its last item was taken away.
                    and exists (select from ingest_queue as item where item.subject_key = waiting.subject_key and item.status = 'available')
                    and not exists (
                        select
                        from instance as known
                        where
                            is_worker(known)
                            and matches_pattern(waiting.subject_key, known.subject_patterns)
                    )
                order by waiting.subject_key
                limit 1000
            ) as unserved
        ),
        'conflicts', (
            select jsonb_build_object(
                'readings', coalesce(sum(found.conflicts), 0),
                'pairs_of_files', count(distinct (found.winner_uri, found.loser_uri))
            )
            from conflict as found
        ),
        'open_dirty_ranges', (
            select count(*)
            from dirty_range as open
            where open.resolved_at is null
        ),
        'rebuilds', (
            select jsonb_build_object(
                'pending', count(*),
                'queued', count(*) filter (where is_rebuild_queued(pending.dataset, pending.subject_key))
            )
            from pending_rebuilds() as pending
        ),
        'side_effects', count_side_effects(),
        'instances', (
            select coalesce(jsonb_agg(to_jsonb(listed) order by listed.instance_name), '[]')
            from list_instances() as listed
        )
    );
end
$$;
comment on function disarray.queue_status() is
    'The whole control plane in one document; unserved_subjects lists those that wait and match no instance, waiting_files the '
    'first that failed and are tried again later, with the reason.';

create function disarray.list_waiting(p_limit integer default 20)
returns table (kind text, files bigint, source_uri text, subject_key text, since timestamptz, message text)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
with waiting as (
    select
        'parked' as kind,
        parked.source_uri,
        min(parked.subject_key) as subject_key,
        min(parked.parked_at) as since,
        string_agg(coalesce(parked.message, parked.why), '; ' order by parked.why) as message
    from list_quarantine(p_limit => 2147483647) as parked
    group by parked.source_uri
    union all
    select
        'failed',
        dead.source_uri,
        dead.subject_key,
        dead.failed_at,
        dead.last_error
    from list_dead_letters(p_limit => 2147483647) as dead
    union all
    select
        case when item.retry_count > 0 or file.last_error is not null then 'retrying' else 'queued' end,
        coalesce(item.source_uri, item.kind || ' of ' || item.subject_key),
        item.subject_key,
        item.enqueued_at,
        file.last_error
    from ingest_queue as item
    left join file_info as file on item.source_uri = file.source_uri
    where item.status = 'available'
    union all
    select
        'rejected',
        file.source_uri,
        file.subject_key,
        file.last_seen_at,
        file.metadata -> 'lines' ->> 'rejected'
    from file_info as file
    where
        file.status = 'processed'
        and (file.metadata -> 'lines' ->> 'kept')::bigint = 0
        and (file.metadata -> 'lines' ->> 'rejected')::bigint > 0
    union all
    select
        'headerless',
        file.source_uri,
        file.subject_key,
        file.last_seen_at,
        file.metadata -> 'lines' ->> 'preamble'
    from file_info as file
    where
        file.status = 'processed'
        and (file.metadata -> 'lines' ->> 'has_header')::boolean is false
)

select
    ranked.kind,
    ranked.files,
    ranked.source_uri,
    ranked.subject_key,
    ranked.since,
    ranked.message
from (
    select
        waiting.kind,
        count(*) over (partition by waiting.kind) as files,
        row_number() over (partition by waiting.kind order by waiting.since, waiting.source_uri) as turn,
        waiting.source_uri,
        waiting.subject_key,
        waiting.since,
        waiting.message
    from waiting
) as ranked
where ranked.turn <= p_limit
order by
    ranked.kind,
    ranked.turn
$$;
comment on function disarray.list_waiting(integer) is
    'Everything that is not in and waits for somebody, the oldest of each kind: parked, failed (a dead letter), retrying '
    '(queued again after a failure), queued, rejected (read, and every row of it was refused: message is how many), headerless '
    '(read, and none of its lines is a header: message is how many). '
    'files counts all of a kind.';

create function disarray.current_us()
returns bigint
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select microseconds_of(clock())
$$;
comment on function disarray.current_us() is 'The clock of the database in microseconds: it alone decides what lies in the future.';
