-- Readings that came too late to be believed unasked, and versions that say less than the one before. They wait here:
-- never dropped, never silently applied.

create function disarray.list_quarantine(
    p_source_uri text default null,
    p_subject_key text default null,
    p_limit integer default 100
)
returns table (
    source_uri text,
    subject_key text,
    dataset text,
    why text,
    segments bigint,
    readings bigint,
    first_us bigint,
    last_us bigint,
    parked_at timestamptz,
    message text,
    part text
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    waiting.source_uri,
    waiting.subject_key,
    waiting.dataset,
    waiting.why,
    waiting.segments,
    waiting.readings,
    waiting.first_us,
    waiting.last_us,
    waiting.parked_at,
    waiting.message,
    waiting.part
from (
    select
        late.source_uri,
        late.subject_key,
        late.dataset,
        case
            when bool_and(known.sealed_at is not null) then 'its segment is sealed'
            when bool_or(known.sealed_at is not null) then 'beyond the horizon, part of it sealed'
            when bool_and(late.contradicts) then 'contradicts readings that count'
            when bool_or(late.contradicts) then 'beyond the horizon, part of it contradicts readings that count'
            else 'beyond the horizon'
        end as why,
        count(distinct late.segment_us) as segments,
        sum(late.readings)::bigint as readings,
        min(late.first_us) as first_us,
        max(late.last_us) as last_us,
        min(late.created_at) as parked_at,
        null as message,
        'readings' as part
    from fragment as late
    left join segment as known
        on
            late.dataset = known.dataset
            and late.subject_key = known.subject_key
            and late.segment_us = known.segment_us
    where late.state = 'parked'
    group by
        late.source_uri,
        late.subject_key,
        late.dataset
    union all
    select
        file.source_uri,
        file.subject_key,
        file.dataset,
        'says less than before',
        0,
        0,
        null,
        null,
        file.parked_at,
        file.metadata ->> 'message',
        'version'
    from file_info as file
    where
        file.parked_hash is not null
        and file.status <> 'blacklisted'
) as waiting
where
    (p_source_uri is null or waiting.source_uri = p_source_uri)
    and (p_subject_key is null or waiting.subject_key = p_subject_key)
order by
    waiting.parked_at,
    waiting.source_uri,
    waiting.part
limit p_limit
$$;
comment on function disarray.list_quarantine(text, text, integer) is
    'What waits for an operator, oldest first: parked readings of files, and new versions that would take readings away. '
    'Both may wait of one file, and each is a decision of its own: part says which.';

create function disarray.lock_quarantined(
    p_source_uri text,
    p_part text,
    out subject_key text,
    out dataset text,
    out why text,
    out readings bigint,
    out part text
)
language plpgsql
as $$
begin
    if p_part is not null and p_part not in ('readings', 'version') then
        raise exception 'of a file wait readings or a version, not %. Nothing was changed.', quote_literal(left(p_part, 200))
        using errcode = 'DA001';
    end if;
    -- The order of every commit: the subject first, so that one that is under way has ended, then the file.
    perform
    from disarray.subject_lock as lock
    where lock.subject_key = (select file.subject_key from disarray.file_info as file where file.source_uri = p_source_uri)
    for update;
    perform
    from disarray.file_info as file
    where file.source_uri = p_source_uri
    for update;
    begin
        select
            waiting.subject_key,
            waiting.dataset,
            waiting.why,
            waiting.readings,
            waiting.part
        into strict
            lock_quarantined.subject_key,
            lock_quarantined.dataset,
            lock_quarantined.why,
            lock_quarantined.readings,
            lock_quarantined.part
        from disarray.list_quarantine(p_source_uri) as waiting
        where p_part is null or waiting.part = p_part;
    exception
        when no_data_found then
            raise exception 'nothing of file % is in quarantine%. Nothing was changed.',
                quote_literal(left(p_source_uri, 200)), coalesce(' as ' || p_part, '')
            using errcode = 'DA007', hint = 'disarray quarantine list tells what is.';
        when too_many_rows then
            raise exception 'readings of file % wait, and a version of it that says less: these are two decisions. Nothing was changed.',
                quote_literal(left(p_source_uri, 200))
            using errcode = 'DA001', hint = 'Name one of them: --part readings, or --part version.';
    end;
end
$$;
comment on function disarray.lock_quarantined(text, text) is
    'What is parked of a file, the named part where both are, locked until the decision about it is committed.';

create function disarray.release_file(p_source_uri text, p_reason text, p_by text, p_part text default null)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_parked record;
begin
    perform check_decision(p_reason, p_by);
    select locked.*
    into v_parked
    from lock_quarantined(p_source_uri, p_part) as locked;
    if v_parked.why = 'its segment is sealed' then
        raise exception 'what is parked of file % is for segments whose readings are no longer kept: their numbers can change no more. '
            'Nothing was changed.', quote_literal(left(p_source_uri, 200))
        using errcode = 'DA030', hint = 'disarray quarantine reject drops it; retain of the dataset says how long readings are kept.';
    end if;
    insert into ingest_event (occurred_at, event_type, source_uri, subject_key, metadata)
    values (
        clock(), 'quarantine_released', p_source_uri, v_parked.subject_key,
        decision_of(p_reason, p_by) || jsonb_build_object(
            'why', v_parked.why, 'readings', v_parked.readings, 'part', v_parked.part
        )
    );
    -- A key for each part: two decisions about one file may be merged into one item.
    return enqueue_request(
        p_source_uri, v_parked.subject_key, 'release', p_by,
        jsonb_build_object('release_' || v_parked.part, true, 'dataset', v_parked.dataset)
    );
end
$$;
comment on function disarray.release_file(text, text, text, text) is
    'Let what is parked of a file count, or the named part of it; the queue_id of the item that does it. '
    'Parked readings need no source file.';

create function disarray.reject_file(p_source_uri text, p_reason text, p_by text, p_part text default null)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_parked record;
begin
    perform check_decision(p_reason, p_by);
    select locked.*
    into v_parked
    from lock_quarantined(p_source_uri, p_part) as locked;
    if v_parked.part = 'readings' then
        update fragment as late
        set state = 'rejected'
        where
            late.source_uri = p_source_uri
            and late.state = 'parked';
    else
        update file_info as file
        set
            rejected_hash = file.parked_hash,
            parked_hash = null,
            parked_at = null
        where file.source_uri = p_source_uri;
        -- It may have been released before: who decides last is right.
        update ingest_queue as item
        set metadata = item.metadata - 'release_version'
        where
            item.source_uri = p_source_uri
            and item.metadata ? 'release_version';
    end if;
    update file_info as file
    set status = 'processed'
    where
        file.source_uri = p_source_uri
        and file.status = 'parked'
        and not exists (select from list_quarantine(p_source_uri) as waiting);
    insert into ingest_event (occurred_at, event_type, source_uri, subject_key, metadata)
    values (
        v_now, 'quarantine_rejected', p_source_uri, v_parked.subject_key,
        decision_of(p_reason, p_by) || jsonb_build_object(
            'why', v_parked.why, 'readings', v_parked.readings, 'part', v_parked.part
        )
    );
    return v_parked.readings;
end
$$;
comment on function disarray.reject_file(text, text, text, text) is
    'Count nothing of what is parked of a file, or of the named part, and leave the rest of it as it is; how many readings that are. '
    'A reingest brings them back to the quarantine.';

create function disarray.preview_commit(p_subject_key text, p_dataset json)
returns jsonb
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_name constant text := p_dataset ->> 'dataset';
    v_frontier_us bigint;
    v_before jsonb;
    v_restates jsonb;
    v_moved disarray.restated_span[];
    v_spans jsonb := '[]';
    v_touched constant bigint[] := array(
        select scanned.segment_us
        from json_to_recordset(p_dataset -> 'segments') as scanned (segment_us bigint)
    );
    v_after jsonb;
    v_shifted bigint := 0;
    v_buckets jsonb;
begin
    -- A commit holds this row all through: either it has ended, or it comes after us.
    perform
    from subject_lock as lock
    where lock.subject_key = p_subject_key
    for update;
    v_frontier_us := changed_from_us(p_subject_key, p_dataset);
    with known as (
        select part.*
        from rollup as part
        where
            part.dataset = v_name
            and part.subject_key = p_subject_key
            and part.segment_us = any(v_touched)
    ),

    scanned as (
        select (part).*
        from json_populate_recordset(null::rollup, p_dataset -> 'rollups') as part
    ),

    differing as (
        (select * from known except select * from scanned)
        union all
        (select * from scanned except select * from known)
    )

    select coalesce(
        jsonb_agg(distinct jsonb_build_object(
            'rollup', differing.rollup,
            'channel', differing.channel,
            'bucket_us', differing.bucket_us,
            'bucket_end_us', differing.bucket_end_us,
            'label', differing.label
        )),
        '[]'
    )
    into v_buckets
    from differing;

    if v_frontier_us is not null then
        -- Done for real, by the very code of a commit, and undone at once: what is told is what would be.
        begin
            perform resolve_ranges(p_subject_key, null, null, null);
            v_before := telemetry.final_totals(v_name, p_subject_key);
            if (p_dataset ->> 'restates')::boolean then
                v_restates := former_values(
                    null, p_subject_key, p_dataset,
                    case when json_typeof(p_dataset -> 'profile') = 'object' then (p_dataset -> 'profile')::jsonb end
                );
            end if;
            perform settle_version(p_subject_key, p_dataset);
            perform put_segments(gen_random_uuid(), p_subject_key, p_dataset, p_dataset);
            select
                shifted.bases_shifted,
                shifted.moved
            into
                v_shifted,
                v_moved
            from telemetry.shift_bases(v_name, p_subject_key, v_frontier_us, v_restates) as shifted;
            v_after := telemetry.final_totals(v_name, p_subject_key);
            if v_restates is not null then
                v_spans := (
                    select coalesce(
                        jsonb_agg(
                            to_jsonb(span) - 'is_changed'
                            || jsonb_build_object('delta', span_delta(span, metric.is_integer))
                            order by span.metric, span.channel, span.from_us
                        ),
                        '[]'
                    )
                    from restated_spans(v_name, p_subject_key, v_restates, v_moved) as span
                    inner join subject_version as made
                        on
                            made.subject_key = p_subject_key
                            and made.dataset = v_name
                    inner join metric
                        on
                            made.dataset = metric.dataset
                            and made.scan_version = metric.scan_version
                            and span.metric = metric.metric
                );
            end if;
            raise sqlstate 'DA099';
        -- Caught here, it undoes the block and reaches nobody.
        exception when sqlstate 'DA099' then
            null;
        end;
    end if;
    return jsonb_build_object(
        'frontier_us', v_frontier_us,
        'bases_shifted', v_shifted,
        'buckets', v_buckets,
        'spans', v_spans,
        'totals', (
            select coalesce(
                jsonb_agg(
                    jsonb_build_object(
                        'metric', coalesce(after.metric, before.metric),
                        'channel', coalesce(after.channel, before.channel),
                        'old', coalesce(to_jsonb(before.int), to_jsonb(before.float)),
                        'new', coalesce(to_jsonb(after.int), to_jsonb(after.float))
                    )
                    order by coalesce(after.metric, before.metric), coalesce(after.channel, before.channel)
                ),
                '[]'
            )
            from jsonb_to_recordset(coalesce(v_before, '[]')) as before (metric text, channel text, float float8, int bigint)
            full join jsonb_to_recordset(coalesce(v_after, '[]')) as after (metric text, channel text, float float8, int bigint)
                on
                    before.metric = after.metric
                    and before.channel = after.channel
            where (before.float, before.int) is distinct from (after.float, after.int)
        )
    );
end
$$;
comment on function disarray.preview_commit(text, json) is
    'What a commit of these segments would do to published values, totals and rollup buckets. Nothing is changed, and no lock outlives the call.';
