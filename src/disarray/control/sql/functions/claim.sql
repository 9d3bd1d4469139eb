-- Claims: which work a worker gets, in which order, and for how long.

create function disarray.fetch_items(
    p_instance_name text,
    p_limit integer default 10,
    p_lease_seconds integer default 300,
    p_incarnation bigint default null,
    p_max_subjects integer default 1,
    p_give_way_batches integer default 20,
    p_give_way_seconds integer default 60
)
returns table (
    queue_id bigint,
    source_uri text,
    subject_key text,
    reason text,
    metadata jsonb,
    retry_count integer,
    lease_expires_at timestamptz,
    fence bigint,
    dataset text,
    content_hash text,
    incarnation bigint,
    kind text,
    lane text
)
language plpgsql
security definer
set search_path = disarray, pg_temp
-- Planning each statement anew costs more than running it. A plan that is kept must be good for a full queue also
-- when it was made for an empty one, where reading whole tables looks just as cheap as probing an index.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    v_now constant timestamptz := clock();
    v_lease_expires_at constant timestamptz := v_now + make_interval(secs => p_lease_seconds);
    v_incarnation bigint;
    v_patterns text[];
    v_running integer;
    v_suspect_runs boolean;
    v_most_turns constant integer := least(p_max_subjects, p_limit);
    v_backfill_waits boolean;
    v_locks_expired boolean;
    v_ranges_are_open boolean;
    v_turn_number bigint;
    v_held text[];
    v_kept text[];
    v_passed text[] := '{}';
    v_passed_in_backfill text[] := '{}';
    v_turn record;
    v_found boolean;
    v_is_held boolean;
    v_line bigint[];
    v_first_is_suspect boolean;
    v_first_available_at timestamptz;
    v_served text[] := '{}';
    v_claimed bigint[] := '{}';
    v_subject text;
begin
    -- "Is not true", because a NULL would otherwise pass for no limit at all.
    if (
        p_limit between 1 and 10000
        and p_max_subjects between 1 and 1000
        and p_lease_seconds between 1 and 86400
        and p_give_way_batches >= 0
        and p_give_way_seconds >= 0
    ) is not true then
        raise exception
            'fetch_items takes a limit of 1 to 10000, 1 to 1000 subjects, a lease of 1 to 86400 seconds, and gives way '
            'after 0 or more batches or seconds. Nothing was claimed.'
        using errcode = 'DA001';
    end if;
    -- Whoever pauses the instance waits for claims that are under way, and those that come after see it. An instance that is to
    -- claim nothing serves no subject: it leaves those that it holds as soon as nothing of them runs.
    select case when state_of(known) = 'active' then known.subject_patterns else '{}' end
    into v_patterns
    from instance as known
    where known.instance_name = p_instance_name
    for key share;
    v_incarnation := living_incarnation(p_instance_name, p_incarnation);
    if v_patterns is null then
        -- It registered with this call.
        select known.subject_patterns
        into v_patterns
        from instance as known
        where known.instance_name = p_instance_name;
    end if;
    -- What is seldom needed is only looked for, all at once: to begin with it costs ten times as much.
    select
        exists (select from subject as waiting where waiting.backfill_turn_at <= v_now),
        exists (
            select
            from subject_lock as lock
            inner join instance as known on lock.instance_name = known.instance_name
            where
                lock.lease_expires_at <= v_now
                or known.incarnation <> lock.incarnation
        ),
        exists (select from dirty_range as open where open.resolved_at is null)
    into v_backfill_waits, v_locks_expired, v_ranges_are_open;
    -- Turns are counted while the backfill lane has something, before any other lock: register_instance holds this row while
    -- it waits for others. What ran out may be of that lane, and is claimable again in this very call.
    if v_backfill_waits or v_locks_expired then
        update instance as known
        set turn_count = known.turn_count + v_most_turns
        where known.instance_name = p_instance_name
        returning known.turn_count - v_most_turns into v_turn_number;
    end if;
    if v_locks_expired then
        perform reap_subjects(v_now);
    end if;
    if v_ranges_are_open then
        perform queue_open_ranges(v_now);
    end if;

    select
        count(*),
        coalesce(bool_or(running.crash_count > 0), false)
    into v_running, v_suspect_runs
    from ingest_queue as running
    where
        running.claimed_by_instance_name = p_instance_name;
    -- A file that may have killed a worker runs alone, so that its batch-mates do not pay for it.
    if v_suspect_runs then
        return;
    end if;

    select
        stay.held,
        stay.kept
    into v_held, v_kept
    from subjects_to_stay_on(p_instance_name, v_incarnation, v_patterns, v_now, p_give_way_batches, p_give_way_seconds) as stay;
    if v_patterns = '{}' then
        return;
    end if;
    <<fetching>>
    loop
        v_found := false;
        for v_turn in
            select
                chosen.subject_key,
                chosen.lane,
                count(*) over () - chosen.place + 1 as turns_left
            from choose_turns(
                v_held,
                v_kept,
                v_patterns,
                v_now,
                v_passed,
                v_passed_in_backfill,
                least(v_most_turns - cardinality(v_served), p_limit - cardinality(v_claimed)),
                v_turn_number
            ) with ordinality as chosen (subject_key, lane, place)
        loop
            v_found := true;
            v_turn_number := v_turn_number + 1;
            if v_turn.lane = 'live' then
                v_passed := v_passed || v_turn.subject_key;
            else
                v_passed_in_backfill := v_passed_in_backfill || v_turn.subject_key;
            end if;
            v_is_held := v_turn.subject_key = any(v_kept);

            select
                array_agg(item.queue_id order by item.place) filter (where item.place = 1 or item.crash_count = 0),
                bool_or(item.crash_count > 0) filter (where item.place = 1),
                min(item.available_at)
            into v_line, v_first_is_suspect, v_first_available_at
            from items_in_line(
                v_turn.subject_key,
                v_turn.lane,
                v_now,
                -- Leave room for the subjects still to come: they are what keeps every core busy.
                ceil((p_limit - cardinality(v_claimed))::numeric / v_turn.turns_left)::integer
            ) as item;
            if v_first_is_suspect and v_running + cardinality(v_claimed) > 0 then
                continue when v_first_available_at >= v_now - make_interval(secs => p_give_way_seconds);
                -- Let the instance run dry for a suspect that has waited its share, or it would wait for ever: nothing more
                -- now, and next time no subject goes before it because it is held.
                update subject_lock as lock
                set batch_count = greatest(lock.batch_count, p_give_way_batches)
                where
                    lock.subject_key = any(v_kept || v_served)
                    and lock.instance_name = p_instance_name;
                exit fetching;
            end if;
            if v_line is null then
                if leave_idle_subject(v_turn.subject_key, p_instance_name, v_is_held) then
                    v_kept := array_remove(v_kept, v_turn.subject_key);
                end if;
            elsif hold_subject(v_turn.subject_key, p_instance_name, v_incarnation, v_is_held, v_now, v_lease_expires_at) then
                v_line := case when v_first_is_suspect then v_line[1:1] else v_line end;
                return query
                select claimed.*
                from claim_items(v_turn.subject_key, v_turn.lane, v_line, v_now) as claimed;
                v_claimed := v_claimed || v_line;
                v_served := v_served || v_turn.subject_key;
                v_passed := v_passed || v_turn.subject_key;
                v_passed_in_backfill := v_passed_in_backfill || v_turn.subject_key;
                exit fetching when v_first_is_suspect;
            end if;
        end loop;
        exit fetching when not v_found or cardinality(v_served) >= v_most_turns or cardinality(v_claimed) >= p_limit;
    end loop;
    -- What a turn of the backfill lane, or of a suspect, took the place of must not wait for this instance to come back to it.
    foreach v_subject in array v_held
    loop
        if not v_subject = any(v_served) then
            perform leave_idle_subject(v_subject, p_instance_name, true);
        end if;
    end loop;
end
$$;
comment on function disarray.fetch_items(text, integer, integer, bigint, integer, integer, integer) is
    'Claim work: first on subjects already held, then on the ones that have waited longest, giving way after the stated '
    'batches or seconds when others wait. The live lane goes first; of an instance''s turns, one in backfill_turns() is of the '
    'backfill lane while that has something. Each call frees what expired and renews the leases of what it returns. '
    'Nothing for an instance that is paused or draining: instance_state tells.';

create function disarray.subjects_to_stay_on(
    p_instance_name text,
    p_incarnation bigint,
    p_subject_patterns text[],
    p_now timestamptz,
    p_give_way_batches integer,
    p_give_way_seconds integer,
    out held text[],
    out kept text[]
)
language plpgsql
as $$
declare
    v_others_wait boolean;
    v_held record;
begin
    held := '{}';
    kept := '{}';
    for v_held in
        select
            lock.subject_key,
            lock.batch_count >= p_give_way_batches
            or lock.held_since < p_now - make_interval(secs => p_give_way_seconds) as had_its_share,
            subject.live_turn_at <= p_now and disarray.matches_pattern(lock.subject_key, p_subject_patterns) as has_work
        from disarray.subject_lock as lock
        inner join disarray.subject as subject on lock.subject_key = subject.subject_key
        where
            lock.instance_name = p_instance_name
            and lock.incarnation = p_incarnation
            -- One that expired while its row was locked is no longer ours, even though nobody could free it yet.
            and lock.lease_expires_at > p_now
        order by
            subject.live_turn_at nulls last,
            lock.subject_key
        for update of lock, subject skip locked
    loop
        if v_held.has_work and v_held.had_its_share then
            v_others_wait := coalesce(v_others_wait, disarray.next_subject('live', p_subject_patterns, p_now, '{}', '{}', 0) is not null);
        end if;
        if v_held.has_work and not (v_held.had_its_share and v_others_wait) then
            held := held || v_held.subject_key;
            kept := kept || v_held.subject_key;
        elsif not disarray.leave_idle_subject(v_held.subject_key, p_instance_name, true) then
            kept := kept || v_held.subject_key;
        end if;
    end loop;
end
$$;
comment on function disarray.subjects_to_stay_on(text, bigint, text[], timestamptz, integer, integer) is
    'Subjects that an instance holds, has live work on and need not give way on, their rows locked; the others are freed when '
    'nothing of them runs, and kept until then.';

create function disarray.is_live_work_waiting(p_instance_name text)
returns boolean
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select exists (
    select
    from instance as known
    inner join subject as waiting on matches_pattern(waiting.subject_key, known.subject_patterns)
    where
        known.instance_name = p_instance_name
        -- One that is paused finishes what it has: it could claim nothing in its place.
        and state_of(known) = 'active'
        and waiting.live_turn_at <= clock()
        and not exists (
            select
            from subject_lock as lock
            where
                lock.subject_key = waiting.subject_key
                and lock.instance_name <> p_instance_name
        )
)
$$;
comment on function disarray.is_live_work_waiting(text) is
    'Whether an instance could claim something in the live lane now, or could if it let go of a subject that it holds.';

create function disarray.backfill_turns()
returns integer
language sql
immutable
as $$
select 5
$$;
comment on function disarray.backfill_turns() is
    'While both lanes have something, one turn in so many is of the backfill lane. Not even, or it would always fall on the same '
    'side of those that take turns two by two.';

create function disarray.choose_turns(
    p_held text[],
    p_kept text[],
    p_subject_patterns text[],
    p_now timestamptz,
    p_passed text[],
    p_passed_in_backfill text[],
    p_count integer,
    p_turn_number bigint
)
returns table (subject_key text, lane disarray.ingest_queue_lane)
language plpgsql
as $$
declare
    v_chosen text[] := '{}';
    v_held text[] := array(select held.subject_key from unnest(p_held) as held (subject_key) where not held.subject_key = any(p_passed));
    v_lanes disarray.ingest_queue_lane[] := case when p_turn_number is null then '{live}' else '{live,backfill}' end;
    v_is_turn_of_backfill boolean;
    v_fences_to_come integer := 0;
begin
    while cardinality(v_chosen) < p_count and cardinality(v_lanes) > 0
    loop
        v_is_turn_of_backfill := (p_turn_number + cardinality(v_chosen) + 1) % disarray.backfill_turns() = 0;
        lane := case when v_is_turn_of_backfill and 'backfill' = any(v_lanes) then 'backfill' else v_lanes[1] end;
        if lane = 'backfill' then
            subject_key := disarray.next_subject('backfill', p_subject_patterns, p_now, p_passed_in_backfill || v_chosen, p_kept, v_fences_to_come);
        elsif cardinality(v_held) > 0 then
            subject_key := v_held[1];
            v_held := v_held[2:];
        else
            subject_key := disarray.next_subject('live', p_subject_patterns, p_now, p_passed || v_chosen, '{}', v_fences_to_come);
        end if;
        if subject_key is null then
            v_lanes := array_remove(v_lanes, lane);
        elsif not subject_key = any(v_chosen) then
            v_chosen := v_chosen || subject_key;
            v_fences_to_come := v_fences_to_come + (not subject_key = any(p_kept))::integer;
            return next;
        end if;
    end loop;
end
$$;
comment on function disarray.choose_turns(text[], text[], text[], timestamptz, text[], text[], integer, bigint) is
    'The subjects whose turn it is, each in one lane, their rows locked: in the live lane those held and then those that waited '
    'longest, in the backfill lane by waiting alone, so that nobody is held for it.';

create function disarray.next_subject(
    p_lane disarray.ingest_queue_lane,
    p_subject_patterns text[],
    p_now timestamptz,
    p_passed text[],
    p_kept text[],
    p_fences_to_come integer
)
returns text
language plpgsql
as $$
declare
    -- Every claim of a subject takes a fence, so that the two take turns, whichever instance claims. Those of one call are chosen
    -- before any of them has its fence: were they not counted, all would fall on one side, and an even number of them on the same
    -- side in the next call too.
    v_newcomer_first constant boolean := (select (given.last_value + p_fences_to_come) % 2 = 0 from disarray.fence_seq as given);
    v_has_numbers boolean;
    v_subject text;
begin
    if p_lane = 'backfill' then
        select subject.subject_key
        into v_subject
        from disarray.subject as subject
        where
            subject.backfill_turn_at <= p_now
            and not subject.subject_key = any(p_passed)
            and (
                subject.subject_key = any(p_kept)
                or not exists (select from disarray.subject_lock as lock where lock.subject_key = subject.subject_key)
            )
            and disarray.matches_pattern(subject.subject_key, p_subject_patterns)
        order by
            subject.backfill_turn_at,
            subject.subject_key
        limit 1
        for update of subject skip locked;
        return v_subject;
    end if;
    foreach v_has_numbers in array array[not v_newcomer_first, v_newcomer_first]
    loop
        select subject.subject_key
        into v_subject
        from disarray.subject as subject
        where
            subject.has_numbers = v_has_numbers
            and subject.live_turn_at <= p_now
            and not subject.subject_key = any(p_passed)
            and not exists (select from disarray.subject_lock as lock where lock.subject_key = subject.subject_key)
            and disarray.matches_pattern(subject.subject_key, p_subject_patterns)
        order by
            subject.live_turn_at,
            subject.subject_key
        limit 1
        for update of subject skip locked;
        exit when v_subject is not null;
    end loop;
    return v_subject;
end
$$;
comment on function disarray.next_subject(disarray.ingest_queue_lane, text[], timestamptz, text[], text[], integer) is
    'The free subject that has waited longest in a lane. The live lane alternates between subjects that have numbers and newcomers: '
    'whoever invents subjects delays no other by more than two claims. Its row is locked: this is the gate that lets one claim at a time through.';

create function disarray.items_in_line(
    p_subject_key text,
    p_lane disarray.ingest_queue_lane,
    p_now timestamptz,
    p_limit integer
)
returns table (queue_id bigint, crash_count integer, available_at timestamptz, place bigint)
language plpgsql
as $$
begin
    return query
    select
        line.queue_id,
        line.crash_count,
        line.available_at,
        row_number() over (order by line.available_at, line.queue_id)
    from (
        select
            item.queue_id,
            item.crash_count,
            item.available_at
        from disarray.ingest_queue as item
        where
            item.subject_key = p_subject_key
            and item.lane = p_lane
            and item.status = 'available'
            and item.available_at <= p_now
            -- What came in while its target is being processed waits for that to end: a file never has two claimed orders, nor
            -- a subject two of a kind.
            and not exists (
                select
                from disarray.ingest_queue as running
                where
                    running.source_uri = item.source_uri
                    and running.status = 'claimed'
                -- A probe for each item, always. As a join it would read every claim there is whenever statistics say
                -- that there are none.
                offset 0
            )
            and not exists (
                select
                from disarray.ingest_queue as running
                where
                    item.source_uri is null
                    and running.source_uri is null
                    and running.subject_key = item.subject_key
                    and running.kind = item.kind
                    and running.dataset = item.dataset
                    and running.status = 'claimed'
                offset 0
            )
            -- Not "is not distinct from" above: no index answers that.
            and not exists (
                select
                from disarray.ingest_queue as running
                where
                    item.source_uri is null
                    and item.dataset is null
                    and running.source_uri is null
                    and running.subject_key = item.subject_key
                    and running.kind = item.kind
                    and running.dataset is null
                    and running.status = 'claimed'
                offset 0
            )
        order by
            item.available_at,
            item.queue_id
        limit p_limit
        for update of item skip locked
    ) as line;
end
$$;
comment on function disarray.items_in_line(text, disarray.ingest_queue_lane, timestamptz, integer) is
    'The oldest claimable items of a subject in a lane, locked.';

create function disarray.hold_subject(
    p_subject_key text,
    p_instance_name text,
    p_incarnation bigint,
    p_is_held boolean,
    p_now timestamptz,
    p_lease_expires_at timestamptz
)
returns boolean
language plpgsql
as $$
begin
    if p_is_held then
        update disarray.subject_lock as lock
        set
            lease_expires_at = greatest(lock.lease_expires_at, p_lease_expires_at),
            batch_count = lock.batch_count + 1
        where lock.subject_key = p_subject_key;
    else
        insert into disarray.subject_lock (subject_key, instance_name, incarnation, fence, held_since, batch_count, lease_expires_at)
        values (p_subject_key, p_instance_name, p_incarnation, nextval('disarray.fence_seq'), p_now, 1, p_lease_expires_at)
        -- Another claim may have come and gone since the candidates were listed.
        on conflict do nothing;
    end if;
    return found;
end
$$;
comment on function disarray.hold_subject(text, text, bigint, boolean, timestamptz, timestamptz) is
    'Take or renew a subject; false where somebody else was faster.';

create function disarray.claim_items(
    p_subject_key text,
    p_lane disarray.ingest_queue_lane,
    p_queue_ids bigint[],
    p_now timestamptz
)
returns table (
    queue_id bigint,
    source_uri text,
    subject_key text,
    reason text,
    metadata jsonb,
    retry_count integer,
    lease_expires_at timestamptz,
    fence bigint,
    dataset text,
    content_hash text,
    incarnation bigint,
    kind text,
    lane text
)
language plpgsql
as $$
begin
    return query
    with claimed as (
        update disarray.ingest_queue as item
        set
            status = 'claimed',
            claimed_by_instance_name = lock.instance_name,
            claimed_incarnation = lock.incarnation,
            fence = lock.fence,
            claimed_at = p_now,
            lease_expires_at = lock.lease_expires_at
        from disarray.subject_lock as lock
        where
            lock.subject_key = p_subject_key
            and item.queue_id = any(p_queue_ids)
        returning item.*
    )

    select
        item.queue_id,
        item.source_uri,
        item.subject_key,
        item.reason::text,
        item.metadata,
        item.retry_count,
        item.lease_expires_at,
        item.fence,
        item.dataset,
        item.content_hash,
        item.claimed_incarnation,
        item.kind::text,
        item.lane::text
    from claimed as item
    order by
        item.available_at,
        item.queue_id;
    perform disarray.set_turns(p_subject_key, p_lane, p_now);
end
$$;
comment on function disarray.claim_items(text, disarray.ingest_queue_lane, bigint[], timestamptz) is
    'Mark items as claimed under the lock of their subject, and send the subject to the back of the line; the items, oldest first.';

create function disarray.leave_idle_subject(p_subject_key text, p_instance_name text, p_is_held boolean)
returns boolean
language plpgsql
as $$
declare
    v_is_free boolean;
begin
    -- A lock without work only stands in the way of others.
    delete from disarray.subject_lock as lock
    where
        p_is_held
        and lock.subject_key = p_subject_key
        and not exists (
            select
            from disarray.ingest_queue as running
            where
                running.claimed_by_instance_name = p_instance_name
                and running.subject_key = p_subject_key
        );
    v_is_free := found or not p_is_held;
    perform disarray.set_turns(p_subject_key, null, null);
    return v_is_free;
end
$$;
comment on function disarray.leave_idle_subject(text, text, boolean) is
    'Free a subject of which nothing runs, and note when it is next due; whether it is free.';

create function disarray.set_turns(p_subject_key text, p_served_lane disarray.ingest_queue_lane, p_served_at timestamptz)
returns void
language plpgsql
as $$
begin
    update disarray.subject as subject
    set
        live_served_at = coalesce(served.live_at, subject.live_served_at),
        live_turn_at = case
            when oldest.live_at is not null
                then greatest(oldest.live_at, served.live_at, subject.live_served_at)
        end,
        backfill_served_at = coalesce(served.backfill_at, subject.backfill_served_at),
        backfill_turn_at = case
            when oldest.backfill_at is not null
                then greatest(oldest.backfill_at, served.backfill_at, subject.backfill_served_at)
        end,
        has_numbers = subject.has_numbers or exists (select from disarray.subject_version as made where made.subject_key = p_subject_key)
    from (
        select
            case when p_served_lane = 'live' then p_served_at end as live_at,
            case when p_served_lane = 'backfill' then p_served_at end as backfill_at
    ) as served
    cross join (
        select
            (
                select min(waiting.available_at)
                from disarray.ingest_queue as waiting
                where
                    waiting.subject_key = p_subject_key
                    and waiting.lane = 'live'
                    and waiting.status = 'available'
            ) as live_at,
            (
                select min(waiting.available_at)
                from disarray.ingest_queue as waiting
                where
                    waiting.subject_key = p_subject_key
                    and waiting.lane = 'backfill'
                    and waiting.status = 'available'
            ) as backfill_at
    ) as oldest
    where subject.subject_key = p_subject_key;
end
$$;
comment on function disarray.set_turns(text, disarray.ingest_queue_lane, timestamptz) is
    'Note when a subject is next due in each lane. The caller holds the subject row, or an item that was queued meanwhile would '
    'be forgotten.';
