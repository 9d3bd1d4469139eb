-- What must be true of the control plane at any moment. Each function answers with what is not: nothing found is good news.
-- A rule is named by its first column; store/audit/rules.py says what a broken one means and what to run next.

create function disarray.audit_files(p_since interval, p_limit integer)
returns table (rule text, found_at text, detail text)
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
as $$
begin
    return query
    select
        'pending_files_are_queued',
        file.source_uri,
        'pending since ' || file.last_seen_at || ', nothing of it is queued'
    from file_info as file
    where
        file.status = 'pending'
        and not exists (select from ingest_queue as item where item.source_uri = file.source_uri)
    order by file.source_uri
    limit p_limit;

    return query
    select
        'queued_files_are_known',
        item.source_uri,
        format('item %s (%s)', item.queue_id, item.reason)
    from ingest_queue as item
    where
        item.source_uri is not null
        and not exists (select from file_info as file where file.source_uri = item.source_uri)
    order by item.queue_id
    limit p_limit;

    return query
    select
        'the_newest_version_is_in',
        file.source_uri,
        format('announced %s, in is %s, nothing of it is queued', file.announced_hash, coalesce(file.content_hash, 'none'))
    from file_info as file
    where
        file.status = 'processed'
        and file.announced_hash is not null
        and file.announced_hash is distinct from file.content_hash
        and not exists (select from ingest_queue as item where item.source_uri = file.source_uri)
    order by file.source_uri
    limit p_limit;

    return query
    select
        'requests_have_an_end',
        asked.source_uri,
        format('item %s of %s left the queue and nobody says how', event_queue_id(asked), asked.occurred_at)
    from ingest_event as asked
    where
        asked.occurred_at >= clock() - p_since
        and asked.event_type = 'enqueued'
        -- Work on a whole subject is done with whatever else is done to it.
        and asked.source_uri is not null
        and not exists (
            select
            from ingest_queue as item
            where item.queue_id = event_queue_id(asked)
        )
        -- Two questions, not one with "or": each can be hashed, and a file that is announced every second has many events.
        and not exists (
            select
            from ingest_event as ended
            where
                -- A claim that went back may have become part of the row that waited.
                ended.event_type in ('completed', 'failed', 'released', 'lease_expired', 'taken_over')
                and ended.source_uri = asked.source_uri
                and event_queue_id(ended) = event_queue_id(asked)
        )
        and not exists (
            select
            from ingest_event as ended
            where
                -- Whatever waits behind a file that is refused or given up goes with it.
                ended.event_type in ('blacklisted', 'dead_letter')
                and ended.source_uri = asked.source_uri
                -- Not by time: clocks are set back now and then.
                and ended.event_id > asked.event_id
        )
    order by asked.event_id
    limit p_limit;

    return query
    select
        'blacklisted_files_count_for_nothing',
        listed.source_uri,
        format('%s readings of it count', sum(stored.readings))
    from file_blacklist as listed
    inner join fragment as stored on listed.source_uri = stored.source_uri
    where
        stored.state in ('active', 'parked')
        and not exists (select from ingest_queue as item where item.source_uri = listed.source_uri)
        -- A removal that was given up is a dead letter, and known as one.
        and not exists (select from file_info as file where file.source_uri = listed.source_uri and file.failed_at is not null)
    group by listed.source_uri
    order by listed.source_uri
    limit p_limit;

    return query
    select
        'refused_files_are_on_the_blacklist',
        file.source_uri,
        'it is refused, and nobody says by whom and why'
    from file_info as file
    where
        file.status = 'blacklisted'
        and not exists (select from file_blacklist as listed where listed.source_uri = file.source_uri)
    order by file.source_uri
    limit p_limit;
end
$$;
comment on function disarray.audit_files(interval, integer) is
    'No loss: files and requests that are nowhere. Requests are followed through the events of the given time.';

create function disarray.audit_leases(p_since interval, p_patience interval, p_limit integer)
returns table (rule text, found_at text, detail text)
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
as $$
begin
    return query
    select
        'claims_stand_on_a_lock',
        item.subject_key,
        format('item %s is claimed by %s (incarnation %s, fence %s)', item.queue_id, item.claimed_by_instance_name, item.claimed_incarnation, item.fence)
    from ingest_queue as item
    where
        item.status = 'claimed'
        and not exists (
            select
            from subject_lock as lock
            where
                lock.subject_key = item.subject_key
                and lock.instance_name = item.claimed_by_instance_name
                and lock.incarnation = item.claimed_incarnation
                and lock.fence = item.fence
        )
    order by item.queue_id
    limit p_limit;

    return query
    select
        'locks_belong_to_a_living_holder',
        lock.subject_key,
        format('held by %s in incarnation %s, which is %s', lock.instance_name, lock.incarnation, coalesce('now ' || known.incarnation, 'not registered'))
    from subject_lock as lock
    left join instance as known on lock.instance_name = known.instance_name
    where
        known.instance_name is null
        or lock.incarnation > known.incarnation
        -- Its next life frees what it held, and where somebody is at a row then the next claim of anybody does.
        or (lock.incarnation < known.incarnation and known.registered_at < clock() - p_patience)
    order by lock.subject_key
    limit p_limit;

    return query
    select
        'a_fence_is_given_once',
        min(lock.subject_key),
        format('fence %s is that of %s subjects', lock.fence, count(*))
    from subject_lock as lock
    group by lock.fence
    having count(*) > 1
    order by lock.fence
    limit p_limit;

    return query
    with committed as (
        select
            run.subject_key,
            run.run_id,
            run.fence,
            -- By transaction and not by time: clocks are set back now and then. A dump brings many with one transaction.
            max(run.fence) over (
                partition by run.subject_key
                order by age(run.xmin) desc
                groups between unbounded preceding and 1 preceding
            ) as newest_fence
        from run
        where run.committed_at >= clock() - p_since
    )

    select
        'no_commit_passes_a_newer_fence',
        late.subject_key,
        format('run %s committed with fence %s after one with fence %s', late.run_id, late.fence, late.newest_fence)
    from committed as late
    where late.fence < late.newest_fence
    order by late.subject_key
    limit p_limit;
end
$$;
comment on function disarray.audit_leases(interval, interval, integer) is
    'Fencing, and one holder for each subject: claims, locks and commits that do not go together.';

create function disarray.audit_progress(p_patience interval, p_limit integer)
returns table (rule text, found_at text, detail text)
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_limit constant timestamptz := clock() - p_patience;
begin
    return query
    select
        'leases_that_ran_out_are_returned',
        lock.subject_key,
        format('the lease of %s ran out at %s', lock.instance_name, lock.lease_expires_at)
    from subject_lock as lock
    where lock.lease_expires_at < v_limit
    order by lock.lease_expires_at
    limit p_limit;

    return query
    with due as (
        select
            item.subject_key,
            item.lane,
            min(item.available_at) as since
        from ingest_queue as item
        where
            item.status = 'available'
            and item.available_at < v_limit
        group by
            item.subject_key,
            item.lane
    )

    select
        'due_subjects_are_called',
        due.subject_key,
        format('an item is due in the %s lane since %s, the next turn of its subject there is %s', due.lane, due.since, coalesce(turn.next_at::text, 'never'))
    from due
    left join subject on due.subject_key = subject.subject_key
    cross join lateral (
        select
            case due.lane when 'live' then subject.live_turn_at else subject.backfill_turn_at end as next_at,
            case due.lane when 'live' then subject.live_served_at else subject.backfill_served_at end as served_at
    ) as turn
    where
        turn.next_at is null
        or turn.next_at > greatest(due.since, turn.served_at, clock() + p_patience)
    order by due.since
    limit p_limit;

    return query
    select
        'due_subjects_are_served',
        item.subject_key,
        'an item is due since ' || min(item.available_at) || ', and no instance serves its subject'
    from ingest_queue as item
    where
        item.status = 'available'
        and item.available_at < v_limit
        and not exists (
            select
            from instance as known
            where
                is_worker(known)
                and matches_pattern(item.subject_key, known.subject_patterns)
        )
    group by item.subject_key
    order by min(item.available_at)
    limit p_limit;

    return query
    select
        'stale_numbers_wait_for_their_repair',
        open.subject_key,
        'stale from ' || min(open.range_start) || ' on, known since ' || min(open.created_at)
    from (
        select
            shifting.subject_key,
            shifting.range_start,
            shifting.created_at
        from dirty_range as shifting
        where shifting.resolved_at is null
        union all
        select
            moving.subject_key,
            moving.stale_from,
            moving.noted_at
        from moving_file as moving
        -- One that is to come and could not be read is a dead letter, and listed as such.
        where not exists (
            select
            from file_info as file
            where
                moving.is_arriving
                and moving.decision is null
                and file.source_uri = moving.source_uri
                and file.failed_at is not null
        )
    ) as open
    where
        open.created_at < v_limit
        and not exists (select from ingest_queue as item where item.subject_key = open.subject_key)
        and not exists (select from subject_lock as lock where lock.subject_key = open.subject_key)
    group by open.subject_key
    order by open.subject_key
    limit p_limit;
end
$$;
comment on function disarray.audit_progress(interval, integer) is
    'Liveness: what has waited longer than the patience given and would wait for ever.';

create function disarray.audit_limits(p_limit integer)
returns table (rule text, found_at text, detail text)
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
as $$
begin
    return query
    select
        'attempts_are_limited',
        coalesce(item.source_uri, item.subject_key),
        format('item %s has used %s of %s attempts and is queued', item.queue_id, item.retry_count, item.max_retries)
    from ingest_queue as item
    where item.retry_count >= item.max_retries
    order by item.queue_id
    limit p_limit;

    return query
    select
        'what_is_kept_of_a_file_is_limited',
        file.source_uri,
        format('%s bytes of metadata, %s characters of error', octet_length(file.metadata::text), coalesce(length(file.last_error), 0))
    from file_info as file
    where
        octet_length(file.source_uri) > 2048
        or octet_length(file.metadata::text) > 16384
        or length(file.last_error) > 4000
    order by file.source_uri
    limit p_limit;

    return query
    select
        'rejected_rows_are_limited',
        line.source_uri,
        format('%s rejected lines are kept, the longest sample has %s characters', count(*), max(length(line.sample)))
    from rejected_row as line
    group by line.source_uri
    having
        count(*) > 1000
        -- 200 bytes, each spelled with four characters at most.
        or max(length(line.sample)) > 800
    order by line.source_uri
    limit p_limit;
end
$$;
comment on function disarray.audit_limits(integer) is 'Bounded: rows that outgrew the caps which every door of the product enforces.';
