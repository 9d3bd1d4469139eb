-- The queue: what is put into it without a file, whom that calls, and what waits there.

create function disarray.queue_open_ranges(p_now timestamptz)
returns void
language plpgsql
as $$
declare
    v_subject text;
begin
    for v_subject in
        insert into disarray.ingest_queue (kind, lane, subject_key, reason, enqueued_at, available_at)
        select
            'reconcile'::disarray.ingest_queue_kind,
            disarray.lane_of('reconcile'),
            subject.subject_key,
            'reconcile'::disarray.ingest_queue_reason,
            p_now,
            p_now
        from disarray.subject as subject
        where
            subject.subject_key in (
                select open.subject_key
                from disarray.dirty_range as open
                where open.resolved_at is null
            )
            and not exists (select from disarray.subject_lock as lock where lock.subject_key = subject.subject_key)
            and not exists (
                select
                from disarray.ingest_queue as item
                where
                    item.subject_key = subject.subject_key
                    -- What waits in the other lane may wait for long, and stale numbers must not.
                    and item.lane = 'live'
                    and item.status = 'available'
            )
        order by subject.subject_key
        -- A notification that is not committed yet holds its subject, and will wake it anyway.
        for update of subject skip locked
        on conflict do nothing
        returning ingest_queue.subject_key
    loop
        perform disarray.call_turns(array[v_subject], disarray.lane_of('reconcile'), p_now);
    end loop;
end
$$;
comment on function disarray.queue_open_ranges(timestamptz) is
    'A subject with open dirty ranges, nobody on it and nothing queued in the live lane, comes back as a reconcile item.';

create function disarray.call_turns(p_subject_keys text[], p_lane disarray.ingest_queue_lane, p_available_at timestamptz)
returns void
language plpgsql
as $$
begin
    insert into disarray.subject as subject (subject_key, live_turn_at, backfill_turn_at, first_seen_at)
    select
        called.subject_key,
        case when p_lane = 'live' then p_available_at end,
        case when p_lane = 'backfill' then p_available_at end,
        disarray.clock()
    from unnest(p_subject_keys) as called (subject_key)
    order by called.subject_key
    on conflict (subject_key) do update
    set
        live_turn_at = case
            when p_lane = 'live' then greatest(p_available_at, subject.live_served_at)
            else subject.live_turn_at
        end,
        backfill_turn_at = case
            when p_lane = 'backfill' then greatest(p_available_at, subject.backfill_served_at)
            else subject.backfill_turn_at
        end
    -- Where this is false the row is locked all the same: a claim that is about to say "nothing is queued" must wait for us.
    where
        case p_lane
            when 'live' then subject.live_turn_at is null or subject.live_turn_at > greatest(p_available_at, subject.live_served_at)
            else subject.backfill_turn_at is null or subject.backfill_turn_at > greatest(p_available_at, subject.backfill_served_at)
        end;
end
$$;
comment on function disarray.call_turns(text[], disarray.ingest_queue_lane, timestamptz) is
    'Tell subjects that an item of each was made available in a lane.';

create function disarray.list_queue(
    p_subject_key text default null,
    p_status text default null,
    p_limit integer default 100,
    p_after text[] default null
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
    and item.queue_id > coalesce(p_after[1]::bigint, 0)
order by item.queue_id
limit p_limit
$$;
comment on function disarray.list_queue(text, text, integer, text[]) is 'Queued items, in the order in which they were queued.';
