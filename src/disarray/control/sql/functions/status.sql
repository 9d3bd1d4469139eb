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
                'waiting', (select count(*) from subject as waiting where waiting.next_turn_at <= v_now)
            )
        ),
        'unserved_subjects', (
            select coalesce(jsonb_agg(unserved.subject_key order by unserved.subject_key), '[]')
            from (
                select waiting.subject_key
                from subject as waiting
                where
                    waiting.next_turn_at is not null
                    -- Nobody visits such a subject, so nobody notes that its last item was taken away.
                    and exists (select from ingest_queue as item where item.subject_key = waiting.subject_key and item.status = 'available')
                    and not exists (
                        select
                        from instance as known
                        where matches_pattern(waiting.subject_key, known.subject_patterns)
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
    '(queued again after a failure), queued, rejected (read, and every row of it was refused: message is how many). '
    'files counts all of a kind.';

create function disarray.list_instances()
returns table (
    instance_name text,
    incarnation bigint,
    subject_patterns text[],
    registered_at timestamptz,
    last_seen_at timestamptz,
    held_subjects bigint,
    claimed_items bigint,
    state text,
    paused_at timestamptz
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    known.instance_name,
    known.incarnation,
    known.subject_patterns,
    known.registered_at,
    known.last_seen_at,
    (select count(*) from subject_lock as lock where lock.instance_name = known.instance_name),
    (
        select count(*)
        from ingest_queue as item
        where
            item.claimed_by_instance_name = known.instance_name
    ),
    state_of(known),
    known.paused_at
from instance as known
order by known.instance_name
$$;
comment on function disarray.list_instances() is 'Every instance that ever registered, with what it holds now.';

create function disarray.list_queue(
    p_subject_key text default null,
    p_status text default null,
    p_limit integer default 100
)
returns table (
    queue_id bigint,
    source_uri text,
    subject_key text,
    dataset text,
    reason text,
    status text,
    retry_count integer,
    max_retries integer,
    enqueued_at timestamptz,
    available_at timestamptz,
    claimed_by_instance_name text,
    lease_expires_at timestamptz,
    kind text,
    lane text
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    item.queue_id,
    item.source_uri,
    item.subject_key,
    item.dataset,
    item.reason::text,
    item.status::text,
    item.retry_count,
    item.max_retries,
    item.enqueued_at,
    item.available_at,
    item.claimed_by_instance_name,
    item.lease_expires_at,
    item.kind::text,
    item.lane::text
from ingest_queue as item
where
    (p_subject_key is null or item.subject_key = p_subject_key)
    and (p_status is null or item.status::text = p_status)
order by
    item.available_at,
    item.queue_id
limit p_limit
$$;
comment on function disarray.list_queue(text, text, integer) is 'Queued items, oldest first.';

create function disarray.list_files(
    p_status text default null,
    p_subject_key text default null,
    p_limit integer default 100
)
returns table (
    source_uri text,
    subject_key text,
    dataset text,
    status text,
    content_hash text,
    process_count integer,
    retry_count integer,
    last_error text,
    first_seen_at timestamptz,
    last_seen_at timestamptz
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    file.source_uri,
    file.subject_key,
    file.dataset,
    file.status::text,
    file.content_hash,
    file.process_count,
    file.retry_count,
    file.last_error,
    file.first_seen_at,
    file.last_seen_at
from file_info as file
where
    (p_status is null or file.status::text = p_status)
    and (p_subject_key is null or file.subject_key = p_subject_key)
order by file.source_uri
limit p_limit
$$;
comment on function disarray.list_files(text, text, integer) is 'Files that were ever announced, and where each stands.';

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

create function disarray.describe_file(p_source_uri text)
returns jsonb
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select to_jsonb(file) || jsonb_build_object(
    'fragments', (
        select coalesce(jsonb_object_agg(counted.state, counted.said), '{}')
        from (
            select
                case when said.withdrawn_state is null then said.state::text else 'withdrawn' end as state,
                jsonb_build_object('fragments', count(*), 'readings', sum(said.readings)) as said
            from fragment as said
            where
                said.source_uri = file.source_uri
                and (said.state <> 'dropped' or said.withdrawn_state is not null)
            group by 1
        ) as counted
    ),
    'segments', (
        select coalesce(jsonb_agg(to_jsonb(part) order by part.dataset, part.segment_us, part.state), '[]')
        from (
            select
                said.dataset,
                said.segment_us,
                said.state,
                count(*) as fragments,
                sum(said.readings) as readings,
                max(said.generation) as generation,
                min(said.first_us) as first_us,
                max(said.last_us) as last_us,
                max(said.created_at) as changed_at,
                (array_agg(said.run_id order by said.fragment_id desc))[1] as run_id,
                max(around.readings) as segment_readings,
                max(around.duplicates) as segment_duplicates
            from fragment as said
            left join segment as around
                on
                    said.dataset = around.dataset
                    and said.subject_key = around.subject_key
                    and said.segment_us = around.segment_us
            where
                said.source_uri = file.source_uri
                and said.state <> 'dropped'
            group by
                said.dataset,
                said.segment_us,
                said.state
            order by
                said.dataset,
                said.segment_us,
                said.state
            limit 1000
        ) as part
    ),
    'rejected_count', (
        select count(*)
        from rejected_row as rejected
        where rejected.source_uri = file.source_uri
    ),
    'rejected_rows', (
        select coalesce(jsonb_agg(to_jsonb(shown) - 'source_uri' - 'run_id' order by shown.position), '[]')
        from (
            select rejected.*
            from rejected_row as rejected
            where rejected.source_uri = file.source_uri
            order by rejected.position
            limit 20
        ) as shown  -- not `line`: that is a column of it
    ),
    'conflicts', (
        select jsonb_build_object(
            'won', coalesce(sum(found.conflicts) filter (where found.winner_uri = file.source_uri), 0),
            'lost', coalesce(sum(found.conflicts) filter (where found.loser_uri = file.source_uri), 0),
            'segments', count(distinct found.segment_us)
        )
        from conflict as found
        where file.source_uri in (found.winner_uri, found.loser_uri)
    ),
    'blacklist', (
        select to_jsonb(listed) - 'source_uri'
        from file_blacklist as listed
        where listed.source_uri = file.source_uri
    )
)
from file_info as file
where file.source_uri = p_source_uri
$$;
comment on function disarray.describe_file(text) is 'All that is known of a file, with the first lines that were rejected; NULL where it was never announced.';

create function disarray.list_runs(
    p_subject_key text default null,
    p_since timestamptz default '-infinity',
    p_limit integer default 100
)
returns table (run_id uuid, subject_key text, instance_name text, committed_at timestamptz, metadata jsonb)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    done.run_id,
    done.subject_key,
    done.instance_name,
    done.committed_at,
    done.metadata
from run as done
where
    (p_subject_key is null or done.subject_key = p_subject_key)
    and done.committed_at >= p_since
order by
    done.committed_at desc,
    done.run_id
limit p_limit
$$;
comment on function disarray.list_runs(text, timestamptz, integer) is 'Committed passes over subjects, newest first.';

create function disarray.list_subject_states(p_subject_key text default null, p_limit integer default 1000)
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
where p_subject_key is null or known.subject_key = p_subject_key
order by known.subject_key
limit p_limit
$$;
comment on function disarray.list_subject_states(text, integer) is 'Every subject ever seen: its files, what waits, who holds it, from when on it is stale.';
