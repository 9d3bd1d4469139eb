-- How claimed work ends, and how it comes back.

create function disarray.assert_subject_held(
    p_subject_key text,
    p_instance_name text,
    p_incarnation bigint default null,
    p_fence bigint default null
)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_lock subject_lock;
begin
    select lock.*
    into v_lock
    from subject_lock as lock
    where lock.subject_key = p_subject_key
    for update;
    if not found
        or v_lock.instance_name is distinct from p_instance_name
        or v_lock.incarnation is distinct from coalesce(p_incarnation, v_lock.incarnation)
        or v_lock.fence is distinct from coalesce(p_fence, v_lock.fence)
        or v_lock.lease_expires_at <= clock()
    then
        raise exception 'subject % is no longer held by % (incarnation %, fence %). Nothing was changed.',
            quote_literal(p_subject_key), quote_literal(p_instance_name),
            coalesce(p_incarnation::text, 'any'), coalesce(p_fence::text, 'any')
        using errcode = 'DA002', hint = 'Drop this work: it went back to the queue, or another worker has it.';
    end if;
    return v_lock.fence;
end
$$;
comment on function disarray.assert_subject_held(text, text, bigint, bigint) is
    'First statement of every commit: lock the row of the subject and check instance, incarnation, lease and fence. '
    'Until the transaction ends nobody can take the subject over.';

create function disarray.lock_targets(p_queue_ids bigint[], p_instance_name text, p_incarnation bigint)
returns bigint[]
language plpgsql
as $$
declare
    v_subject_keys text[];
    v_source_uris text[];
    v_subject_key text;
    v_fences bigint[] := '{}';
begin
    select
        array_agg(distinct item.subject_key),
        array_agg(item.source_uri)
    into v_subject_keys, v_source_uris
    from disarray.ingest_queue as item
    where item.queue_id = any(p_queue_ids);
    if v_subject_keys is null then
        return v_fences;
    end if;
    foreach v_subject_key in array v_subject_keys
    loop
        v_fences := v_fences || disarray.assert_subject_held(v_subject_key, p_instance_name, p_incarnation);
    end loop;
    perform
    from disarray.file_info as file
    where file.source_uri = any(v_source_uris)
    order by file.source_uri
    for update;
    return v_fences;
end
$$;
comment on function disarray.lock_targets(bigint[], text, bigint) is
    'Lock what a batch of claims stands on, subjects before files and both by name, as everybody does; the fences under which the '
    'subjects are held. A claim of the caller has one of them.';

create function disarray.lock_claims(p_queue_ids bigint[], p_instance_name text, p_incarnation bigint)
returns void
language plpgsql
as $$
declare
    v_fences constant bigint[] := disarray.lock_targets(p_queue_ids, p_instance_name, p_incarnation);
begin
    perform disarray.refuse_other_claims(
        p_queue_ids,
        array(
            select item.queue_id
            from disarray.ingest_queue as item
            where
                item.queue_id = any(p_queue_ids)
                and item.fence = any(v_fences)
        ),
        p_instance_name,
        p_incarnation
    );
end
$$;
comment on function disarray.lock_claims(bigint[], text, bigint) is
    'Lock what a batch of claims stands on, and refuse the batch if one claim is not the caller''s.';

create function disarray.refuse_other_claims(
    p_queue_ids bigint[],
    p_own_queue_ids bigint[],
    p_instance_name text,
    p_incarnation bigint
)
returns void
language plpgsql
as $$
declare
    v_other bigint;
begin
    if cardinality(p_queue_ids) = cardinality(p_own_queue_ids) then
        return;
    end if;
    select given.queue_id
    into v_other
    from unnest(p_queue_ids) as given (queue_id)
    where (given.queue_id = any(p_own_queue_ids)) is not true
    limit 1;
    -- Fewer are found where an item is named twice.
    if found then
        raise exception 'item % is not claimed by % (incarnation %). Nothing was changed.',
            coalesce(v_other::text, 'NULL'), quote_literal(p_instance_name), coalesce(p_incarnation::text, 'any')
        using errcode = 'DA002', hint = 'Drop this work: it was finished before, went back to the queue, or another worker has it.';
    end if;
end
$$;
comment on function disarray.refuse_other_claims(bigint[], bigint[], text, bigint) is
    'Refuse a batch that names an item which is not among those that the caller was found to hold.';

create function disarray.complete_items(
    p_queue_ids bigint[],
    p_instance_name text,
    p_metadata jsonb[] default null,
    p_incarnation bigint default null
)
returns void
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
    v_fences bigint[];
    v_ended bigint[];
    v_source_uris text[];
begin
    if cardinality(p_queue_ids) <> coalesce(cardinality(p_metadata), cardinality(p_queue_ids)) then
        raise exception 'complete_items needs one metadata for each of the % items. Nothing was changed.', cardinality(p_queue_ids)
        using errcode = 'DA001';
    end if;
    if p_metadata is not null then
        perform check_outcome(given.metadata)
        from unnest(p_metadata) as given (metadata);
    end if;
    v_fences := lock_targets(p_queue_ids, p_instance_name, p_incarnation);

    with outcome as (
        delete from ingest_queue as item
        using unnest(p_queue_ids, p_metadata) as given (queue_id, metadata)
        where
            item.queue_id = given.queue_id
            and item.fence = any(v_fences)
        returning
            item.queue_id,
            item.source_uri,
            item.subject_key,
            item.kind,
            item.reason,
            item.reason = 'quiet' or item.metadata -> 'reasons' ? 'quiet' as is_of_quiet_file,
            item.content_hash as announced_hash,
            coalesce(given.metadata ->> 'content_hash', item.content_hash) as content_hash,
            item.enqueued_at,
            item.claimed_at,
            coalesce(given.metadata, '{}') as result,
            coalesce(given.metadata ? 'content_hash', false) as was_read,
            -- Each asked once for a file. Not "exists": that may be planned as a hash of all that waits. Without "limit" it may be
            -- planned as a bitmap, at five times the cost.
            (
                select true
                from ingest_queue as waiting
                where
                    waiting.source_uri = item.source_uri
                    and waiting.status = 'available'
                limit 1
            ) as has_successor,
            (
                select true
                from fragment as parked
                where
                    parked.source_uri = item.source_uri
                    and parked.state = 'parked'
                limit 1
            ) as has_parked_readings
    ),

    noted as (
        update file_info as file
        set
            (status, parked_hash, parked_at) = (
                select
                    case
                        when file.status = 'blacklisted' then 'blacklisted'
                        when outcome.has_successor then 'pending'
                        -- Whatever else was done to it: part of it waits for an operator.
                        when waits.version_hash is not null or outcome.has_parked_readings then 'parked'
                        else 'processed'
                    end::file_info_status,
                    waits.version_hash,
                    case
                        when waits.version_hash is null then null
                        when waits.version_hash = file.parked_hash then file.parked_at
                        else v_now
                    end
                from (
                    select
                        case
                            -- Rejected once, it is not asked about again.
                            when outcome.result ? 'parked_hash'
                                then nullif(outcome.result ->> 'parked_hash', file.rejected_hash)
                            when outcome.result ->> 'outcome' = 'parked' and outcome.has_parked_readings is null
                                then coalesce(outcome.announced_hash, file.announced_hash, 'unknown')
                            -- Read and taken, or found as it was: there is no other version any more.
                            when outcome.was_read or outcome.result ->> 'outcome' = 'processed' then null
                            else file.parked_hash
                        end as version_hash
                ) as waits
            ),
            -- A file belongs to whom it was read for; what was announced is a hint.
            subject_key = case when outcome.result ? 'dataset' then outcome.subject_key else file.subject_key end,
            dataset = coalesce(outcome.result ->> 'dataset', file.dataset),
            content_hash = coalesce(outcome.content_hash, file.content_hash),
            -- What was read may be newer than what was announced; what was announced meanwhile is newer still.
            announced_hash = case
                when file.announced_hash is not distinct from outcome.announced_hash then outcome.content_hash
                else file.announced_hash
            end,
            quiet_hash = case when outcome.is_of_quiet_file then outcome.content_hash else file.quiet_hash end,
            parse_version = coalesce(outcome.result ->> 'parse_version', file.parse_version),
            -- Of a version without a single reading there is nothing to say.
            logical_start = case
                when outcome.was_read then (outcome.result ->> 'logical_start')::timestamptz
                else coalesce((outcome.result ->> 'logical_start')::timestamptz, file.logical_start)
            end,
            logical_end = case
                when outcome.was_read then (outcome.result ->> 'logical_end')::timestamptz
                else coalesce((outcome.result ->> 'logical_end')::timestamptz, file.logical_end)
            end,
            process_count = file.process_count + 1,
            retry_count = 0,
            crash_count = 0,
            last_error = null,
            metadata = case
                when outcome.result = '{}' then file.metadata
                else merged_metadata(file.metadata, outcome.result - 'parked_hash')
            end
        from outcome
        where file.source_uri = outcome.source_uri
    ),

    logged as (
        insert into ingest_event (
            occurred_at, event_type, source_uri, subject_key, instance_name, queue_id, kind, reason, content_hash,
            enqueued_at, claimed_at, metadata
        )
        select
            v_now,
            'completed',
            outcome.source_uri,
            outcome.subject_key,
            p_instance_name,
            outcome.queue_id,
            outcome.kind,
            outcome.reason,
            outcome.content_hash,
            outcome.enqueued_at,
            outcome.claimed_at,
            outcome.result - 'content_hash'
        from outcome
    )

    select
        array_agg(outcome.queue_id),
        array_agg(outcome.source_uri) filter (where outcome.source_uri is not null)
    into v_ended, v_source_uris
    from outcome;
    perform refuse_other_claims(p_queue_ids, coalesce(v_ended, '{}'), p_instance_name, p_incarnation);
    if has_hook('quarantine') then
        perform note_quarantine_effects(
            array(
                select file.source_uri
                from file_info as file
                where
                    file.source_uri = any(v_source_uris)
                    and file.parked_at = v_now
            ),
            'version',
            v_now
        );
    end if;
end
$$;
comment on function disarray.complete_items(bigint[], text, jsonb[], bigint) is
    'End claims whose work is committed, all or none. Metadata may say outcome (processed or parked), content_hash, '
    'parked_hash (of a version that was read and not taken), parse_version, logical_start and logical_end, and the dataset '
    'that a file was read for; the rest is kept with the file.';

create function disarray.complete_item(
    p_queue_id bigint,
    p_instance_name text,
    p_metadata jsonb default '{}',
    p_incarnation bigint default null
)
returns void
language sql
security definer
set search_path = disarray, pg_temp
as $$
select complete_items(array[p_queue_id], p_instance_name, array[p_metadata], p_incarnation)
$$;
comment on function disarray.complete_item(bigint, text, jsonb, bigint) is 'End one claim whose work is committed.';

create function disarray.check_outcome(p_metadata jsonb)
returns void
language plpgsql
stable
as $$
begin
    perform disarray.check_metadata(p_metadata);
    if coalesce(p_metadata ->> 'outcome', 'processed') not in ('processed', 'parked') then
        raise exception 'outcome % is not known, an item is completed as processed or parked. Nothing was changed.', p_metadata -> 'outcome'
        using errcode = 'DA001', hint = 'Use fail_item for work that could not be done.';
    end if;
end
$$;
comment on function disarray.check_outcome(jsonb) is 'Refuse metadata of a completion that says what cannot be.';

create function disarray.fail_items(
    p_queue_ids bigint[],
    p_instance_name text,
    p_error_messages text[],
    p_retry_delay_seconds integer default 60,
    p_metadata jsonb[] default null,
    p_incarnation bigint default null,
    p_are_permanent boolean[] default null,
    p_are_counted boolean default true
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_count constant integer := cardinality(p_queue_ids);
    v_failed record;
begin
    if v_count is distinct from cardinality(p_error_messages)
        or v_count <> coalesce(cardinality(p_metadata), v_count)
        or v_count <> coalesce(cardinality(p_are_permanent), v_count)
    then
        raise exception 'fail_items needs one message, metadata and verdict for each of the % items. Nothing was changed.', v_count
        using errcode = 'DA001';
    end if;
    if p_retry_delay_seconds < 0 then
        raise exception 'a retry delay of % seconds lies in the past. Nothing was changed.', p_retry_delay_seconds
        using errcode = 'DA001';
    end if;
    perform check_metadata(given.metadata)
    from unnest(p_metadata) as given (metadata);
    perform lock_claims(p_queue_ids, p_instance_name, p_incarnation);
    -- One after the other would lock a file after the subject of another: here all files are locked before any subject,
    -- and both by name.
    for v_failed in
        select
            item,
            given.message,
            coalesce(given.metadata, '{}') as metadata,
            coalesce(given.is_permanent, false) as is_permanent
        from unnest(p_queue_ids, p_error_messages, p_metadata, p_are_permanent)
            as given (queue_id, message, metadata, is_permanent)
        inner join ingest_queue as item on given.queue_id = item.queue_id
        order by
            item.subject_key,
            item.source_uri
    loop
        perform return_claim(
            v_failed.item,
            p_event => 'failed',
            p_now => v_now,
            p_error_message => coalesce(v_failed.message, 'no reason was given'),
            p_delay => make_interval(
                secs => coalesce(p_retry_delay_seconds, 60 * 5 ^ least((v_failed.item).retry_count, 3))
            ),
            p_attempts => case when v_failed.is_permanent then (v_failed.item).max_retries when p_are_counted then 1 else 0 end,
            p_metadata => v_failed.metadata
        );
    end loop;
end
$$;
comment on function disarray.fail_items(bigint[], text, text[], integer, jsonb[], bigint, boolean[], boolean) is
    'Give items back after a failure, all or none: each available after the delay (NULL: 1, 5, 25 minutes, then 125), or a '
    'dead letter once its attempts are used up or the failure is permanent. Those that are not counted wait for something '
    'else to be mended.';

create function disarray.fail_item(
    p_queue_id bigint,
    p_instance_name text,
    p_error_message text,
    p_retry_delay_seconds integer default 60,
    p_metadata jsonb default '{}',
    p_incarnation bigint default null,
    p_is_permanent boolean default false
)
returns void
language sql
security definer
set search_path = disarray, pg_temp
as $$
select fail_items(
    array[p_queue_id],
    p_instance_name,
    array[p_error_message],
    p_retry_delay_seconds,
    array[p_metadata],
    p_incarnation,
    array[p_is_permanent]
)
$$;
comment on function disarray.fail_item(bigint, text, text, integer, jsonb, bigint, boolean) is
    'Give one item back after a failure.';

create function disarray.end_wait(p_subject_key text, p_now timestamptz)
returns void
language plpgsql
as $$
declare
    v_lane disarray.ingest_queue_lane;
begin
    for v_lane in
        -- Items that failed by themselves have attempts; they keep their delay.
        update disarray.ingest_queue as item
        set available_at = p_now
        where
            item.subject_key = p_subject_key
            and item.status = 'available'
            and item.available_at > p_now
            and item.retry_count = 0
        returning item.lane
    loop
        perform disarray.call_turns(array[p_subject_key], v_lane, p_now);
    end loop;
end
$$;
comment on function disarray.end_wait(text, timestamptz) is 'Items of a subject that waited, uncounted, for what has now been done.';

create function disarray.release_subject(p_subject_key text, p_instance_name text, p_incarnation bigint default null)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_item ingest_queue;
begin
    perform assert_subject_held(p_subject_key, p_instance_name, p_incarnation);
    perform lock_claims(
        array(
            select item.queue_id
            from ingest_queue as item
            where
                item.status = 'claimed'
                and item.claimed_by_instance_name = p_instance_name
                and item.subject_key = p_subject_key
        ),
        p_instance_name,
        p_incarnation
    );
    for v_item in
        select item.*
        from ingest_queue as item
        where
            item.claimed_by_instance_name = p_instance_name
            and item.subject_key = p_subject_key
        order by item.source_uri
    loop
        perform return_claim(v_item, p_event => 'released', p_now => v_now, p_attempts => 0);
    end loop;
    delete from subject_lock as lock
    where lock.subject_key = p_subject_key;
end
$$;
comment on function disarray.release_subject(text, text, bigint) is
    'Hand a subject back, with what is claimed of it; no attempt is counted.';

create function disarray.release_subjects(p_subject_keys text[], p_instance_name text, p_incarnation bigint default null)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_subject text;
begin
    -- In the order of their names, as everybody who locks several.
    for v_subject in
        select distinct held.subject_key
        from unnest(p_subject_keys) as held (subject_key)
        order by held.subject_key
    loop
        perform release_subject(v_subject, p_instance_name, p_incarnation);
    end loop;
end
$$;
comment on function disarray.release_subjects(text[], text, bigint) is
    'Hand several subjects back in one round trip; where one of them is lost, none is.';

create function disarray.renew_subjects(
    p_subject_keys text[],
    p_instance_name text,
    p_lease_seconds integer default 300,
    p_incarnation bigint default null
)
returns text[]
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_incarnation constant bigint := living_incarnation(p_instance_name, p_incarnation);
    v_renewed text[];
begin
    if (p_lease_seconds between 1 and 86400) is not true then
        raise exception 'a lease has 1 to 86400 seconds, not %. Nothing was renewed.', p_lease_seconds
        using errcode = 'DA001';
    end if;
    with held as (
        select lock.subject_key
        from subject_lock as lock
        where
            lock.subject_key = any(p_subject_keys)
            and lock.instance_name = p_instance_name
            and lock.incarnation = v_incarnation
            and lock.lease_expires_at > v_now
        order by lock.subject_key
        -- A commit that is under way holds its row; it needs no renewal, and must not hold up those of others.
        for update skip locked
    ),

    renewed as (
        update subject_lock as lock
        set lease_expires_at = greatest(lock.lease_expires_at, v_now + make_interval(secs => p_lease_seconds))
        from held
        where lock.subject_key = held.subject_key
        returning lock.subject_key, lock.lease_expires_at
    ),

    shown as (
        update ingest_queue as item
        set lease_expires_at = renewed.lease_expires_at
        from renewed
        where
            item.claimed_by_instance_name = p_instance_name
            and item.subject_key = renewed.subject_key
    )

    select coalesce(array_agg(renewed.subject_key order by renewed.subject_key), '{}')
    into v_renewed
    from renewed;
    return v_renewed;
end
$$;
comment on function disarray.renew_subjects(text[], text, integer, bigint) is
    'Renew the leases of the named subjects; answers which were. One that is missing is lost, or its commit is under way.';

create function disarray.return_unknown_claims(p_known_queue_ids bigint[], p_instance_name text, p_incarnation bigint)
returns integer
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_incarnation constant bigint := living_incarnation(p_instance_name, p_incarnation);
    v_unknown constant bigint[] := array(
        select item.queue_id
        from ingest_queue as item
        where
            item.claimed_by_instance_name = p_instance_name
            and item.claimed_incarnation = v_incarnation
            and not item.queue_id = any(p_known_queue_ids)
    );
    v_item ingest_queue;
begin
    perform lock_claims(v_unknown, p_instance_name, v_incarnation);
    for v_item in
        select item.*
        from ingest_queue as item
        where item.queue_id = any(v_unknown)
        order by
            item.subject_key,
            item.source_uri
    loop
        perform return_claim(v_item, p_event => 'released', p_now => v_now, p_attempts => 0);
    end loop;
    return cardinality(v_unknown);
end
$$;
comment on function disarray.return_unknown_claims(bigint[], text, bigint) is
    'Hand back claims whose reply was lost on the way, so that nobody works on them; no attempt is counted. '
    'The caller names every claim that it knows of.';

create function disarray.reap_subjects(p_now timestamptz, p_instance_name text default null)
returns integer
language plpgsql
as $$
declare
    v_lock record;
    v_item disarray.ingest_queue;
    v_count integer := 0;
begin
    for v_lock in
        select
            lock.*,
            known.incarnation <> lock.incarnation as is_former_life
        from disarray.subject_lock as lock
        inner join disarray.instance as known on lock.instance_name = known.instance_name
        inner join disarray.subject as subject on lock.subject_key = subject.subject_key
        where
            (lock.lease_expires_at <= p_now or known.incarnation <> lock.incarnation)
            and (p_instance_name is null or lock.instance_name = p_instance_name)
        order by lock.subject_key
        -- A worker frozen inside its commit holds the lock until its session times out, and a notification that is not
        -- committed yet holds the subject; others must not wait for them.
        for update of lock, subject skip locked
    loop
        continue when not disarray.lock_files_of(v_lock.subject_key);
        for v_item in
            select item.*
            from disarray.ingest_queue as item
            where
                item.subject_key = v_lock.subject_key
                and item.claimed_by_instance_name = v_lock.instance_name
            order by item.source_uri
        loop
            perform disarray.return_claim(
                v_item,
                p_event => case when v_lock.is_former_life then 'taken_over' else 'lease_expired' end::disarray.ingest_event_event_type,
                p_now => p_now,
                p_error_message => case
                    when v_lock.is_former_life then 'the worker died and was started again'
                    else 'the lease ran out: the worker died, hung or lost its connection'
                end,
                p_attempts => 1,
                p_crashes => 1
            );
        end loop;
        delete from disarray.subject_lock as lock
        where lock.subject_key = v_lock.subject_key;
        v_count := v_count + 1;
    end loop;
    return v_count;
end
$$;
comment on function disarray.reap_subjects(timestamptz, text) is
    'Free subjects whose lease ran out or whose holder lives again; their claims go back as crashed attempts.';

create function disarray.lock_files_of(p_subject_key text)
returns boolean
language plpgsql
as $$
declare
    v_wanted bigint;
    v_locked bigint;
begin
    select count(*)
    into v_wanted
    from disarray.ingest_queue as item
    inner join disarray.file_info as file on item.source_uri = file.source_uri
    where
        item.status = 'claimed'
        and item.subject_key = p_subject_key;
    select count(*)
    into v_locked
    from (
        select
        from disarray.ingest_queue as item
        inner join disarray.file_info as file on item.source_uri = file.source_uri
        where
            item.status = 'claimed'
            and item.subject_key = p_subject_key
        order by file.source_uri
        for update of file skip locked
    ) as taken;
    return v_locked = v_wanted;
end
$$;
comment on function disarray.lock_files_of(text) is
    'Lock the files that are claimed of a subject, without waiting; false where somebody else is at one of them.';

create function disarray.return_claim(
    p_item disarray.ingest_queue,
    p_event disarray.ingest_event_event_type,
    p_now timestamptz,
    p_error_message text default null,
    p_delay interval default '0',
    p_attempts integer default 1,
    p_crashes integer default 0,
    p_metadata jsonb default '{}'
)
returns void
language plpgsql
as $$
declare
    v_retry_count integer;
    v_crash_count integer;
    v_is_dead boolean;
    v_waiting disarray.ingest_queue;
    v_is_same_version boolean;
    v_is_given_up boolean;
begin
    -- The file knows better than the row: its version may have been processed, or asked for again, since the claim.
    select
        coalesce(max(file.retry_count), p_item.retry_count) + p_attempts,
        coalesce(max(file.crash_count), p_item.crash_count) + p_crashes
    into v_retry_count, v_crash_count
    from disarray.file_info as file
    where
        file.source_uri = p_item.source_uri
        and file.announced_hash is not distinct from p_item.content_hash;
    v_is_dead := p_attempts > 0 and v_retry_count >= p_item.max_retries;
    if p_item.source_uri is not null then
        select item.*
        into v_waiting
        from disarray.ingest_queue as item
        where
            item.source_uri = p_item.source_uri
            and item.status = 'available'
        for update;
    else
        select item.*
        into v_waiting
        from disarray.ingest_queue as item
        where
            item.source_uri is null
            and item.subject_key = p_item.subject_key
            and item.kind = p_item.kind
            and item.dataset is not distinct from p_item.dataset
            and item.lane = p_item.lane
            and item.status = 'available'
        for update;
    end if;
    v_is_same_version := v_waiting.content_hash is not distinct from p_item.content_hash;

    if v_waiting.queue_id is null and not v_is_dead then
        update disarray.ingest_queue as item
        set
            status = 'available',
            claimed_by_instance_name = null,
            claimed_incarnation = null,
            fence = null,
            claimed_at = null,
            lease_expires_at = null,
            retry_count = v_retry_count,
            crash_count = v_crash_count,
            -- What was handed back undone keeps its place in the line.
            available_at = case when p_attempts = 0 and p_delay = '0' then item.available_at else p_now + p_delay end
        where item.queue_id = p_item.queue_id;
    else
        delete from disarray.ingest_queue as item
        where
            item.queue_id = p_item.queue_id
            -- The same content waiting behind a dead letter is dead too; an operator's request never is.
            or (v_is_dead and v_is_same_version and item.queue_id = v_waiting.queue_id and not disarray.is_asked_for(v_waiting.reason));
    end if;
    if v_waiting.queue_id is not null and not v_is_dead then
        update disarray.ingest_queue as item
        set
            -- Of reading and removing, what waits was asked for later, and stands.
            reason = disarray.shown_reason(p_item.reason, item.reason),
            metadata = disarray.merged_request(p_item.metadata, p_item.reason, item.metadata, item.reason),
            retry_count = case when v_is_same_version then v_retry_count else item.retry_count end,
            crash_count = case when v_is_same_version then v_crash_count else item.crash_count end,
            -- What was asked for on purpose meanwhile does not wait for the delay of this failure.
            available_at = case
                when v_is_same_version and not disarray.is_asked_for(item.reason) then greatest(item.available_at, p_now + p_delay)
                else item.available_at
            end
        where item.queue_id = v_waiting.queue_id;
    end if;

    v_is_given_up := not exists (select from disarray.ingest_queue as item where item.source_uri = p_item.source_uri);
    update disarray.file_info as file
    set
        status = case
            when file.status = 'blacklisted' then 'blacklisted'
            when v_is_given_up then 'failed'
            else 'pending'
        end::disarray.file_info_status,
        retry_count = case
            when file.announced_hash is distinct from p_item.content_hash then file.retry_count
            -- Behind a dead letter only a request on purpose goes on, with a full set of attempts.
            when v_is_dead and v_is_same_version and disarray.is_asked_for(v_waiting.reason) then v_waiting.retry_count
            else v_retry_count
        end,
        crash_count = case when file.announced_hash is not distinct from p_item.content_hash then v_crash_count else file.crash_count end,
        last_error = coalesce(left(p_error_message, 4000), file.last_error),
        failed_at = case when v_is_given_up then p_now end,
        failed_request = case
            when v_is_given_up then jsonb_build_object('reason', p_item.reason, 'metadata', p_item.metadata - 'content_hash')
        end
    where file.source_uri = p_item.source_uri;

    insert into disarray.ingest_event (
        occurred_at, event_type, source_uri, subject_key, instance_name, queue_id, kind, reason, content_hash, metadata
    )
    select
        p_now,
        happened.event_type,
        p_item.source_uri,
        p_item.subject_key,
        p_item.claimed_by_instance_name,
        p_item.queue_id,
        p_item.kind,
        p_item.reason,
        p_item.content_hash,
        p_metadata || jsonb_build_object('retry_count', v_retry_count, 'error', left(p_error_message, 4000))
    from (
        values
            (p_event, true),
            ('dead_letter', v_is_dead),
            ('superseded', v_waiting.queue_id is not null and not v_is_same_version and not v_is_dead)
    ) as happened (event_type, is_so)
    where happened.is_so;
    if v_is_dead then
        perform disarray.note_dead_letter_effects(p_item, v_retry_count, p_error_message);
    end if;
    perform disarray.call_turns(array[p_item.subject_key], p_item.lane, p_now + p_delay);
end
$$;
comment on function disarray.return_claim(disarray.ingest_queue, disarray.ingest_event_event_type, timestamptz, text, interval, integer, integer, jsonb) is
    'Put a claimed order back: as the one that waits for its target, into one that waits already, or away as a dead letter. '
    'The caller holds the subject lock and the file row.';
