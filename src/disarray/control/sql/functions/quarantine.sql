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
    message text
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
    waiting.message
from (
    select
        late.source_uri,
        late.subject_key,
        late.dataset,
        case
            when bool_and(known.sealed_at is not null) then 'its segment is sealed'
            when bool_or(known.sealed_at is not null) then 'beyond the horizon, part of it sealed'
            else 'beyond the horizon'
        end as why,
        count(distinct late.segment_us) as segments,
        sum(late.readings)::bigint as readings,
        min(late.first_us) as first_us,
        max(late.last_us) as last_us,
        min(late.created_at) as parked_at,
        null as message
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
        file.last_seen_at,
        file.metadata ->> 'message'
    from file_info as file
    where
        file.status = 'parked'
        and not exists (
            select
            from fragment as late
            where
                late.source_uri = file.source_uri
                and late.state = 'parked'
        )
) as waiting
where
    (p_source_uri is null or waiting.source_uri = p_source_uri)
    and (p_subject_key is null or waiting.subject_key = p_subject_key)
order by
    waiting.parked_at,
    waiting.source_uri
limit p_limit
$$;
comment on function disarray.list_quarantine(text, text, integer) is
    'What waits for an operator, oldest first: parked readings of files, and new versions that would take readings away.';

create function disarray.lock_quarantined(p_source_uri text, out subject_key text, out dataset text, out why text, out readings bigint)
language plpgsql
as $$
begin
    -- The order of every commit: the subject first, so that one that is under way has ended, then the file.
    perform
    from disarray.subject_lock as lock
    where lock.subject_key = (select file.subject_key from disarray.file_info as file where file.source_uri = p_source_uri)
    for update;
    perform
    from disarray.file_info as file
    where file.source_uri = p_source_uri
    for update;
    select
        waiting.subject_key,
        waiting.dataset,
        waiting.why,
        waiting.readings
    into
        lock_quarantined.subject_key,
        lock_quarantined.dataset,
        lock_quarantined.why,
        lock_quarantined.readings
    from disarray.list_quarantine(p_source_uri) as waiting;
    if not found then
        raise exception 'nothing of file % is in quarantine. Nothing was changed.', quote_literal(left(p_source_uri, 200))
        using errcode = 'DA007', hint = 'disarray quarantine list tells what is.';
    end if;
end
$$;
comment on function disarray.lock_quarantined(text) is 'What is parked of a file, locked until the decision about it is committed.';

create function disarray.release_file(p_source_uri text, p_reason text, p_by text)
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
    from lock_quarantined(p_source_uri) as locked;
    if v_parked.why = 'its segment is sealed' then
        raise exception 'what is parked of file % is for segments whose readings are no longer kept: their numbers can change no more. '
            'Nothing was changed.', quote_literal(left(p_source_uri, 200))
        using errcode = 'DA030', hint = 'disarray quarantine reject drops it; retain of the dataset says how long readings are kept.';
    end if;
    insert into ingest_event (occurred_at, event_type, source_uri, subject_key, metadata)
    values (
        clock(), 'quarantine_released', p_source_uri, v_parked.subject_key,
        jsonb_build_object('reason', p_reason, 'by', p_by, 'why', v_parked.why, 'readings', v_parked.readings)
    );
    return enqueue_file(
        p_source_uri, v_parked.subject_key, 'release', p_by,
        jsonb_build_object(
            'release', case when v_parked.readings > 0 then 'readings' else 'version' end,
            'dataset', v_parked.dataset
        )
    );
end
$$;
comment on function disarray.release_file(text, text, text) is
    'Let what is parked of a file count; the queue_id of the item that does it. Parked readings need no source file.';

create function disarray.reject_file(p_source_uri text, p_reason text, p_by text)
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
    from lock_quarantined(p_source_uri) as locked;
    update fragment as late
    set state = 'rejected'
    where
        late.source_uri = p_source_uri
        and late.state = 'parked';
    update file_info as file
    set status = 'processed'
    where
        file.source_uri = p_source_uri
        and file.status = 'parked';
    insert into ingest_event (occurred_at, event_type, source_uri, subject_key, metadata)
    values (
        v_now, 'quarantine_rejected', p_source_uri, v_parked.subject_key,
        jsonb_build_object('reason', p_reason, 'by', p_by, 'why', v_parked.why, 'readings', v_parked.readings)
    );
    return v_parked.readings;
end
$$;
comment on function disarray.reject_file(text, text, text) is
    'Count nothing of what is parked of a file, and leave the rest of it as it is; how many readings that are. A reingest brings them back to the quarantine.';

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
    v_before := telemetry.final_totals(v_name, p_subject_key);
    v_after := v_before;
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
            perform settle_version(p_subject_key, p_dataset);
            perform put_segments(gen_random_uuid(), p_subject_key, p_dataset, p_dataset);
            v_shifted := telemetry.recompute_running_totals(v_name, p_subject_key, v_frontier_us);
            v_after := telemetry.final_totals(v_name, p_subject_key);
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
            from jsonb_to_recordset(v_before) as before (metric text, channel text, float float8, int bigint)
            full join jsonb_to_recordset(v_after) as after (metric text, channel text, float float8, int bigint)
                on
                    before.metric = after.metric
                    and before.channel = after.channel
            where (before.float, before.int) is distinct from (after.float, after.int)
        )
    );
end
$$;
comment on function disarray.preview_commit(text, json) is
    'What a commit of these segments would do to totals and rollup buckets. Nothing is changed, and no lock outlives the call.';
