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
        'open_dirty_ranges', (
            select count(*)
            from dirty_range as open
            where open.resolved_at is null
        ),
        'instances', (
            select coalesce(jsonb_agg(to_jsonb(listed) order by listed.instance_name), '[]')
            from list_instances() as listed
        )
    );
end
$$;
comment on function disarray.queue_status() is 'The whole control plane in one document; unserved_subjects lists those that wait and match no instance.';

create function disarray.list_instances()
returns table (
    instance_name text,
    incarnation bigint,
    subject_patterns text[],
    registered_at timestamptz,
    last_seen_at timestamptz,
    held_subjects bigint,
    claimed_items bigint
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
    )
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
    lease_expires_at timestamptz
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
    item.lease_expires_at
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
                said.state,
                jsonb_build_object('fragments', count(*), 'readings', sum(said.readings)) as said
            from fragment as said
            where
                said.source_uri = file.source_uri
                and said.state <> 'dropped'
            group by said.state
        ) as counted
    ),
    'rejected_rows', (
        select coalesce(jsonb_agg(to_jsonb(line) - 'source_uri' - 'run_id' order by line.position), '[]')
        from (
            select rejected.*
            from rejected_row as rejected
            where rejected.source_uri = file.source_uri
            order by rejected.position
            limit 20
        ) as line
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
