-- How work is claimed.

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
    v_held text[];
    v_subject text;
    v_is_held boolean;
    v_passed text[] := '{}';
    v_served integer := 0;
    v_sharers integer;
    v_line bigint[];
    v_first_is_suspect boolean;
    v_first_available_at timestamptz;
    v_claimed bigint[] := '{}';
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
    -- Whoever pauses the instance waits for claims that are under way, and those that come after see it.
    perform
    from instance as known
    where known.instance_name = p_instance_name
    for key share;
    v_incarnation := living_incarnation(p_instance_name, p_incarnation);
    -- An instance that is to claim nothing serves no subject: it leaves those that it holds as soon as nothing of them runs.
    select case when state_of(known) = 'active' then known.subject_patterns else '{}' end
    into v_patterns
    from instance as known
    where known.instance_name = p_instance_name;
    perform reap_subjects(v_now);
    perform queue_open_ranges(v_now);

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

    v_held := subjects_to_stay_on(p_instance_name, v_incarnation, v_patterns, v_now, p_give_way_batches, p_give_way_seconds);
    if v_patterns = '{}' then
        return;
    end if;
    select least(p_max_subjects, cardinality(v_held) + count(*))
    into v_sharers
    from (
        (
            select
            from subject as waiting
            where
                waiting.next_turn_at <= v_now
                and waiting.has_numbers
                and not exists (select from subject_lock as lock where lock.subject_key = waiting.subject_key)
            limit p_max_subjects
        )
        union all
        (
            select
            from subject as waiting
            where
                waiting.next_turn_at <= v_now
                and not waiting.has_numbers
                and not exists (select from subject_lock as lock where lock.subject_key = waiting.subject_key)
            limit p_max_subjects
        )
    ) as others;
    loop
        exit when cardinality(v_claimed) >= p_limit or v_served >= p_max_subjects;
        v_is_held := cardinality(v_held) > 0;
        v_subject := case when v_is_held then v_held[1] else next_subject(v_patterns, v_now, v_passed) end;
        exit when v_subject is null;
        v_held := v_held[2:];
        v_passed := v_passed || v_subject;

        select
            array_agg(item.queue_id order by item.place) filter (where item.place = 1 or item.crash_count = 0),
            bool_or(item.crash_count > 0) filter (where item.place = 1),
            min(item.available_at)
        into v_line, v_first_is_suspect, v_first_available_at
        from items_in_line(
            v_subject,
            v_now,
            -- Leave room for the subjects still to come: they are what keeps every core busy.
            ceil((p_limit - cardinality(v_claimed))::numeric / greatest(1, v_sharers - v_served))::integer
        ) as item;
        if v_first_is_suspect and v_running + cardinality(v_claimed) > 0 then
            continue when v_first_available_at >= v_now - make_interval(secs => p_give_way_seconds);
            -- Let the instance run dry for a suspect that has waited its share, or it would wait for ever: nothing more
            -- now, and next time no subject goes before it because it is held.
            update subject_lock as lock
            set batch_count = greatest(lock.batch_count, p_give_way_batches)
            where
                lock.subject_key = any(v_passed || v_held)
                and lock.instance_name = p_instance_name;
            exit;
        end if;
        if v_line is null then
            perform leave_idle_subject(v_subject, p_instance_name, v_is_held);
        elsif hold_subject(v_subject, p_instance_name, v_incarnation, v_is_held, v_now, v_lease_expires_at) then
            v_line := case when v_first_is_suspect then v_line[1:1] else v_line end;
            perform claim_items(v_subject, v_line, v_now);
            v_claimed := v_claimed || v_line;
            v_served := v_served + 1;
            exit when v_first_is_suspect;
        end if;
    end loop;

    return query
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
    from ingest_queue as item
    where item.queue_id = any(v_claimed)
    order by
        item.subject_key,
        item.available_at,
        item.queue_id;
end
$$;
comment on function disarray.fetch_items(text, integer, integer, bigint, integer, integer, integer) is
    'Claim work: first on subjects already held, then on the ones that have waited longest, giving way after the stated '
    'batches or seconds when others wait. Each call frees what expired and renews the leases of what it returns. '
    'Nothing for an instance that is paused or draining: instance_state tells.';

create function disarray.subjects_to_stay_on(
    p_instance_name text,
    p_incarnation bigint,
    p_subject_patterns text[],
    p_now timestamptz,
    p_give_way_batches integer,
    p_give_way_seconds integer
)
returns text[]
language plpgsql
as $$
declare
    v_others_wait boolean;
    v_held record;
    v_stay_on text[] := '{}';
begin
    for v_held in
        select
            lock.subject_key,
            lock.batch_count >= p_give_way_batches
            or lock.held_since < p_now - make_interval(secs => p_give_way_seconds) as had_its_share,
            disarray.matches_pattern(lock.subject_key, p_subject_patterns) as is_bound
        from disarray.subject_lock as lock
        inner join disarray.subject as subject on lock.subject_key = subject.subject_key
        where
            lock.instance_name = p_instance_name
            and lock.incarnation = p_incarnation
            -- One that expired while its row was locked is no longer ours, even though nobody could free it yet.
            and lock.lease_expires_at > p_now
        order by
            subject.next_turn_at nulls last,
            lock.subject_key
        for update of lock, subject skip locked
    loop
        if v_held.is_bound and v_held.had_its_share then
            v_others_wait := coalesce(v_others_wait, disarray.next_subject(p_subject_patterns, p_now, '{}') is not null);
        end if;
        if not v_held.is_bound or (v_held.had_its_share and v_others_wait) then
            perform disarray.leave_idle_subject(v_held.subject_key, p_instance_name, true);
        else
            v_stay_on := v_stay_on || v_held.subject_key;
        end if;
    end loop;
    return v_stay_on;
end
$$;
comment on function disarray.subjects_to_stay_on(text, bigint, text[], timestamptz, integer, integer) is
    'Subjects that an instance holds and need not give way on, their rows locked; those it gives way on are freed when nothing of them runs.';

create function disarray.next_subject(p_subject_patterns text[], p_now timestamptz, p_passed text[])
returns text
language plpgsql
as $$
declare
    -- Every claim of a subject takes a fence, so that the two take turns, whichever instance claims.
    v_newcomer_first constant boolean := (select given.last_value % 2 = 0 from disarray.fence_seq as given);
    v_is_newcomer boolean;
    v_subject text;
begin
    foreach v_is_newcomer in array array[v_newcomer_first, not v_newcomer_first]
    loop
        -- Two statements, each with an index that holds its subjects alone: none looks at the others to pass them over.
        if v_is_newcomer then
            select subject.subject_key
            into v_subject
            from disarray.subject as subject
            where
                subject.next_turn_at <= p_now
                and not subject.has_numbers
                and not subject.subject_key = any(p_passed)
                and not exists (select from disarray.subject_lock as lock where lock.subject_key = subject.subject_key)
                and disarray.matches_pattern(subject.subject_key, p_subject_patterns)
            order by
                subject.next_turn_at,
                subject.subject_key
            limit 1
            for update of subject skip locked;
        else
            select subject.subject_key
            into v_subject
            from disarray.subject as subject
            where
                subject.next_turn_at <= p_now
                and subject.has_numbers
                and not subject.subject_key = any(p_passed)
                and not exists (select from disarray.subject_lock as lock where lock.subject_key = subject.subject_key)
                and disarray.matches_pattern(subject.subject_key, p_subject_patterns)
            order by
                subject.next_turn_at,
                subject.subject_key
            limit 1
            for update of subject skip locked;
        end if;
        exit when v_subject is not null;
    end loop;
    return v_subject;
end
$$;
comment on function disarray.next_subject(text[], timestamptz, text[]) is
    'The free subject that has waited longest, in turns one that has numbers and a newcomer: whoever invents subjects delays no '
    'other by more than one claim. Its row is locked: this is the gate that lets one claim at a time through.';

create function disarray.items_in_line(p_subject_key text, p_now timestamptz, p_limit integer)
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
                    and running.dataset is not distinct from item.dataset
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
comment on function disarray.items_in_line(text, timestamptz, integer) is 'The oldest claimable items of a subject, locked.';

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

create function disarray.claim_items(p_subject_key text, p_queue_ids bigint[], p_now timestamptz)
returns void
language plpgsql
as $$
begin
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
        and item.queue_id = any(p_queue_ids);
    perform disarray.set_turn(p_subject_key, p_now);
end
$$;
comment on function disarray.claim_items(text, bigint[], timestamptz) is
    'Mark items as claimed under the lock of their subject, and send the subject to the back of the line.';

create function disarray.leave_idle_subject(p_subject_key text, p_instance_name text, p_is_held boolean)
returns void
language plpgsql
as $$
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
    perform disarray.set_turn(p_subject_key, null);
end
$$;
comment on function disarray.leave_idle_subject(text, text, boolean) is 'Free a subject of which nothing runs, and note when it is next due.';

create function disarray.set_turn(p_subject_key text, p_served_at timestamptz)
returns void
language plpgsql
as $$
begin
    update disarray.subject as subject
    set
        last_served_at = coalesce(p_served_at, subject.last_served_at),
        next_turn_at = case
            when rest.oldest_at is not null
                then greatest(rest.oldest_at, p_served_at, subject.last_served_at)
        end,
        has_numbers = subject.has_numbers or exists (select from disarray.subject_version as made where made.subject_key = p_subject_key)
    from (
        select min(waiting.available_at) as oldest_at
        from disarray.ingest_queue as waiting
        where
            waiting.subject_key = p_subject_key
            and waiting.status = 'available'
    ) as rest
    where subject.subject_key = p_subject_key;
end
$$;
comment on function disarray.set_turn(text, timestamptz) is
    'Note when a subject is next due. The caller holds the subject row, or an item that was queued meanwhile would be forgotten.';

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
                    and item.status = 'available'
            )
        order by subject.subject_key
        -- A notification that is not committed yet holds its subject, and will wake it anyway.
        for update of subject skip locked
        on conflict do nothing
        returning ingest_queue.subject_key
    loop
        perform disarray.call_turn(v_subject, p_now);
    end loop;
end
$$;
comment on function disarray.queue_open_ranges(timestamptz) is
    'A subject with open dirty ranges, nobody on it and nothing queued, comes back as a reconcile item.';

create function disarray.call_turn(p_subject_key text, p_available_at timestamptz)
returns void
language plpgsql
as $$
begin
    insert into disarray.subject as subject (subject_key, next_turn_at, first_seen_at)
    values (p_subject_key, p_available_at, disarray.clock())
    on conflict (subject_key) do update
    set next_turn_at = greatest(excluded.next_turn_at, subject.last_served_at)
    -- Where this is false the row is locked all the same: a claim that is about to say "nothing is queued" must wait for us.
    where
        subject.next_turn_at is null
        or subject.next_turn_at > greatest(excluded.next_turn_at, subject.last_served_at);
end
$$;
comment on function disarray.call_turn(text, timestamptz) is 'Tell a subject that an item of it was made available.';
