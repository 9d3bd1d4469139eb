-- Readings that came too late to be believed unasked, and versions that say less than the one before. They wait here:
-- never dropped, never silently applied.

create function disarray.list_quarantine(
    p_source_uri text default null,
    p_subject_key text default null,
    p_limit integer default 100,
    p_after text[] default null
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
            when bool_and(elsewhere.counts) then 'counts elsewhere, in a sealed segment'
            when bool_or(elsewhere.counts) then 'part of it counts elsewhere, in a sealed segment'
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
    -- As _moved_state in model/catalog_changes.py: the file is about another dataset or subject now, and what it said stays there.
    cross join lateral (
        select
            exists (
                select
                from fragment as former
                where
                    former.source_uri = late.source_uri
                    and former.generation = late.generation
                    and former.state = 'sealed'
                    and (former.dataset, former.subject_key) <> (late.dataset, late.subject_key)
                    and former.first_us <= late.last_us
                    and former.last_us >= late.first_us
            ) as counts
    ) as elsewhere
    where
        late.state = 'parked'
        -- It is about to go with its file, and waits again when that is allowed.
        and not exists (select from file_blacklist as listed where listed.source_uri = late.source_uri)
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
    and (waiting.parked_at, waiting.source_uri, waiting.part, waiting.subject_key, coalesce(waiting.dataset, '')) > (
        coalesce(p_after[1]::timestamptz, '-infinity'),
        coalesce(p_after[2], ''),
        coalesce(p_after[3], ''),
        coalesce(p_after[4], ''),
        coalesce(p_after[5], '')
    )
order by
    waiting.parked_at,
    waiting.source_uri,
    waiting.part,
    waiting.subject_key,
    coalesce(waiting.dataset, '')
limit p_limit
$$;
comment on function disarray.list_quarantine(text, text, integer, text[]) is
    'What waits for an operator, oldest first: parked readings of files, and new versions that would take readings away. '
    'Both may wait of one file, and each is a decision of its own: part says which.';

create function disarray.lock_quarantined(
    p_source_uri text,
    p_part text,
    out subject_key text,
    out dataset text,
    out why text,
    out readings bigint,
    out part text,
    out is_newest boolean
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
    where lock.subject_key in (
        select file.subject_key
        from disarray.file_info as file
        where file.source_uri = p_source_uri
        union
        select late.subject_key
        from disarray.fragment as late
        where
            late.source_uri = p_source_uri
            and late.state = 'parked'
    )
    order by lock.subject_key
    for update;
    perform
    from disarray.file_info as file
    where file.source_uri = p_source_uri
    for update;
    begin
        select
            (array_agg(waiting.subject_key order by waiting.is_newest desc, waiting.subject_key))[1],
            (array_agg(waiting.dataset order by waiting.is_newest desc, waiting.subject_key))[1],
            -- Of a file that was replaced, readings of several subjects may wait; only where all are sealed can nothing be done.
            min(waiting.why),
            sum(waiting.readings)::bigint,
            waiting.part,
            bool_or(waiting.is_newest)
        into strict
            lock_quarantined.subject_key,
            lock_quarantined.dataset,
            lock_quarantined.why,
            lock_quarantined.readings,
            lock_quarantined.part,
            lock_quarantined.is_newest
        from (
            select
                listed.*,
                not exists (
                    select
                    from disarray.earlier_homes(p_source_uri) as earlier
                    where
                        listed.part = 'readings'
                        and earlier.dataset = listed.dataset
                        and earlier.subject_key = listed.subject_key
                ) as is_newest
            from disarray.list_quarantine(p_source_uri) as listed
        ) as waiting
        where p_part is null or waiting.part = p_part
        group by waiting.part;
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
    v_queue_id bigint;
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
    if v_parked.part = 'readings' then
        v_queue_id := decide_elsewhere(p_source_uri, 'release');
    end if;
    if v_parked.is_newest then
        -- A key for each part: two decisions about one file may be merged into one item.
        v_queue_id := enqueue_request(
            p_source_uri, v_parked.subject_key, 'release', p_by,
            jsonb_build_object('release_' || v_parked.part, true, 'dataset', v_parked.dataset)
        );
    end if;
    return v_queue_id;
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
