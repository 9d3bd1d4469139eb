-- The one transaction that makes a pass visible. All of it or nothing: readers see the old numbers or the new ones.

create function disarray.commit_subject(
    p_run_id uuid,
    p_subject_key text,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_changes json,
    p_max_shift_rows bigint default 100000,
    p_rows json[] default '{}',
    p_profiles jsonb[] default '{}'
)
returns jsonb
language plpgsql
security definer
set search_path = disarray, pg_temp
-- Planning each statement anew costs more than running it.
set plan_cache_mode = force_generic_plan
as $$
declare
    v_now constant timestamptz := clock();
    v_dataset json;
    v_place integer := 0;
    v_frontier_us bigint;
    v_newest_us bigint;
    v_restates jsonb;
    v_changed bigint;
    v_segments bigint[];
    v_is_rebuild boolean;
    v_was_rebuilt boolean := false;
    v_was_mended boolean;
    v_resolved record;
    v_done jsonb := '[]';
begin
    perform assert_subject_held(p_subject_key, p_instance_name, p_incarnation, p_fence);
    -- Before the definitions: who changes one has changed the table that belongs to it.
    perform hold_store(held.dataset, coalesce(held.store, 'lake'))
    from json_to_recordset(p_changes -> 'datasets') as held (dataset text, store text)
    order by held.dataset;
    perform assert_in_force(
        array_agg(changed.dataset order by changed.place),
        array_agg(changed.parse_version order by changed.place),
        array_agg(changed.scan_version order by changed.place)
    )
    from rows from (
        json_to_recordset(p_changes -> 'datasets') as (dataset text, parse_version text, scan_version text)
    ) with ordinality as changed (dataset, parse_version, scan_version, place);
    insert into run (run_id, subject_key, instance_name, fence, committed_at, metadata)
    values (p_run_id, p_subject_key, p_instance_name, p_fence, v_now, coalesce((p_changes -> 'metadata')::jsonb, '{}'));
    perform put_files(p_run_id, p_changes, v_now);
    perform end_moves(p_subject_key, p_changes);
    -- What is compared with what was published must have been published: a shift that was put off comes first.
    if json_array_length(p_changes -> 'datasets') > 0 then
        perform resolve_ranges(p_subject_key, p_instance_name, null, p_run_id);
    end if;
    for v_dataset in
        select changed.value
        from json_array_elements(p_changes -> 'datasets') as changed
    loop
        v_place := v_place + 1;
        v_restates := null;
        v_segments := array(select changed.segment_us from changed_segments(p_subject_key, v_dataset) as changed);
        v_frontier_us := (select min(changed.segment_us) from unnest(v_segments) as changed (segment_us));
        select max(known.segment_us)
        into v_newest_us
        from segment as known
        where
            known.dataset = v_dataset ->> 'dataset'
            and known.subject_key = p_subject_key;
        if v_frontier_us is not null and (v_dataset ->> 'restates')::boolean then
            v_restates := former_values(p_run_id, p_subject_key, v_dataset, p_profiles[v_place]);
        end if;
        v_is_rebuild := settle_version(p_subject_key, v_dataset);
        v_was_rebuilt := v_was_rebuilt or v_is_rebuild;
        perform assert_decided(v_dataset, p_changes -> 'completions');
        perform put_fragments(p_run_id, p_subject_key, v_dataset, v_now);
        perform begin_subject_commit(p_run_id, p_subject_key, v_dataset, v_segments, v_is_rebuild);
        v_changed := put_segments(p_run_id, p_subject_key, v_dataset, p_rows[v_place]);
        if v_is_rebuild then
            perform keep_unscanned(p_subject_key, v_dataset);
        end if;
        if v_frontier_us is not null then
            insert into dirty_range (subject_key, dataset, range_start, range_end, reason, created_at, restates)
            values (
                p_subject_key, v_dataset ->> 'dataset', instant_of(v_frontier_us), 'infinity', 'commit ' || p_run_id, v_now, v_restates
            );
        end if;
        -- Where rows follow, finish_commit does it.
        if p_rows is not null then
            perform end_subject_commit(p_run_id, p_subject_key, v_dataset ->> 'dataset');
        end if;
        select resolved.*
        into v_resolved
        -- The old numbers of a rebuilt subject are gone with this commit: the new ones must be whole with it.
        from resolve_ranges(
            p_subject_key, p_instance_name, case when not v_is_rebuild then p_max_shift_rows end, p_run_id
        ) as resolved
        -- Where rows follow, there is nothing to add up yet: finish_commit does it.
        where p_rows is not null;
        v_done := v_done || jsonb_build_object(
            'dataset', v_dataset ->> 'dataset',
            'frontier_us', v_frontier_us,
            'newest_segment_us', v_newest_us,
            'segments_changed', v_changed,
            'bases_shifted', coalesce(v_resolved.bases_shifted, 0),
            'restatements', coalesce(v_resolved.restatements, 0),
            'changed_segments', case when p_rows is null then v_segments end
        );
    end loop;
    if json_array_length(p_changes -> 'moved') > 0 then
        -- Files that belong to other subjects now: what they said here goes with this commit, and must not be lost with it.
        perform
        from (
            select
                array_agg(moved.source_uri) as uris,
                array_agg(moved.subject_key) as subjects,
                array_agg('reingest'::text) as reasons,
                array_agg(jsonb_build_object('dataset', moved.dataset)) as metadata
            from json_to_recordset(p_changes -> 'moved') as moved (source_uri text, subject_key text, dataset text)
        ) as batch
        cross join lateral enqueue_requests(batch.uris, batch.subjects, batch.reasons, p_instance_name, batch.metadata);
    end if;
    if coalesce(json_array_length(p_changes -> 'parts'), 0) + coalesce(json_array_length(p_changes -> 'parts_taken'), 0) > 0 then
        perform put_file_parts(p_run_id, p_changes, p_instance_name, v_now);
    end if;
    -- What was decided about a file may be what others wait for: read again, or counting no more, it damages nothing.
    v_was_mended := exists (
        select
        from json_to_recordset(p_changes -> 'completions') as done (queue_id bigint)
        inner join ingest_queue as item on done.queue_id = item.queue_id
        where item.reason in ('reingest', 'remove')
    );
    perform complete_items(
        array(
            select done.queue_id
            from json_to_recordset(p_changes -> 'completions') as done (queue_id bigint)
        ),
        p_instance_name,
        array(
            select done.metadata
            from json_to_recordset(p_changes -> 'completions') as done (metadata jsonb)
        ),
        p_incarnation
    );
    perform begin_moves(p_subject_key, p_changes, v_now);
    if v_was_rebuilt or v_was_mended then
        perform end_wait(p_subject_key, v_now);
    end if;
    if p_rows is null then
        return v_done;
    end if;
    if json_array_length(p_changes -> 'datasets') > 0 then
        -- A shift that was too large for this commit is the next thing that is done about the subject, by whom ever.
        perform queue_reconcile(p_subject_key, v_now);
    end if;
    perform add_figures(p_instance_name, p_changes -> 'figures', v_done, v_now);
    return v_done;
end
$$;
comment on function disarray.commit_subject(uuid, text, text, bigint, bigint, json, bigint, json[], jsonb[]) is
    'Make one pass over a subject visible: fragments, segments, summaries, rollups, fingerprints, completions and the shift of bases. '
    'Answers for each dataset from where on it changed, the newest segment before, and how much it moved. '
    'With p_rows NULL the rows of the changed segments, which it names, follow by put_rows, and finish_commit ends the commit.';

create function disarray.assert_committing(p_run_id uuid, p_subject_key text)
returns text
language plpgsql
as $$
declare
    v_instance_name text;
begin
    -- The row is of this very transaction: commit_subject checked lease and fence in it and holds the row of the subject.
    select known.instance_name
    into v_instance_name
    from disarray.run as known
    where
        known.run_id = p_run_id
        and known.subject_key = p_subject_key
        and known.xmin = pg_current_xact_id()::xid;
    if not found then
        raise exception 'run % commits nothing about % in this transaction. Nothing was changed.', p_run_id, quote_literal(p_subject_key)
        using errcode = 'DA001', hint = 'Call commit_subject first.';
    end if;
    return v_instance_name;
end
$$;
comment on function disarray.assert_committing(uuid, text) is
    'Refuse what belongs to a commit outside of one; the instance that commits. However long its rows take to come, nobody '
    'can take the subject over meanwhile.';

create function disarray.put_rows(
    p_run_id uuid,
    p_subject_key text,
    p_dataset text,
    p_summaries disarray.scanned_summary[],
    p_rollups disarray.scanned_rollup[]
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform assert_committing(p_run_id, p_subject_key);
    perform put_summaries(p_subject_key, p_dataset, p_summaries);
    perform put_rollups(p_subject_key, p_dataset, p_rollups);
end
$$;
comment on function disarray.put_rows(uuid, text, text, disarray.scanned_summary[], disarray.scanned_rollup[]) is
    'Some of the summaries and rollup parts of the segments that a commit changes. Called as often as it takes, so that no '
    'statement grows with the commit.';

create function disarray.put_summaries(p_subject_key text, p_dataset text, p_summaries disarray.scanned_summary[])
returns void
language plpgsql
as $$
begin
    insert into disarray.segment_metric (
        dataset, subject_key, segment_us, channel, metric, piece, readings, first_reading_us, last_reading_us, points, total_int, total_float,
        first_us, first_int, first_float, first_break, last_us, last_int, last_float, last_break, first_reset, last_reset
    )
    select
        p_dataset,
        p_subject_key,
        summary.*
    from unnest(p_summaries) as summary;
end
$$;
comment on function disarray.put_summaries(text, text, disarray.scanned_summary[]) is 'Summaries of scanned segments, whose bases a shift adds.';

create function disarray.put_rollups(p_subject_key text, p_dataset text, p_rollups disarray.scanned_rollup[])
returns void
language plpgsql
as $$
begin
    insert into disarray.rollup_block (
        dataset, subject_key, rollup, segment_us, block, first_bucket_us, last_bucket_end_us, channels, buckets_us, bucket_ends_us, labels,
        aggregates, points, values_float, values_int, ats_us, pivots, offset_sums, offset_square_sums
    )
    select
        p_dataset,
        p_subject_key,
        scanned.*
    from unnest(p_rollups) as scanned;
end
$$;
comment on function disarray.put_rollups(text, text, disarray.scanned_rollup[]) is 'Blocks of rollup parts of scanned segments.';

create function disarray.finish_commit(
    p_run_id uuid, p_subject_key text, p_max_shift_rows bigint, p_figures json, p_done jsonb
)
returns jsonb
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_instance_name constant text := assert_committing(p_run_id, p_subject_key);
    v_resolved record;
    v_done jsonb;
begin
    select resolved.*
    into v_resolved
    from resolve_ranges(p_subject_key, v_instance_name, p_max_shift_rows, p_run_id) as resolved;
    perform end_subject_commit(p_run_id, p_subject_key, noted.dataset)
    from subject_commit as noted
    where
        noted.subject_key = p_subject_key
        and noted.run_id = p_run_id;
    -- One pass shifts all datasets of the subject; it is counted with the first that changed.
    select coalesce(
        jsonb_agg(
            case
                when change.place = first.place
                    then change.value || jsonb_build_object(
                        'bases_shifted', v_resolved.bases_shifted, 'restatements', v_resolved.restatements
                    )
                else change.value
            end
            order by change.place
        ),
        '[]'
    )
    into v_done
    from jsonb_array_elements(p_done) with ordinality as change (value, place)
    cross join (
        select min(changed.place) as place
        from jsonb_array_elements(p_done) with ordinality as changed (value, place)
        where changed.value ->> 'frontier_us' is not null
    ) as first;
    perform queue_reconcile(p_subject_key, v_now);
    -- Nobody can renew a lease whose row a commit holds: the time that its rows took does not count against it.
    update subject_lock as lock
    set lease_expires_at = lock.lease_expires_at + (clock() - begun.committed_at)
    from run as begun
    where
        lock.subject_key = p_subject_key
        and begun.subject_key = p_subject_key
        and begun.run_id = p_run_id;
    perform add_figures(v_instance_name, p_figures, v_done, v_now);
    return v_done;
end
$$;
comment on function disarray.finish_commit(uuid, text, bigint, json, jsonb) is
    'The end of a commit whose rows followed: bases are shifted over all of them. Takes the answer of commit_subject and completes it.';

create function disarray.is_committed(p_run_id uuid, p_subject_key text)
returns boolean
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    -- A commit that is still under way holds this row. Looking first would answer "no" a moment too early.
    perform
    from subject_lock as lock
    where lock.subject_key = p_subject_key
    for update;
    return exists (
        select
        from run as known
        where
            known.run_id = p_run_id
            and known.subject_key = p_subject_key
    );
end
$$;
comment on function disarray.is_committed(uuid, text) is 'Settles a commit whose reply was lost: by run id, after whoever may still be committing.';

create function disarray.put_files(p_run_id uuid, p_changes json, p_now timestamptz)
returns void
language plpgsql
as $$
begin
    insert into disarray.lake_file (path, bytes, checksum, run_id, created_at)
    select
        file.path,
        file.bytes,
        file.checksum,
        p_run_id,
        p_now
    from json_to_recordset(p_changes -> 'lake_files') as file (path text, bytes bigint, checksum text)
    -- A batch over several subjects names its files in each commit.
    on conflict (path) do nothing;
    insert into disarray.file_fingerprint (source_uri, fingerprint, content_hash, parse_version, run_id)
    select
        file.source_uri,
        decode(file.fingerprint, 'base64'),
        file.content_hash,
        file.parse_version,
        p_run_id
    from json_to_recordset(p_changes -> 'fingerprints')
        as file (source_uri text, fingerprint text, content_hash text, parse_version text)
    order by file.source_uri
    on conflict (source_uri) do update
    set
        fingerprint = excluded.fingerprint,
        content_hash = excluded.content_hash,
        parse_version = excluded.parse_version,
        run_id = excluded.run_id;
    delete from disarray.rejected_row as old
    using json_to_recordset(p_changes -> 'rejects') as file (source_uri text, from_position bigint)
    where
        old.source_uri = file.source_uri
        and old.position >= file.from_position;
    insert into disarray.rejected_row (source_uri, position, line, reason, detail, sample, run_id)
    select
        file.source_uri,
        line.position,
        line.line,
        line.reason,
        line.detail,
        line.sample,
        p_run_id
    from json_to_recordset(p_changes -> 'rejects') as file (source_uri text, rows json)
    cross join lateral (
        select count(*) as rows
        from disarray.rejected_row as old
        where old.source_uri = file.source_uri
    ) as kept
    cross join lateral rows from (
        json_to_recordset(file.rows) as (position bigint, line bigint, reason text, detail text, sample text)
    ) with ordinality as line (position, line, reason, detail, sample, place)
    -- Of a file that grows and grows, the first thousand: file_info counts the others.
    where kept.rows + line.place <= 1000
    on conflict do nothing;
    -- Files that were read again for a rebuild and have no item of their own; locked with those that have one, by name,
    -- as whoever announces them does.
    if json_array_length(p_changes -> 'read_again') > 0 or json_array_length(p_changes -> 'moved') > 0 then
        perform
        from disarray.file_info as file
        where file.source_uri in (
            select read.source_uri
            from json_to_recordset(p_changes -> 'read_again') as read (source_uri text)
            union all
            select moved.source_uri
            from json_to_recordset(p_changes -> 'moved') as moved (source_uri text)
            union all
            select item.source_uri
            from json_to_recordset(p_changes -> 'completions') as done (queue_id bigint)
            inner join disarray.ingest_queue as item on done.queue_id = item.queue_id
        )
        order by file.source_uri
        for update;
    end if;
    update disarray.file_info as file
    set
        status = case
            when file.status in ('blacklisted', 'pending') then file.status
            when exists (
                select
                from json_array_elements(p_changes -> 'datasets') as changed
                cross join lateral json_to_recordset(changed.value -> 'added') as added (source_uri text, state text)
                where
                    added.source_uri = file.source_uri
                    and added.state = 'parked'
            ) then 'parked'
            else 'processed'
        end,
        parked_hash = null,
        parked_at = null,
        content_hash = read.result ->> 'content_hash',
        announced_hash = case
            when file.announced_hash is not distinct from file.content_hash then read.result ->> 'content_hash'
            else file.announced_hash
        end,
        parse_version = read.result ->> 'parse_version',
        logical_start = (read.result ->> 'logical_start')::timestamptz,
        logical_end = (read.result ->> 'logical_end')::timestamptz,
        metadata = disarray.merged_metadata(file.metadata, read.result)
    from json_to_recordset(p_changes -> 'read_again') as read (source_uri text, result jsonb)
    where file.source_uri = read.source_uri;
end
$$;
comment on function disarray.put_files(uuid, json, timestamptz) is 'What a commit knows of files: where fragments lie, fingerprints, rejected rows.';

create function disarray.assert_decided(p_dataset json, p_completions json)
returns void
language plpgsql
as $$
declare
    v_undecided record;
begin
    if coalesce(json_array_length(p_dataset -> 'released'), 0) = 0
        and coalesce(json_array_length(p_dataset -> 'restored'), 0) = 0
        and coalesce(json_array_length(p_dataset -> 'removed'), 0) = 0
        and coalesce(json_array_length(p_dataset -> 'replaced'), 0) = 0
    then
        return;
    end if;
    with decided as (
        select
            known.source_uri,
            'release' as reason,
            'release_readings' as key
        from json_array_elements_text(p_dataset -> 'released') as freed (fragment_id)
        inner join disarray.fragment as known on freed.fragment_id::bigint = known.fragment_id
        union all
        select
            replaced.source_uri,
            'release',
            'release_version'
        from json_array_elements_text(p_dataset -> 'replaced') as replaced (source_uri)
        union all
        select
            known.source_uri,
            'allow',
            null
        from json_to_recordset(p_dataset -> 'restored') as returned (fragment_id bigint)
        inner join disarray.fragment as known on returned.fragment_id = known.fragment_id
        union all
        select
            removed.source_uri,
            'remove',
            null
        from json_array_elements_text(p_dataset -> 'removed') as removed (source_uri)
    )

    select
        decided.source_uri,
        decided.reason
    into v_undecided
    from decided
    where not exists (
        select
        from json_to_recordset(p_completions) as done (queue_id bigint)
        inner join disarray.ingest_queue as item on done.queue_id = item.queue_id
        where
            item.source_uri = decided.source_uri
            and (item.reason::text = decided.reason or item.metadata -> 'reasons' ? decided.reason)
            -- Items of before the two parts had keys of their own said "release".
            and (decided.key is null or item.metadata ? decided.key or item.metadata ? 'release')
    )
    limit 1;
    if found then
        raise exception 'nobody who may asked for the % of %, or took it back meanwhile. Nothing was changed.',
            v_undecided.reason, quote_literal(left(v_undecided.source_uri, 200))
        using errcode = 'DA006', hint = 'Plan again.';
    end if;
end
$$;
comment on function disarray.assert_decided(json, json) is
    'Refuse a commit that releases, restores or removes what no item of it was queued for: workers carry decisions out, and make none.';

create function disarray.put_fragments(p_run_id uuid, p_subject_key text, p_dataset json, p_now timestamptz)
returns void
language plpgsql
as $$
declare
    v_released bigint;
    v_restored bigint;
    v_has_hook constant boolean := disarray.has_hook('quarantine');
    v_waited text[];
begin
    if v_has_hook then
        v_waited := disarray.parked_uris(p_subject_key, p_dataset);
    end if;
    if p_dataset ->> 'rebuilt_from' is not null and (p_dataset ->> 'parked_before')::bigint <> (
        select count(*)
        from json_array_elements_text(p_dataset -> 'dropped') as gone (fragment_id)
        inner join disarray.fragment as known on gone.fragment_id::bigint = known.fragment_id
        where known.state = 'parked'
    ) then
        raise exception 'a parked fragment of % was rejected since its rebuild was planned. Nothing was changed.', p_subject_key
        using errcode = 'DA006', hint = 'Plan again.';
    end if;
    update disarray.fragment as known
    set
        state = 'dropped',
        dropped_at = p_now,
        -- What a file said that is blacklisted now: it comes back as it was when the file is allowed again.
        withdrawn_state = case
            when known.source_uri in (
                select removed.source_uri
                from json_array_elements_text(p_dataset -> 'removed') as removed (source_uri)
            ) then known.state
            -- It was removed for the dataset and subject that it belongs to now, and leaves those that it was to leave.
            when exists (select from disarray.file_blacklist as listed where listed.source_uri = known.source_uri)
                -- An earlier generation cannot be read again with the one that is withdrawn.
                and not exists (
                    select
                    from disarray.fragment as newer
                    where
                        newer.source_uri = known.source_uri
                        and newer.withdrawn_state is not null
                        and newer.generation > known.generation
                ) then known.state
        end
    from json_array_elements_text(p_dataset -> 'dropped') as gone (fragment_id)
    where
        known.fragment_id = gone.fragment_id::bigint
        and known.subject_key = p_subject_key
        and known.state in ('active', 'parked', 'rejected');
    update disarray.fragment as known
    set state = 'active'
    from json_array_elements_text(p_dataset -> 'released') as freed (fragment_id)
    where
        known.fragment_id = freed.fragment_id::bigint
        and known.subject_key = p_subject_key
        and known.state = 'parked';
    get diagnostics v_released = row_count;
    if v_released <> coalesce(json_array_length(p_dataset -> 'released'), 0) then
        raise exception 'a parked fragment of % was rejected since its release was planned. Nothing was changed.', p_subject_key
        using errcode = 'DA006', hint = 'Plan again.';
    end if;
    update disarray.fragment as known
    set
        state = returned.state,
        withdrawn_state = null,
        dropped_at = null
    from json_to_recordset(p_dataset -> 'restored') as returned (fragment_id bigint, state disarray.fragment_state)
    where
        known.fragment_id = returned.fragment_id
        and known.subject_key = p_subject_key
        and known.withdrawn_state is not null;
    get diagnostics v_restored = row_count;
    if v_restored <> coalesce(json_array_length(p_dataset -> 'restored'), 0) then
        raise exception 'what a file of % said before it was blacklisted is no longer kept. Nothing was changed.', p_subject_key
        using errcode = 'DA006', hint = 'Plan again.';
    end if;
    -- What is not restored was replaced by what the file says now.
    update disarray.fragment as known
    set withdrawn_state = null
    from json_array_elements_text(p_dataset -> 'allowed') as allowed (source_uri)
    where
        known.source_uri = allowed.source_uri
        and known.withdrawn_state is not null;
    update disarray.fragment as known
    set cut_position = shortened.cut_position
    from json_to_recordset(p_dataset -> 'cut') as shortened (fragment_id bigint, cut_position bigint)
    where
        known.fragment_id = shortened.fragment_id
        and known.subject_key = p_subject_key;
    insert into disarray.fragment (
        dataset, subject_key, segment_us, source_uri, generation, path, row_group, readings,
        first_position, last_position, cut_position, first_us, last_us, parse_version, state, digest, first_row, run_id, created_at, dropped_at,
        contradicts
    )
    select
        p_dataset ->> 'dataset',
        p_subject_key,
        added.segment_us,
        added.source_uri,
        added.generation,
        added.path,
        added.row_group,
        added.readings,
        added.first_position,
        added.last_position,
        added.cut_position,
        added.first_us,
        added.last_us,
        p_dataset ->> 'parse_version',
        added.state,
        added.digest,
        added.first_row,
        p_run_id,
        p_now,
        -- The copy of a file that had counted in a segment before it was sealed.
        case when added.state = 'sealed' then p_now end,
        coalesce(added.contradicts, false)
    from json_to_recordset(p_dataset -> 'added') as added (
        segment_us bigint, source_uri text, generation integer, path text, row_group integer, readings bigint,
        first_position bigint, last_position bigint, cut_position bigint, first_us bigint, last_us bigint,
        contradicts boolean, state disarray.fragment_state, digest text, first_row integer
    );
    perform disarray.hold_lake_files(array(
        select distinct added.path
        from json_to_recordset(p_dataset -> 'added') as added (path text, state disarray.fragment_state)
        where added.state <> 'sealed'
    ));
    if v_has_hook then
        -- Of a file that had something in quarantine before, people know.
        perform disarray.note_quarantine_effects(
            array(
                select parked.uri
                from unnest(disarray.parked_uris(p_subject_key, p_dataset)) as parked (uri)
                where not parked.uri = any(v_waited)
            ),
            'readings',
            p_now
        );
    end if;
end
$$;
comment on function disarray.put_fragments(uuid, text, json, timestamptz) is 'Fragments that come, go, are cut or released. No other is touched.';

create function disarray.changed_segments(p_subject_key text, p_dataset json)
returns table (segment_us bigint)
language plpgsql
stable
as $$
begin
    return query
    select scanned.segment_us
    from json_to_recordset(p_dataset -> 'segments')
        as scanned (segment_us bigint, revision bigint, readings bigint, digest text)
    left join disarray.segment as known
        on
            known.dataset = p_dataset ->> 'dataset'
            and known.subject_key = p_subject_key
            and scanned.segment_us = known.segment_us
    where
        -- Nothing before and nothing now is no change.
        (scanned.readings > 0 or known.segment_us is not null)
        and (known.digest, known.scan_version) is distinct from (
            case when scanned.readings > 0 then scanned.digest end,
            case when scanned.readings > 0 then p_dataset ->> 'scan_version' end
        );
end
$$;
comment on function disarray.changed_segments(text, json) is 'Scanned segments in which a reading or a definition really changed: equal content is no news.';

create function disarray.changed_from_us(p_subject_key text, p_dataset json)
returns bigint
language sql
stable
as $$
select min(changed.segment_us)
from disarray.changed_segments(p_subject_key, p_dataset) as changed
$$;
comment on function disarray.changed_from_us(text, json) is 'The earliest segment that a commit changes; NULL where it changes none.';

-- Summaries and rollup parts come apart from the rest: a document is read from its beginning at every look into it, and
-- these are nearly all of it.
create function disarray.put_segments(p_run_id uuid, p_subject_key text, p_dataset json, p_rows json)
returns bigint
language plpgsql
as $$
declare
    v_name constant text := p_dataset ->> 'dataset';
    v_changed constant bigint[] := array(
        select changed.segment_us
        from disarray.changed_segments(p_subject_key, p_dataset) as changed
    );
    v_stale record;
begin
    select
        planned.segment_us,
        planned.revision as planned_revision,
        coalesce(known.revision, 0) as found_revision
    into v_stale
    from json_to_recordset(p_dataset -> 'segments') as planned (segment_us bigint, revision bigint)
    left join disarray.segment as known
        on
            known.dataset = v_name
            and known.subject_key = p_subject_key
            and planned.segment_us = known.segment_us
    where planned.revision <> coalesce(known.revision, 0)
    limit 1;
    if found then
        raise exception 'segment % of %/% was planned at revision % and is now at %. Nothing was changed.',
            v_stale.segment_us, v_name, p_subject_key, v_stale.planned_revision, v_stale.found_revision
        using errcode = 'DA006', hint = 'Plan again.';
    end if;

    delete from disarray.segment_metric as summary
    where
        summary.dataset = v_name
        and summary.subject_key = p_subject_key
        and summary.segment_us = any(v_changed);
    delete from disarray.rollup_block as block
    where
        block.dataset = v_name
        and block.subject_key = p_subject_key
        and block.segment_us = any(v_changed);
    delete from disarray.segment as emptied
    using json_to_recordset(p_dataset -> 'segments') as scanned (segment_us bigint, readings bigint)
    where
        emptied.dataset = v_name
        and emptied.subject_key = p_subject_key
        and emptied.segment_us = scanned.segment_us
        and scanned.readings = 0;
    delete from disarray.conflict as settled
    using json_to_recordset(p_dataset -> 'segments') as scanned (segment_us bigint)
    where
        settled.dataset = v_name
        and settled.subject_key = p_subject_key
        and settled.segment_us = scanned.segment_us;
    insert into disarray.conflict (dataset, subject_key, segment_us, winner_uri, loser_uri, conflicts, examples)
    select
        v_name,
        p_subject_key,
        found.segment_us,
        found.winner_uri,
        found.loser_uri,
        found.conflicts,
        found.examples
    from json_to_recordset(p_dataset -> 'conflicts') as found (
        segment_us bigint, winner_uri text, loser_uri text, conflicts bigint, examples jsonb
    );
    insert into disarray.segment as known (
        dataset, subject_key, segment_us, segment_end_us, revision, readings, duplicates, conflicts,
        first_us, last_us, digest, scan_version, run_id, table_digest
    )
    select
        v_name,
        p_subject_key,
        scanned.segment_us,
        scanned.segment_end_us,
        scanned.revision + 1,
        scanned.readings,
        scanned.duplicates,
        scanned.conflicts,
        scanned.first_us,
        scanned.last_us,
        scanned.digest,
        p_dataset ->> 'scan_version',
        p_run_id,
        scanned.table_digest
    from json_to_recordset(p_dataset -> 'segments') as scanned (
        segment_us bigint, segment_end_us bigint, revision bigint, readings bigint, duplicates bigint,
        conflicts bigint, first_us bigint, last_us bigint, digest text, table_digest text
    )
    where scanned.readings > 0
    on conflict (dataset, subject_key, segment_us) do update
    set
        segment_end_us = excluded.segment_end_us,
        revision = excluded.revision,
        readings = excluded.readings,
        duplicates = excluded.duplicates,
        conflicts = excluded.conflicts,
        first_us = excluded.first_us,
        last_us = excluded.last_us,
        digest = excluded.digest,
        scan_version = excluded.scan_version,
        run_id = excluded.run_id,
        table_digest = excluded.table_digest;
    perform disarray.put_summaries(p_subject_key, v_name, array(
        select summary
        from json_populate_recordset(null::disarray.scanned_summary, p_rows -> 'metrics') as summary
        where summary.segment_us = any(v_changed)
    ));
    perform disarray.put_rollups(p_subject_key, v_name, array(
        select scanned
        from json_populate_recordset(null::disarray.scanned_rollup, p_rows -> 'rollups') as scanned
        where scanned.segment_us = any(v_changed)
    ));
    return cardinality(v_changed);
end
$$;
comment on function disarray.put_segments(uuid, text, json, json) is
    'Scanned segments in place of the old ones, if they are still those that were planned on; how many really changed.';
