-- What keeps the lake and the catalog small: compaction, retention, the vacuum, and what may be forgotten.

create function disarray.begin_housekeeping()
returns boolean
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    insert into gate (gate_name)
    values ('housekeeping')
    on conflict do nothing;
    update gate as turn
    set
        held_by_pid = pg_backend_pid(),
        held_since = clock()
    where
        turn.gate_name in (
            select free.gate_name
            from gate as free
            where
                free.gate_name = 'housekeeping'
                and (
                    free.held_by_pid is null
                    or free.held_by_pid = pg_backend_pid()
                    -- A number is given out again one day; nobody keeps house for that long.
                    or free.held_since < clock() - interval '1 day'
                    or not exists (select from pg_stat_activity as session where session.pid = free.held_by_pid)
                )
            for update skip locked
        );
    return found;
end
$$;
comment on function disarray.begin_housekeeping() is
    'Take the turn to keep house; false where another instance has it. It ends with end_housekeeping, or with the session.';

create function disarray.end_housekeeping()
returns boolean
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    update gate as turn
    set
        held_by_pid = null,
        held_since = null
    where
        turn.gate_name = 'housekeeping'
        and turn.held_by_pid = pg_backend_pid();
    return found;
end
$$;
comment on function disarray.end_housekeeping() is 'Give the turn to keep house back.';

create function disarray.list_cold_segments(
    p_dataset text,
    p_parse_version text,
    p_scan_version text,
    p_cold_after interval,
    p_fragments integer,
    p_readings bigint,
    p_subject_key text default null
)
returns table (
    subject_key text,
    segment_us bigint,
    revision bigint,
    digest text,
    readings bigint,
    fragments bigint,
    files bigint
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
with crowded as (
    select
        stored.subject_key,
        stored.segment_us
    from fragment as stored
    where
        stored.dataset = p_dataset
        and stored.state = 'active'
        and (p_subject_key is null or stored.subject_key = p_subject_key)
    group by
        stored.subject_key,
        stored.segment_us
    having
        count(*) >= p_fragments
        and bool_and(stored.parse_version = p_parse_version)
),

-- Row groups that can be moved: all that name one count, and cut it at the same place.
place as (
    select
        stored.subject_key,
        stored.segment_us,
        stored.path,
        stored.row_group,
        max(stored.readings) as readings,
        array_agg(stored.source_uri || ' ' || stored.generation order by stored.source_uri, stored.generation) as named_by
    from crowded
    inner join fragment as stored
        on
            crowded.subject_key = stored.subject_key
            and crowded.segment_us = stored.segment_us
    where
        stored.dataset = p_dataset
        and (stored.state in ('active', 'parked', 'rejected') or stored.withdrawn_state is not null)
    group by
        stored.subject_key,
        stored.segment_us,
        stored.path,
        stored.row_group,
        stored.first_row
    having
        bool_and(stored.state = 'active')
        and count(distinct coalesce(stored.cut_position, -1)) = 1
),

small as (
    select
        place.subject_key,
        place.segment_us,
        count(distinct (place.path, place.row_group)) as fragments,
        count(distinct place.path) as files
    from place
    group by
        place.subject_key,
        place.segment_us
    having
        count(distinct (place.path, place.row_group)) >= p_fragments
        and sum(place.readings) < p_readings * count(distinct (place.path, place.row_group))
        -- Worth it: half of the row groups can be merged away. One takes a thousand fragments, or 100,000 readings.
        and count(distinct (place.path, place.row_group))
        >= 2 * (ceil(count(distinct place.named_by) / 1000.0) + floor(sum(place.readings) / 100000.0))
)

select
    known.subject_key,
    known.segment_us,
    known.revision,
    known.digest,
    known.readings,
    small.fragments,
    small.files
from small
inner join segment as known
    on
        known.dataset = p_dataset
        and small.subject_key = known.subject_key
        and small.segment_us = known.segment_us
inner join run
    on
        known.run_id = run.run_id
        and known.subject_key = run.subject_key
where
    known.scan_version = p_scan_version
    and known.sealed_at is null
    and run.committed_at <= clock() - p_cold_after
order by
    known.subject_key,
    known.segment_us
$$;
comment on function disarray.list_cold_segments(text, text, text, interval, integer, bigint, text) is
    'Segments that nothing has changed for a while and that lie in many small fragments: what a compaction is worth.';

create function disarray.list_expired_segments(
    p_dataset text,
    p_parse_version text,
    p_scan_version text,
    p_retain_us bigint,
    p_subject_key text default null
)
returns table (subject_key text, segment_us bigint, readings bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    known.subject_key,
    known.segment_us,
    known.readings
from segment as known
inner join (
    select
        newest.subject_key,
        max(newest.last_us) as last_us
    from segment as newest
    where
        newest.dataset = p_dataset
        and (p_subject_key is null or newest.subject_key = p_subject_key)
    group by newest.subject_key
) as subject on known.subject_key = subject.subject_key
where
    known.dataset = p_dataset
    and known.segment_end_us <= subject.last_us - p_retain_us
    and known.sealed_at is null
    -- Without its readings a segment could never be made anew: what waits for a rebuild is kept until then.
    and known.scan_version = p_scan_version
    and not exists (
        select
        from fragment as stored
        where
            stored.dataset = known.dataset
            and stored.subject_key = known.subject_key
            and stored.segment_us = known.segment_us
            and stored.state = 'active'
            and stored.parse_version <> p_parse_version
    )
    and not is_left(known.dataset, known.subject_key, known.segment_us)
order by
    known.subject_key,
    known.segment_us
$$;
comment on function disarray.list_expired_segments(text, text, text, bigint, text) is
    'Segments that end longer ago than readings are kept, counted from the newest reading of their subject.';

create function disarray.queue_compaction(p_subject_keys text[])
returns integer
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_subject text;
    v_queued integer := 0;
begin
    for v_subject in
        insert into ingest_queue (kind, lane, subject_key, reason, enqueued_at, available_at)
        select
            'compact'::ingest_queue_kind,
            lane_of('compact'),
            subject.subject_key,
            'compact'::ingest_queue_reason,
            v_now,
            v_now
        from subject
        where subject.subject_key = any(p_subject_keys)
        order by subject.subject_key
        on conflict do nothing
        returning ingest_queue.subject_key
    loop
        perform call_turns(array[v_subject], lane_of('compact'), v_now);
        v_queued := v_queued + 1;
    end loop;
    return v_queued;
end
$$;
comment on function disarray.queue_compaction(text[]) is
    'Queue the housekeeping of some subjects, an item each; how many were not queued yet.';

create function disarray.compact_segments(
    p_run_id uuid,
    p_subject_key text,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_changes json
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_name constant text := p_changes ->> 'dataset';
    v_wrong record;
begin
    perform assert_subject_held(p_subject_key, p_instance_name, p_incarnation, p_fence);
    select
        planned.segment_us,
        planned.revision as planned_revision,
        coalesce(known.revision, 0) as found_revision
    into v_wrong
    from json_to_recordset(p_changes -> 'segments') as planned (segment_us bigint, revision bigint)
    left join segment as known
        on
            known.dataset = v_name
            and known.subject_key = p_subject_key
            and planned.segment_us = known.segment_us
    where planned.revision is distinct from known.revision
    limit 1;
    if found then
        raise exception 'segment % of %/% was to be compacted at revision % and is now at %. Nothing was changed.',
            v_wrong.segment_us, v_name, p_subject_key, v_wrong.planned_revision, v_wrong.found_revision
        using errcode = 'DA006', hint = 'Plan again.';
    end if;
    select planned.segment_us
    into v_wrong
    from json_to_recordset(p_changes -> 'segments') as planned (segment_us bigint, digest text)
    inner join segment as known
        on
            known.dataset = v_name
            and known.subject_key = p_subject_key
            and planned.segment_us = known.segment_us
    where planned.digest is distinct from known.digest
    limit 1;
    if found then
        raise exception 'compacted, segment % of %/% would no longer say what it says. Nothing was changed.',
            v_wrong.segment_us, v_name, p_subject_key
        using errcode = 'DA031', hint = 'disarray verify tells whether its fragments are damaged.';
    end if;

    insert into run (run_id, subject_key, instance_name, fence, committed_at, metadata)
    values (p_run_id, p_subject_key, p_instance_name, p_fence, v_now, coalesce((p_changes -> 'metadata')::jsonb, '{}'));
    perform put_files(p_run_id, p_changes, v_now);
    perform put_fragments(p_run_id, p_subject_key, p_changes, v_now);
    -- Who asks where a number comes from wants the run that read the file, not the one that tidied up.
    update fragment as merged
    set
        run_id = newest.run_id,
        created_at = newest.created_at
    from (
        select distinct on (gone.segment_us, gone.source_uri, gone.generation)
            gone.segment_us,
            gone.source_uri,
            gone.generation,
            gone.run_id,
            gone.created_at
        from json_array_elements_text(p_changes -> 'dropped') as dropped (fragment_id)
        inner join fragment as gone on dropped.fragment_id::bigint = gone.fragment_id
        order by
            gone.segment_us,
            gone.source_uri,
            gone.generation,
            gone.created_at desc
    ) as newest
    where
        merged.dataset = v_name
        and merged.subject_key = p_subject_key
        and merged.segment_us = newest.segment_us
        and merged.state = 'active'
        and merged.source_uri = newest.source_uri
        and merged.generation = newest.generation
        and merged.run_id = p_run_id;
    -- Whoever planned on the fragments that are gone now has to plan again.
    update segment as known
    set revision = known.revision + 1
    from json_to_recordset(p_changes -> 'segments') as planned (segment_us bigint)
    where
        known.dataset = v_name
        and known.subject_key = p_subject_key
        and known.segment_us = planned.segment_us;
end
$$;
comment on function disarray.compact_segments(uuid, text, text, bigint, bigint, json) is
    'Put merged fragments in the place of many, if the segments are still those that were planned on and read the same. '
    'No number changes, so nothing is stale and nothing restated.';

create function disarray.seal_segments(
    p_run_id uuid,
    p_subject_key text,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_dataset text,
    p_segments bigint[]
)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_sealed bigint[];
begin
    perform assert_subject_held(p_subject_key, p_instance_name, p_incarnation, p_fence);
    with sealed as (
        update segment as known
        set
            sealed_at = v_now,
            revision = known.revision + 1,
            table_digest = null
        where
            known.dataset = p_dataset
            and known.subject_key = p_subject_key
            and known.segment_us = any(p_segments)
            and known.sealed_at is null
            -- It may have been noted since they were listed.
            and not is_left(known.dataset, known.subject_key, known.segment_us)
        returning known.segment_us
    )

    select coalesce(array_agg(sealed.segment_us), '{}')
    into v_sealed
    from sealed;
    perform drop_rows(p_dataset, p_subject_key, v_sealed);
    update fragment as stored
    set
        state = 'sealed',
        dropped_at = v_now
    where
        stored.dataset = p_dataset
        and stored.subject_key = p_subject_key
        and stored.segment_us = any(v_sealed)
        and stored.state = 'active';
    insert into run (run_id, subject_key, instance_name, fence, committed_at, metadata)
    values (
        p_run_id, p_subject_key, p_instance_name, p_fence, v_now,
        jsonb_build_object('dataset', p_dataset, 'segments_sealed', cardinality(v_sealed))
    );
    return cardinality(v_sealed);
end
$$;
comment on function disarray.seal_segments(uuid, text, text, bigint, bigint, text, bigint[]) is
    'End the readings of some segments; their summaries, bases and rollups stay, and can change no more. How many were sealed.';

create function disarray.hold_lake_files(p_paths text[])
returns void
language plpgsql
as $$
declare
    v_path text;
begin
    -- The vacuum passes over what is held; what it was faster with is doomed by the time this returns.
    perform
    from disarray.lake_file as file
    where file.path = any(p_paths)
    order by file.path
    for share;
    select wanted.path
    into v_path
    from unnest(p_paths) as wanted (path)
    left join disarray.lake_file as file on wanted.path = file.path
    where
        file.path is null
        or file.doomed_at is not null
    limit 1;
    if found then
        raise exception 'file % of the lake is about to be deleted, or never was part of it. Nothing was changed.', quote_literal(v_path)
        using errcode = 'DA006', hint = 'Plan again.';
    end if;
end
$$;
comment on function disarray.hold_lake_files(text[]) is
    'Keep the vacuum from files that fragments of this transaction lie in; refuses those that it has got hold of before.';

create function disarray.list_dead_lake_files(p_keep interval)
returns table (path text, bytes bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    file.path,
    file.bytes
from lake_file as file
where
    file.doomed_at is not null
    or (
        file.created_at <= clock() - p_keep
        and not exists (
            select
            from fragment as stored
            where
                stored.path = file.path
                and (stored.dropped_at is null or stored.dropped_at > clock() - p_keep or stored.withdrawn_state is not null)
        )
        -- What a split wrote for subjects that have not taken it in yet.
        and not exists (select from part_delivery as waiting where file.path = any(waiting.paths))
    )
$$;
comment on function disarray.list_dead_lake_files(interval) is
    'Files of the lake that no fragment needs, and has not for that long; those that are doomed already come with them.';

create function disarray.doom_lake_files(p_keep interval)
returns table (path text, bytes bigint)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
#variable_conflict use_column
declare
    v_paths text[];
begin
    v_paths := array(
        select file.path
        from lake_file as file
        where file.path in (select dead.path from list_dead_lake_files(p_keep) as dead)
        order by file.path
        -- A commit that is under way holds the files that it names.
        for update skip locked
    );
    update lake_file as file
    set doomed_at = clock()
    where
        file.path = any(v_paths)
        and file.doomed_at is null
        -- Asked again, now that the rows are locked: a commit may have named a file since they were listed.
        and file.path in (select dead.path from list_dead_lake_files(p_keep) as dead);
    return query
    select
        file.path,
        file.bytes
    from lake_file as file
    where file.doomed_at is not null;
end
$$;
comment on function disarray.doom_lake_files(interval) is
    'Mark the files that no fragment needs: from now on no commit can name them. Answers all that are doomed and not forgotten yet.';

create function disarray.forget_lake_files(p_paths text[])
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_forgotten bigint;
begin
    delete from fragment as stored
    using lake_file as file
    where
        file.path = any(p_paths)
        and file.doomed_at is not null
        and stored.path = file.path
        and stored.state = 'dropped';
    delete from lake_file as file
    where
        file.path = any(p_paths)
        and file.doomed_at is not null;
    get diagnostics v_forgotten = row_count;
    return v_forgotten;
end
$$;
comment on function disarray.forget_lake_files(text[]) is 'The last step of a vacuum: doomed files that are deleted leave the catalog; how many did.';

create function disarray.find_unknown_lake_files(p_paths text[])
returns setof text
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select wanted.path
from unnest(p_paths) as wanted (path)
where not exists (select from lake_file as file where file.path = wanted.path)
$$;
comment on function disarray.find_unknown_lake_files(text[]) is 'Those of some files that no commit ever named.';

create function disarray.oldest_claim_age()
returns interval
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select clock() - min(item.claimed_at)
from ingest_queue as item
where item.status = 'claimed'
$$;
comment on function disarray.oldest_claim_age() is
    'How long ago the oldest claim that still holds was made: what was written before belongs to no run under way. NULL without any.';

create function disarray.forget_history(p_keep interval, p_keep_fragments interval, p_is_rehearsal boolean default false)
returns table (dirty_ranges bigint, runs bigint, fragments bigint)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_limit constant timestamptz := clock() - p_keep;
begin
    if (p_keep >= interval '1 day' and p_keep_fragments >= interval '0') is not true then
        raise exception 'history is kept for a day at least, not %. Nothing was forgotten.', p_keep
        using errcode = 'DA001';
    end if;
    begin
        delete from dirty_range as old
        where old.resolved_at < v_limit;
        get diagnostics dirty_ranges = row_count;
        delete from fragment as old
        where
            old.state = 'dropped'
            and old.withdrawn_state is null
            and old.dropped_at <= clock() - p_keep_fragments;
        get diagnostics fragments = row_count;
        delete from run as old
        where
            old.committed_at < v_limit
            and not exists (select from segment as known where known.run_id = old.run_id)
            and not exists (select from fragment as known where known.run_id = old.run_id)
            and not exists (select from lake_file as known where known.run_id = old.run_id)
            and not exists (select from restatement as known where known.run_id = old.run_id)
            and not exists (select from file_fingerprint as known where known.run_id = old.run_id)
            and not exists (select from rejected_row as known where known.run_id = old.run_id);
        get diagnostics runs = row_count;
        delete from instance as old
        where
            old.last_seen_at < v_limit
            and not is_worker(old);
        if p_is_rehearsal then
            raise sqlstate 'DA099';
        end if;
    -- Caught here, it undoes the block and reaches nobody.
    exception when sqlstate 'DA099' then
        null;
    end;
    return next;
end
$$;
comment on function disarray.forget_history(interval, interval, boolean) is
    'Forget resolved dirty ranges, dropped fragments, runs that nothing stored refers to, and commands that ended; how many went, or would go. '
    'Restatements are never forgotten.';
