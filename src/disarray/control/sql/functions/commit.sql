-- The one transaction that makes a pass visible. All of it or nothing: readers see the old numbers or the new ones.

create function disarray.commit_subject(
    p_run_id uuid,
    p_subject_key text,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_changes json,
    p_max_shift_rows bigint default 100000
)
returns jsonb
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_dataset json;
    v_frontier_us bigint;
    v_since_us bigint;
    v_newest_us bigint;
    v_totals jsonb;
    v_changed bigint;
    v_shifted bigint;
    v_restated bigint;
    v_done jsonb := '[]';
begin
    perform assert_subject_held(p_subject_key, p_instance_name, p_incarnation, p_fence);
    insert into run (run_id, subject_key, instance_name, fence, committed_at, metadata)
    values (p_run_id, p_subject_key, p_instance_name, p_fence, v_now, coalesce((p_changes -> 'metadata')::jsonb, '{}'));
    perform put_files(p_run_id, p_changes, v_now);
    for v_dataset in
        select changed.value
        from json_array_elements(p_changes -> 'datasets') as changed
    loop
        v_totals := null;
        v_restated := 0;
        v_frontier_us := changed_from_us(p_subject_key, v_dataset);
        -- Bases move from a segment on, but what people see moves from the first reading that came or went.
        v_since_us := greatest(v_frontier_us, (v_dataset ->> 'changed_from_us')::bigint);
        select max(known.segment_us)
        into v_newest_us
        from segment as known
        where
            known.dataset = v_dataset ->> 'dataset'
            and known.subject_key = p_subject_key;
        perform put_fragments(p_run_id, p_subject_key, v_dataset, v_now);
        if v_frontier_us is not null and v_since_us < (v_dataset ->> 'restate_before_us')::bigint then
            v_totals := telemetry.final_totals(v_dataset ->> 'dataset', p_subject_key);
        end if;
        v_changed := put_segments(p_run_id, p_subject_key, v_dataset);
        if v_frontier_us is not null then
            perform mark_dirty(
                p_subject_key, p_instance_name, instant_of(v_frontier_us), 'infinity',
                'commit ' || p_run_id, p_incarnation, v_dataset ->> 'dataset'
            );
        end if;
        select resolved.bases_shifted
        into v_shifted
        from resolve_ranges(p_subject_key, p_instance_name, p_max_shift_rows) as resolved;
        if v_totals is not null then
            v_restated := note_restatements(p_run_id, p_subject_key, v_dataset, v_since_us, v_totals, v_now);
        end if;
        v_done := v_done || jsonb_build_object(
            'dataset', v_dataset ->> 'dataset',
            'frontier_us', v_frontier_us,
            'newest_segment_us', v_newest_us,
            'segments_changed', v_changed,
            'bases_shifted', v_shifted,
            'restatements', v_restated
        );
    end loop;
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
    return v_done;
end
$$;
comment on function disarray.commit_subject(uuid, text, text, bigint, bigint, json, bigint) is
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
    cross join lateral json_to_recordset(file.rows)
        as line (position bigint, line bigint, reason text, detail text, sample text)
    on conflict do nothing;
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
    update disarray.fragment as known
    set state = 'dropped'
    from json_array_elements_text(p_dataset -> 'dropped') as gone (fragment_id)
    where
        known.fragment_id = gone.fragment_id::bigint
        and known.subject_key = p_subject_key;
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
        first_position, last_position, cut_position, first_us, last_us, parse_version, state, run_id, created_at
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
        p_now
    from json_to_recordset(p_dataset -> 'added') as added (
        segment_us bigint, source_uri text, generation integer, path text, row_group integer, readings bigint,
        first_position bigint, last_position bigint, cut_position bigint, first_us bigint, last_us bigint,
        state disarray.fragment_state
    );
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

create function disarray.put_segments(p_run_id uuid, p_subject_key text, p_dataset json)
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
        first_us, last_us, digest, scan_version, run_id
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
        p_run_id
    from json_to_recordset(p_dataset -> 'segments') as scanned (
        segment_us bigint, segment_end_us bigint, revision bigint, readings bigint, duplicates bigint,
        conflicts bigint, first_us bigint, last_us bigint, digest text
    )
    where scanned.readings > 0
    on conflict (dataset, subject_key, segment_us) do update
    set
        revision = excluded.revision,
        readings = excluded.readings,
        duplicates = excluded.duplicates,
        conflicts = excluded.conflicts,
        first_us = excluded.first_us,
        last_us = excluded.last_us,
        digest = excluded.digest,
        scan_version = excluded.scan_version,
        run_id = excluded.run_id;
    insert into disarray.segment_metric
    select (summary).*
    from json_populate_recordset(null::disarray.segment_metric, p_dataset -> 'metrics') as summary
    where summary.segment_us = any(v_changed);
    insert into disarray.rollup
    select (part).*
    from json_populate_recordset(null::disarray.rollup, p_dataset -> 'rollups') as part
    where part.segment_us = any(v_changed);
    return cardinality(v_changed);
end
$$;
comment on function disarray.put_segments(uuid, text, json) is
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
    inner join disarray.metric as metric
        on
            summary.dataset = metric.dataset
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

create function disarray.note_restatements(
    p_run_id uuid,
    p_subject_key text,
    p_dataset json,
    p_since_us bigint,
    p_totals jsonb,
    p_now timestamptz
)
returns bigint
language plpgsql
as $$
declare
    v_noted bigint;
begin
    insert into disarray.restatement (
        run_id, dataset, subject_key, metric, channel, changed_from,
        old_float, old_int, new_float, new_int, source_uris, restated_at
    )
    select
        p_run_id,
        p_dataset ->> 'dataset',
        p_subject_key,
        coalesce(after.metric, before.metric),
        coalesce(after.channel, before.channel),
        disarray.instant_of(p_since_us),
        before.float,
        before.int,
        after.float,
        after.int,
        array(select json_array_elements_text(p_dataset -> 'source_uris')),
        p_now
    from jsonb_to_recordset(p_totals) as before (metric text, channel text, float float8, int bigint)
    full join jsonb_to_recordset(telemetry.final_totals(p_dataset ->> 'dataset', p_subject_key))
        as after (metric text, channel text, float float8, int bigint)
        on
            before.metric = after.metric
            and before.channel = after.channel
    where (before.float, before.int) is distinct from (after.float, after.int);
    get diagnostics v_noted = row_count;
    return v_noted;
end
$$;
comment on function disarray.note_restatements(uuid, text, json, bigint, jsonb, timestamptz) is
    'Write down which totals a late commit changed, compared with what they were before it; how many.';
