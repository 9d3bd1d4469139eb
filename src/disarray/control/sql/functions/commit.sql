-- The one transaction that makes a pass visible. All of it or nothing: readers see the old numbers or the new ones.

create function disarray.commit_subject(
    p_run_id uuid,
    p_subject_key text,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_changes json,
    p_max_shift_rows bigint default 100000,
    p_rows json[] default '{}'
)
returns jsonb
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_dataset json;
    v_place integer := 0;
    v_frontier_us bigint;
    v_since_us bigint;
    v_newest_us bigint;
    v_restates jsonb;
    v_changed bigint;
    v_is_rebuild boolean;
    v_was_rebuilt boolean := false;
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
    for v_dataset in
        select changed.value
        from json_array_elements(p_changes -> 'datasets') as changed
    loop
        v_place := v_place + 1;
        v_restates := null;
        v_frontier_us := changed_from_us(p_subject_key, v_dataset);
        -- Bases move from a segment on, but what people see moves from the first reading that came or went.
        v_since_us := greatest(v_frontier_us, (v_dataset ->> 'changed_from_us')::bigint);
        select max(known.segment_us)
        into v_newest_us
        from segment as known
        where
            known.dataset = v_dataset ->> 'dataset'
            and known.subject_key = p_subject_key;
        if v_frontier_us is not null and v_since_us < (v_dataset ->> 'restate_before_us')::bigint then
            v_restates := jsonb_build_object(
                'run_id', p_run_id,
                'source_uris', v_dataset -> 'source_uris',
                'since_us', v_since_us,
                -- While a shift is outstanding totals are those of nobody; the ones before it are kept with its range.
                'totals', case
                    when stale_from(v_dataset ->> 'dataset', p_subject_key) is null
                        then telemetry.final_totals(v_dataset ->> 'dataset', p_subject_key)
                end,
                'former_scan_version', v_dataset -> 'rebuilt_from' ->> 'scan_version'
            );
        end if;
        v_is_rebuild := settle_version(p_subject_key, v_dataset);
        v_was_rebuilt := v_was_rebuilt or v_is_rebuild;
        perform put_fragments(p_run_id, p_subject_key, v_dataset, v_now);
        v_changed := put_segments(p_run_id, p_subject_key, v_dataset, p_rows[v_place]);
        if v_is_rebuild then
            perform keep_unscanned(p_subject_key, v_dataset);
        end if;
        if v_frontier_us is not null then
            perform mark_dirty(
                p_subject_key, p_instance_name, instant_of(v_frontier_us), 'infinity',
                'commit ' || p_run_id, p_incarnation, v_dataset ->> 'dataset'
            );
            update dirty_range as marked
            set restates = v_restates
            where
                v_restates is not null
                and marked.subject_key = p_subject_key
                and marked.resolved_at is null
                and marked.reason = 'commit ' || p_run_id
                and marked.dataset = v_dataset ->> 'dataset';
        end if;
        select resolved.*
        into v_resolved
        -- The old numbers of a rebuilt subject are gone with this commit: the new ones must be whole with it.
        from resolve_ranges(p_subject_key, p_instance_name, case when not v_is_rebuild then p_max_shift_rows end) as resolved;
        v_done := v_done || jsonb_build_object(
            'dataset', v_dataset ->> 'dataset',
            'frontier_us', v_frontier_us,
            'newest_segment_us', v_newest_us,
            'segments_changed', v_changed,
            'bases_shifted', v_resolved.bases_shifted,
            'restatements', v_resolved.restatements
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
        cross join lateral enqueue_files(batch.uris, batch.subjects, batch.reasons, p_instance_name, batch.metadata);
    end if;
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
    if v_was_rebuilt then
        perform end_wait(p_subject_key, v_now);
    end if;
    if json_array_length(p_changes -> 'datasets') > 0 then
        -- A shift that was too large for this commit is the next thing that is done about the subject, by whom ever.
        perform queue_reconcile(p_subject_key, v_now);
    end if;
    perform add_figures(p_instance_name, p_changes -> 'figures', v_done, v_now);
    return v_done;
end
$$;
comment on function disarray.commit_subject(uuid, text, text, bigint, bigint, json, bigint, json[]) is
    'Make one pass over a subject visible: fragments, segments, summaries, rollups, fingerprints, completions and the shift of bases. '
    'Answers for each dataset from where on it changed, the newest segment before, and how much it moved.';

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

create function disarray.put_fragments(p_run_id uuid, p_subject_key text, p_dataset json, p_now timestamptz)
returns void
language plpgsql
as $$
declare
    v_released bigint;
begin
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
        dropped_at = p_now
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
    set cut_position = shortened.cut_position
    from json_to_recordset(p_dataset -> 'cut') as shortened (fragment_id bigint, cut_position bigint)
    where
        known.fragment_id = shortened.fragment_id
        and known.subject_key = p_subject_key;
    insert into disarray.fragment (
        dataset, subject_key, segment_us, source_uri, generation, path, row_group, readings,
        first_position, last_position, cut_position, first_us, last_us, parse_version, state, run_id, created_at, dropped_at
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
        p_run_id,
        p_now,
        -- The copy of a file that had counted in a segment before it was sealed.
        case when added.state = 'sealed' then p_now end
    from json_to_recordset(p_dataset -> 'added') as added (
        segment_us bigint, source_uri text, generation integer, path text, row_group integer, readings bigint,
        first_position bigint, last_position bigint, cut_position bigint, first_us bigint, last_us bigint,
        state disarray.fragment_state
    );
    perform disarray.hold_lake_files(array(
        select distinct added.path
        from json_to_recordset(p_dataset -> 'added') as added (path text, state disarray.fragment_state)
        where added.state <> 'sealed'
    ));
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
    delete from disarray.rollup as part
    where
        part.dataset = v_name
        and part.subject_key = p_subject_key
        and part.segment_us = any(v_changed);
    delete from disarray.segment as emptied
    using json_to_recordset(p_dataset -> 'segments') as scanned (segment_us bigint, readings bigint)
    where
        emptied.dataset = v_name
        and emptied.subject_key = p_subject_key
        and emptied.segment_us = scanned.segment_us
        and scanned.readings = 0;
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
    insert into disarray.segment_metric
    select (summary).*
    from json_populate_recordset(null::disarray.segment_metric, p_rows -> 'metrics') as summary
    where summary.segment_us = any(v_changed);
    insert into disarray.rollup
    select (part).*
    from json_populate_recordset(null::disarray.rollup, p_rows -> 'rollups') as part
    where part.segment_us = any(v_changed);
    return cardinality(v_changed);
end
$$;
comment on function disarray.put_segments(uuid, text, json, json) is
    'Scanned segments in place of the old ones, if they are still those that were planned on; how many really changed.';

create function telemetry.final_totals(p_dataset text, p_subject_key text)
returns jsonb
language sql
stable
as $$
select coalesce(
    jsonb_agg(
        jsonb_build_object(
            'metric', newest.metric,
            'channel', newest.channel,
            'float', newest.total_float,
            'int', newest.total_int
        )
    ),
    '[]'
)
from (
    select distinct on (summary.metric, summary.channel)
        summary.metric,
        summary.channel,
        case
            when metric.kind = 'min' then least(summary.base_float, summary.total_float)
            when metric.kind = 'max' then greatest(summary.base_float, summary.total_float)
            else summary.base_float + summary.total_float
        end as total_float,
        case
            when metric.kind = 'min' then least(summary.base_int, summary.total_int)
            when metric.kind = 'max' then greatest(summary.base_int, summary.total_int)
            else summary.base_int + summary.total_int
        end as total_int
    from disarray.segment_metric as summary
    inner join disarray.subject_version as made
        on
            summary.subject_key = made.subject_key
            and summary.dataset = made.dataset
    inner join disarray.metric as metric
        on
            made.dataset = metric.dataset
            and made.scan_version = metric.scan_version
            and summary.metric = metric.metric
    where
        summary.dataset = p_dataset
        and summary.subject_key = p_subject_key
    order by
        summary.metric,
        summary.channel,
        summary.segment_us desc,
        summary.piece desc
) as newest
$$;
comment on function telemetry.final_totals(text, text) is 'The newest value of every metric and channel of a subject.';

create function disarray.note_restatements(p_dataset text, p_subject_key text, p_now timestamptz)
returns bigint
language plpgsql
as $$
declare
    v_before record;
    v_noted bigint;
begin
    -- Several commits may have waited for one shift: together they moved the totals from before the first of them.
    select
        (array_agg(open.restates ->> 'run_id' order by open.range_id desc))[1]::uuid as run_id,
        min((open.restates ->> 'since_us')::bigint) as since_us,
        (array_agg(open.restates -> 'totals' order by open.range_id))[1] as totals,
        bool_or(open.restates ->> 'former_scan_version' is not null) as is_redefined
    into v_before
    from disarray.dirty_range as open
    where
        open.subject_key = p_subject_key
        and open.dataset = p_dataset
        and open.resolved_at is null
        and open.restates is not null;
    if coalesce(jsonb_typeof(v_before.totals), 'null') = 'null' then
        return 0;
    end if;
    insert into disarray.restatement (
        run_id, dataset, subject_key, metric, channel, changed_from,
        old_float, old_int, new_float, new_int, source_uris, is_redefined, restated_at
    )
    select
        v_before.run_id,
        p_dataset,
        p_subject_key,
        coalesce(after.metric, before.metric),
        coalesce(after.channel, before.channel),
        disarray.instant_of(v_before.since_us),
        before.float,
        before.int,
        after.float,
        after.int,
        array(
            select distinct uri.name
            from disarray.dirty_range as open
            cross join lateral jsonb_array_elements_text(open.restates -> 'source_uris') as uri (name)
            where
                open.subject_key = p_subject_key
                and open.dataset = p_dataset
                and open.resolved_at is null
            order by uri.name
        ),
        v_before.is_redefined,
        p_now
    from jsonb_to_recordset(v_before.totals) as before (metric text, channel text, float float8, int bigint)
    full join jsonb_to_recordset(telemetry.final_totals(p_dataset, p_subject_key))
        as after (metric text, channel text, float float8, int bigint)
        on
            before.metric = after.metric
            and before.channel = after.channel
    where
        (before.float, before.int) is distinct from (after.float, after.int)
        -- A metric that is new, or no longer there, has nothing to be compared with.
        and not exists (
            select
            from disarray.dirty_range as open
            cross join lateral (
                select open.restates ->> 'former_scan_version' as scan_version
                union all
                select made.scan_version
                from disarray.subject_version as made
                where
                    made.subject_key = p_subject_key
                    and made.dataset = p_dataset
            ) as compared
            where
                open.subject_key = p_subject_key
                and open.dataset = p_dataset
                and open.resolved_at is null
                and open.restates ->> 'former_scan_version' is not null
                and not exists (
                    select
                    from disarray.metric as defined
                    where
                        defined.dataset = p_dataset
                        and defined.scan_version = compared.scan_version
                        and defined.metric = coalesce(after.metric, before.metric)
                )
        );
    get diagnostics v_noted = row_count;
    return v_noted;
end
$$;
comment on function disarray.note_restatements(text, text, timestamptz) is
    'Write down which totals changed with the ranges that are being resolved, compared with what they were before; how many.';
