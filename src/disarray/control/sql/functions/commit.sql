-- The one transaction that makes a pass visible, with the notice of what it changed. All of it or nothing: readers see the old
-- numbers or the new ones.

create function disarray.commit_subject(
    p_run_id uuid,
    p_subject_key text,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_changes json,
    p_max_shift_rows bigint default 1000000,
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
    if json_array_length(p_changes -> 'swaps') > 0 then
        perform swap_generation(p_subject_key, p_changes, v_now);
    end if;
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
        perform settle_blocks(p_subject_key, v_dataset);
        v_was_rebuilt := v_was_rebuilt or v_is_rebuild;
        perform assert_decided(p_subject_key, v_dataset, p_changes -> 'completions');
        perform put_fragments(p_run_id, p_subject_key, v_dataset, v_now);
        perform begin_subject_commit(p_run_id, p_subject_key, v_dataset, v_segments, v_is_rebuild);
        v_changed := put_segments(p_run_id, p_subject_key, v_dataset, p_rows[v_place]);
        if v_is_rebuild then
            perform keep_unscanned(p_subject_key, v_dataset);
        end if;
        if v_frontier_us is not null then
            insert into dirty_range (subject_key, dataset, range_start, range_end, reason, created_at, restates, changed_segments)
            values (
                p_subject_key, v_dataset ->> 'dataset', instant_of(v_frontier_us), 'infinity', 'commit ' || p_run_id, v_now, v_restates,
                -- Under another definition nothing of before is kept.
                case when not v_is_rebuild then v_segments end
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
    perform end_decisions(p_subject_key, p_changes);
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
    insert into disarray.segment_summary (
        dataset, subject_key, block_us, segment_us, channel, metric, piece, readings, first_reading_us, last_reading_us, points, total_int, total_float,
        first_us, first_int, first_float, first_break, last_us, last_int, last_float, last_break, first_reset, last_reset, reset_us
    )
    select
        p_dataset,
        p_subject_key,
        telemetry.block_of(summary.segment_us, made.block_length_us),
        summary.*
    from unnest(p_summaries) as summary
    -- Not "inner": of a subject without a version they would be lost without a word; so they are refused.
    left join disarray.subject_version as made
        on
            made.dataset = p_dataset
            and made.subject_key = p_subject_key;
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
        aggregates, points, values_float, values_int, ats_us, pivots, offset_sums, offset_square_sums, is_grid
    )
    select
        p_dataset,
        p_subject_key,
        scanned.rollup,
        scanned.segment_us,
        scanned.block,
        scanned.first_bucket_us,
        scanned.last_bucket_end_us,
        scanned.channels,
        scanned.buckets_us,
        scanned.bucket_ends_us,
        scanned.labels,
        scanned.aggregates,
        scanned.points,
        scanned.values_float,
        scanned.values_int,
        scanned.ats_us,
        scanned.pivots,
        scanned.offset_sums,
        scanned.offset_square_sums,
        -- A document leaves out what is not so.
        coalesce(scanned.is_grid, false)
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

create function disarray.assert_decided(p_subject_key text, p_dataset json, p_completions json)
returns void
language plpgsql
as $$
declare
    v_name constant text := p_dataset ->> 'dataset';
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
    -- What was decided about a file that is about another subject by now has no item of the file here.
    and not exists (
        select
        from disarray.moving_file as moving
        where
            moving.subject_key = p_subject_key
            and moving.dataset = v_name
            and moving.source_uri = decided.source_uri
            and moving.decision = decided.reason
            and decided.key is distinct from 'release_version'
    )
    limit 1;
    if found then
        raise exception 'nobody who may asked for the % of %, or took it back meanwhile. Nothing was changed.',
            v_undecided.reason, quote_literal(left(v_undecided.source_uri, 200))
        using errcode = 'DA006', hint = 'Plan again.';
    end if;
end
$$;
comment on function disarray.assert_decided(text, json, json) is
    'Refuse a commit that releases, restores or removes what no item of it was queued for: workers carry decisions out, and make none.';

create function disarray.put_fragments(p_run_id uuid, p_subject_key text, p_dataset json, p_now timestamptz)
returns void
language plpgsql
as $$
declare
    -- Looked up once: a plan that is kept would read the whole document again for each fragment.
    v_name constant text := p_dataset ->> 'dataset';
    v_parse_version constant text := p_dataset ->> 'parse_version';
    v_parked_before constant bigint := (p_dataset ->> 'parked_before')::bigint;
    v_released bigint;
    v_restored bigint;
    v_has_hook constant boolean := disarray.has_hook('quarantine');
    v_waited text[];
begin
    if v_has_hook then
        v_waited := disarray.parked_uris(p_subject_key, p_dataset);
    end if;
    -- What takes the place of released readings counts, and what takes that of rejected ones does not.
    if v_parked_before <> (
        select count(*)
        from json_array_elements_text(p_dataset -> 'dropped') as gone (fragment_id)
        inner join disarray.fragment as known on gone.fragment_id::bigint = known.fragment_id
        where known.state = 'parked'
    ) then
        raise exception 'a parked fragment of % was rejected since what replaces it was planned. Nothing was changed.', p_subject_key
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
            when exists (select from disarray.file_blacklist as listed where listed.source_uri = known.source_uri) then known.state
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
        and known.withdrawn_state is not null
        -- But where a commit of its own restores it, or this one is such a commit.
        and (
            (known.dataset = v_name and known.subject_key = p_subject_key)
            or not exists (
                select
                from disarray.moving_file as moving
                where
                    moving.source_uri = known.source_uri
                    and moving.decision is not null
                    and (moving.dataset, moving.subject_key) in (
                        (known.dataset, known.subject_key),
                        (v_name, p_subject_key)
                    )
            )
        );
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
        v_name,
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
        v_parse_version,
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

create function disarray.begin_subject_commit(p_run_id uuid, p_subject_key text, p_dataset json, p_segments bigint[], p_is_redefined boolean)
returns void
language plpgsql
-- As in resolve_ranges.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
    v_name constant text := p_dataset ->> 'dataset';
    v_scan_version constant text := p_dataset ->> 'scan_version';
    -- More are not named: whoever follows takes all from the first on.
    v_names_segments constant boolean := not p_is_redefined and cardinality(p_segments) <= 1000;
    v_to timestamptz := 'infinity';
begin
    if cardinality(p_segments) = 0 and not p_is_redefined then
        return;
    end if;
    if not exists (
        select
        from disarray.metric as defined
        where
            defined.dataset = v_name
            and defined.scan_version = v_scan_version
    ) and not p_is_redefined then
        select disarray.instant_of(max(scanned.segment_end_us))
        into v_to
        from json_to_recordset(p_dataset -> 'segments') as scanned (segment_us bigint, segment_end_us bigint)
        where scanned.segment_us = any(p_segments);
    end if;
    perform disarray.put_subject_commit(
        p_run_id, p_subject_key, v_name,
        case when p_is_redefined then '-infinity' else disarray.instant_of((select min(changed.us) from unnest(p_segments) as changed (us))) end,
        v_to,
        case when v_names_segments then array(select changed.us from unnest(p_segments) as changed (us) order by changed.us) end,
        -- What the parts of before were, until end_subject_commit holds them against those of after.
        case
            when v_names_segments then jsonb_build_object(
                'segments', disarray.segments_in_rollups(v_name, p_subject_key, p_segments),
                'hashes', disarray.bucket_hashes(v_name, p_subject_key, p_segments)
            )
        end,
        p_is_redefined
    );
end
$$;
comment on function disarray.begin_subject_commit(uuid, text, json, bigint[], boolean) is
    'Note that a commit changes these segments, before it does. Nothing is noted where it changes none.';

create function disarray.end_subject_commit(p_run_id uuid, p_subject_key text, p_dataset text)
returns void
language plpgsql
-- As in resolve_ranges.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
    v_noted record;
    v_known bigint[];
begin
    select
        noted.changed_segments,
        noted.changed_buckets
    into v_noted
    from disarray.subject_commit as noted
    where
        noted.subject_key = p_subject_key
        and noted.run_id = p_run_id
        and noted.dataset = p_dataset
        and cardinality(noted.changed_segments) > 0;
    if not found then
        return;
    end if;
    v_known := array(select known.us::bigint from jsonb_array_elements_text(v_noted.changed_buckets -> 'segments') as known (us));
    update disarray.subject_commit as noted
    set changed_buckets = disarray.changed_buckets(
        v_noted.changed_buckets -> 'hashes',
        disarray.bucket_hashes(p_dataset, p_subject_key, v_known),
        -- Where there was no part, every part is news and need not be looked at.
        disarray.bucket_starts(
            p_dataset, p_subject_key,
            array(
                select changed.us
                from unnest(v_noted.changed_segments) as changed (us)
                where not changed.us = any(v_known)
            )
        )
    )
    where
        noted.subject_key = p_subject_key
        and noted.run_id = p_run_id
        and noted.dataset = p_dataset;
end
$$;
comment on function disarray.end_subject_commit(uuid, text, text) is 'Name the buckets that a commit changed, after all of its rollup parts are in.';

create function disarray.note_shift(p_run_id uuid, p_subject_key text, p_dataset text, p_frontier_us bigint)
returns void
language sql
as $$
select disarray.put_subject_commit(p_run_id, p_subject_key, p_dataset, disarray.instant_of(p_frontier_us), 'infinity', '{}', '{}', false)
$$;
comment on function disarray.note_shift(uuid, text, text, bigint) is
    'Note that bases moved: values differ from there on, and neither readings nor rollups do.';

create function disarray.put_subject_commit(
    p_run_id uuid,
    p_subject_key text,
    p_dataset text,
    p_changed_from timestamptz,
    p_changed_to timestamptz,
    p_changed_segments bigint[],
    p_changed_buckets jsonb,
    p_is_redefined boolean
)
returns void
language plpgsql
as $$
begin
    insert into disarray.subject_commit as noted (
        subject_key, dataset, commit_seq, run_id, changed_from, changed_to, changed_segments, changed_buckets, is_redefined, committed_at
    )
    select
        p_subject_key,
        p_dataset,
        coalesce(max(former.commit_seq), 0) + 1,
        p_run_id,
        p_changed_from,
        p_changed_to,
        p_changed_segments,
        p_changed_buckets,
        p_is_redefined,
        disarray.clock()
    from disarray.subject_commit as former
    where
        former.subject_key = p_subject_key
        and former.dataset = p_dataset
    -- A run commits a subject in one transaction: what it does besides, a shift that was put off, belongs to the same commit.
    on conflict (subject_key, run_id, dataset) do update
    set
        changed_from = least(noted.changed_from, excluded.changed_from),
        changed_to = greatest(noted.changed_to, excluded.changed_to),
        changed_segments = case
            when cardinality(excluded.changed_segments) = 0 then noted.changed_segments
            else excluded.changed_segments
        end,
        changed_buckets = case
            when cardinality(excluded.changed_segments) = 0 then noted.changed_buckets
            else excluded.changed_buckets
        end,
        is_redefined = noted.is_redefined or excluded.is_redefined
    -- The shift of a commit seldom adds anything to what the commit said of itself.
    where
        excluded.changed_segments is null
        or cardinality(excluded.changed_segments) > 0
        or noted.changed_from > excluded.changed_from
        or noted.changed_to < excluded.changed_to;
end
$$;
comment on function disarray.put_subject_commit(uuid, text, text, timestamptz, timestamptz, bigint[], jsonb, boolean) is
    'Give the commit of a held subject its number, or add to what is noted of it already.';

create function disarray.bucket_hashes(p_dataset text, p_subject_key text, p_segments bigint[])
returns jsonb
language plpgsql
stable
as $$
begin
    return (
        select coalesce(jsonb_object_agg(named.rollup, named.hashes), '{}')
        from (
            select
                bucket.rollup,
                jsonb_object_agg(bucket.bucket_us, bucket.hash) as hashes
            from (
                select
                    part.rollup,
                    part.bucket_us,
                    -- Parts have no order of their own, and no two of a bucket are the same row.
                    bit_xor(hash_record_extended(part, 0)) as hash
                from disarray.rollup as part
                where
                    part.dataset = p_dataset
                    and part.subject_key = p_subject_key
                    and part.segment_us = any(p_segments)
                group by
                    part.rollup,
                    part.bucket_us
            ) as bucket
            group by bucket.rollup
        ) as named
    );
end
$$;
comment on function disarray.bucket_hashes(text, text, bigint[]) is
    'A hash of what some segments contribute to each bucket of each rollup: the same for the same parts, to the bit.';

create function disarray.segments_in_rollups(p_dataset text, p_subject_key text, p_segments bigint[])
returns jsonb
language sql
stable
as $$
select coalesce(jsonb_agg(distinct block.segment_us), '[]')
from disarray.rollup_block as block
where
    block.dataset = p_dataset
    and block.subject_key = p_subject_key
    and block.segment_us = any(p_segments)
$$;
comment on function disarray.segments_in_rollups(text, text, bigint[]) is 'Those of some segments that contribute to any bucket.';

create function disarray.bucket_starts(p_dataset text, p_subject_key text, p_segments bigint[])
returns jsonb
language sql
stable
as $$
select coalesce(jsonb_object_agg(named.rollup, named.buckets), '{}')
from (
    select
        bucket.rollup,
        jsonb_agg(bucket.us) as buckets
    from (
        select distinct
            block.rollup,
            start.us
        from disarray.rollup_block as block
        cross join lateral unnest(block.buckets_us) as start (us)
        where
            block.dataset = p_dataset
            and block.subject_key = p_subject_key
            and block.segment_us = any(p_segments)
    ) as bucket
    group by bucket.rollup
) as named
$$;
comment on function disarray.bucket_starts(text, text, bigint[]) is 'The buckets that some segments contribute to, by rollup.';

create function disarray.changed_buckets(p_before jsonb, p_after jsonb, p_added jsonb)
returns jsonb
language plpgsql
immutable
as $$
begin
    return (
        with before as (
            select
                rollup.key as rollup,
                bucket.key::bigint as bucket_us,
                bucket.value as hash
            from jsonb_each(p_before) as rollup
            cross join lateral jsonb_each(rollup.value) as bucket
        ),

        after as (
            select
                rollup.key as rollup,
                bucket.key::bigint as bucket_us,
                bucket.value as hash
            from jsonb_each(p_after) as rollup
            cross join lateral jsonb_each(rollup.value) as bucket
        ),

        changed as (
            select
                rollup,
                bucket_us
            from before
            full join after using (rollup, bucket_us)
            where before.hash is distinct from after.hash
            union
            select
                rollup.key,
                bucket.us::bigint
            from jsonb_each(p_added) as rollup
            cross join lateral jsonb_array_elements_text(rollup.value) as bucket (us)
        )

        select coalesce(jsonb_object_agg(named.rollup, named.buckets), '{}')
        from (
            select
                changed.rollup,
                case
                    when count(*) > 1000 then jsonb_build_object('from_us', min(changed.bucket_us))
                    else jsonb_build_object('buckets', jsonb_agg(changed.bucket_us order by changed.bucket_us))
                end as buckets
            from changed
            group by changed.rollup
        ) as named
    );
end
$$;
comment on function disarray.changed_buckets(jsonb, jsonb, jsonb) is
    'The buckets whose hashes differ and those that were added to, by rollup; of more than a thousand, only from which one on.';
