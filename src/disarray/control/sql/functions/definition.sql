-- What a dataset means. One definition is in force; a subject is moved to it as a whole, and has the former one until then.

create function disarray.register_dataset(
    p_dataset text,
    p_parse_version text,
    p_scan_version text,
    p_definition json,
    p_metrics jsonb,
    p_is_on_purpose boolean default false,
    p_queues boolean default true
)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_known dataset_version;
    v_current dataset_version;
begin
    -- Most often nothing is new, and then no commit is waited for: one may be frozen in a worker that stopped answering.
    if exists (
        select
        from dataset_version as defined
        where
            defined.dataset = p_dataset
            and defined.superseded_at is null
            and defined.parse_version = p_parse_version
            and defined.scan_version = p_scan_version
            and defined.definition::text = p_definition::text
    ) and not exists (
        select
        from jsonb_to_recordset(p_metrics) as declared (name text, unit text)
        left join metric as known
            on
                known.dataset = p_dataset
                and known.scan_version = p_scan_version
                and declared.name = known.metric
        where known.unit is distinct from declared.unit
    ) then
        return 0;
    end if;
    -- Two machines that describe one dataset at the same time: the second is judged by what the first made of it.
    perform enter_gate('definition of ' || p_dataset);
    select defined.*
    into v_current
    from dataset_version as defined
    where
        defined.dataset = p_dataset
        and defined.superseded_at is null;
    select defined.*
    into v_known
    from dataset_version as defined
    where
        defined.dataset = p_dataset
        and defined.parse_version = p_parse_version
        and defined.scan_version = p_scan_version;
    if p_is_on_purpose and not pg_has_role(caller(), 'disarray_operator', 'usage') then
        raise exception 'role % may not put a former definition of dataset % in force again. Nothing was changed.',
            caller(), quote_literal(p_dataset)
        using errcode = '42501', hint = 'Operators may: disarray rebuild.';
    end if;
    if v_known.superseded_at is not null and not p_is_on_purpose then
        raise exception
            'dataset % is described here as it was until %, when another definition (% %) was put in force. Nothing was changed.',
            quote_literal(p_dataset), to_char(v_known.superseded_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI"Z"'),
            left(v_current.parse_version, 8), left(v_current.scan_version, 8)
        using
            errcode = 'DA008',
            hint = format(
                'Bring disarray.toml of this machine up to date; or, to go back on purpose, run: disarray rebuild --dataset %s', p_dataset
            );
    end if;

    -- Waits for the commits that are under way: they hold the row, and what they bring must be seen below.
    update dataset_version as replaced
    set superseded_at = v_now
    where
        replaced.dataset = p_dataset
        and replaced.superseded_at is null
        and (replaced.parse_version, replaced.scan_version) <> (p_parse_version, p_scan_version);
    insert into dataset_version as defined (dataset, parse_version, scan_version, definition, registered_at, in_force_since)
    values (p_dataset, p_parse_version, p_scan_version, p_definition, v_now, v_now)
    on conflict (dataset, parse_version, scan_version) do update
    set
        definition = excluded.definition,
        in_force_since = case when defined.superseded_at is null then defined.in_force_since else v_now end,
        superseded_at = null
    -- Words and limits may change without a change of version.
    where
        defined.superseded_at is not null
        or defined.definition::text <> excluded.definition::text;
    insert into metric as known (dataset, scan_version, metric, kind, method, max_gap_us, is_integer, unit)
    select
        p_dataset,
        p_scan_version,
        declared.name,
        declared.kind,
        declared.method,
        declared.max_gap_us,
        declared.is_integer,
        declared.unit
    from jsonb_to_recordset(p_metrics)
        as declared (name text, kind text, method text, max_gap_us bigint, is_integer boolean, unit text)
    on conflict (dataset, scan_version, metric) do update
    set unit = excluded.unit
    where known.unit <> excluded.unit;
    if (v_current.parse_version, v_current.scan_version) is not distinct from (p_parse_version, p_scan_version) then
        return 0;
    end if;
    insert into ingest_event (occurred_at, event_type, metadata)
    values (
        v_now, 'dataset_defined',
        decision_of(case when p_is_on_purpose then 'on purpose' else 'described so' end, caller()) || jsonb_build_object(
            'dataset', p_dataset, 'parse_version', p_parse_version, 'scan_version', p_scan_version,
            'former_parse_version', v_current.parse_version, 'former_scan_version', v_current.scan_version
        )
    );
    if not p_queues then
        return (select count(*) from pending_rebuilds(p_dataset));
    end if;
    return queue_rebuilds(p_dataset);
end
$$;
comment on function disarray.register_dataset(text, text, text, json, jsonb, boolean, boolean) is
    'Make a definition known. One that was never seen is put in force, and a rebuild is queued for every subject of the dataset, unless '
    'somebody queues them one by one; answers how many. One that was superseded is refused, unless it is put in force again on purpose.';

create function disarray.assert_in_force(p_datasets text[], p_parse_versions text[], p_scan_versions text[])
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_former record;
begin
    -- Until the caller's transaction ends no other definition can be put in force.
    perform
    from dataset_version as defined
    where
        defined.dataset = any(p_datasets)
        and defined.superseded_at is null
    order by defined.dataset
    for share;
    select
        used.dataset,
        coalesce(
            'since ' || to_char(defined.in_force_since at time zone 'UTC', 'YYYY-MM-DD HH24:MI"Z"')
            || ' by ' || left(defined.parse_version, 8) || ' ' || left(defined.scan_version, 8),
            'by none'
        ) as by_what
    into v_former
    from unnest(p_datasets, p_parse_versions, p_scan_versions) as used (dataset, parse_version, scan_version)
    left join dataset_version as defined
        on
            used.dataset = defined.dataset
            and defined.superseded_at is null
    where (used.parse_version, used.scan_version) is distinct from (defined.parse_version, defined.scan_version)
    order by used.dataset
    limit 1;
    if found then
        raise exception 'the definition of dataset % that this worker has is no longer in force; it is replaced %. Nothing was changed.',
            quote_literal(v_former.dataset), v_former.by_what
        using
            errcode = 'DA008',
            hint = format(
                'Bring disarray.toml of this machine up to date and start the worker again; or, to go back on purpose, '
                'run: disarray rebuild --dataset %s', v_former.dataset
            );
    end if;
end
$$;
comment on function disarray.assert_in_force(text[], text[], text[]) is
    'Refuse work under a definition that is not in force; one that is stays so until the transaction ends.';

create function disarray.load_definition(p_dataset text, p_parse_version text, p_scan_version text)
returns json
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select defined.definition
from dataset_version as defined
where
    defined.dataset = p_dataset
    and defined.parse_version = p_parse_version
    and defined.scan_version = p_scan_version
$$;
comment on function disarray.load_definition(text, text, text) is 'A definition as it was written when it was last registered.';

create function disarray.definition_in_force(p_dataset text)
returns table (parse_version text, scan_version text, in_force_since timestamptz)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    defined.parse_version,
    defined.scan_version,
    defined.in_force_since
from dataset_version as defined
where
    defined.dataset = p_dataset
    and defined.superseded_at is null
$$;
comment on function disarray.definition_in_force(text) is 'The versions under which a dataset is read and scanned now; none where it was never registered.';

create function disarray.load_subject_versions(p_subject_keys text[])
returns table (subject_key text, dataset text, parse_version text, scan_version text, is_in_force boolean)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    made.subject_key,
    made.dataset,
    made.parse_version,
    made.scan_version,
    defined.superseded_at is null
from subject_version as made
inner join dataset_version as defined using (dataset, parse_version, scan_version)
where made.subject_key = any(p_subject_keys)
$$;
comment on function disarray.load_subject_versions(text[]) is
    'Under which definition the numbers of some subjects were made; where that is not in force a rebuild is pending.';

create function disarray.pending_rebuilds(
    p_dataset text default null,
    p_subject_key text default null,
    p_parse_version text default null,
    p_scan_version text default null
)
returns setof disarray.subject_version
language sql
stable
as $$
select made.*
from disarray.subject_version as made
inner join disarray.dataset_version as defined
    on
        made.dataset = defined.dataset
        and defined.superseded_at is null
where
    (made.parse_version, made.scan_version)
    <> (coalesce(p_parse_version, defined.parse_version), coalesce(p_scan_version, defined.scan_version))
    and (p_dataset is null or made.dataset = p_dataset)
    and (p_subject_key is null or made.subject_key = p_subject_key)
$$;
comment on function disarray.pending_rebuilds(text, text, text, text) is
    'Subjects whose numbers were made under another definition than the one in force, or than one that may be put in force.';

create function disarray.is_rebuild_queued(p_dataset text, p_subject_key text)
returns boolean
language sql
stable
as $$
select exists (
    select
    from disarray.ingest_queue as item
    where
        item.source_uri is null
        and item.subject_key = p_subject_key
        and item.kind = 'rebuild'
        and item.dataset = p_dataset
)
$$;
comment on function disarray.is_rebuild_queued(text, text) is 'Whether an order to rebuild the subject in this dataset waits or is claimed.';

create function disarray.queue_rebuilds(p_dataset text default null, p_subject_key text default null)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_item record;
    v_count bigint := 0;
begin
    for v_item in
        insert into ingest_queue as waiting (kind, lane, subject_key, dataset, reason, enqueued_at, available_at)
        select
            'rebuild',
            lane_of('rebuild'),
            pending.subject_key,
            pending.dataset,
            'rebuild',
            v_now,
            v_now
        from (
            select
                due.dataset,
                due.subject_key
            from pending_rebuilds(p_dataset, p_subject_key) as due
            union
            select
                moving.dataset,
                moving.subject_key
            from moving_file as moving
            where
                (not moving.is_arriving or moving.decision is not null)
                and (p_dataset is null or moving.dataset = p_dataset)
                and (p_subject_key is null or moving.subject_key = p_subject_key)
        ) as pending
        order by
            pending.subject_key,
            pending.dataset
        -- One that waits after a failure need not wait any longer, and has its attempts again.
        on conflict (subject_key, kind, dataset, lane, status) where source_uri is null do update
        set
            available_at = least(waiting.available_at, excluded.available_at),
            retry_count = 0
        returning
            waiting.subject_key,
            waiting.dataset,
            waiting.queue_id,
            case when waiting.xmax = 0 then 'enqueued' else 'merged' end as verdict
    loop
        insert into ingest_event (occurred_at, event_type, subject_key, metadata)
        values (
            v_now, v_item.verdict::ingest_event_event_type, v_item.subject_key,
            jsonb_build_object('kind', 'rebuild', 'reason', 'rebuild', 'dataset', v_item.dataset, 'queue_id', v_item.queue_id)
        );
        perform call_turns(array[v_item.subject_key], lane_of('rebuild'), v_now);
        v_count := v_count + 1;
    end loop;
    return v_count;
end
$$;
comment on function disarray.queue_rebuilds(text, text) is
    'Queue an item for every subject whose numbers were made under a definition that is not in force, or that files have to leave; '
    'how many there are.';

create function disarray.list_rebuilds(
    p_dataset text default null,
    p_subject_key text default null,
    p_parse_version text default null,
    p_scan_version text default null
)
returns table (
    dataset text,
    subject_key text,
    parse_version text,
    scan_version text,
    segments bigint,
    readings bigint,
    files bigint,
    is_queued boolean
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    pending.dataset,
    pending.subject_key,
    pending.parse_version,
    pending.scan_version,
    kept.segments,
    kept.readings,
    (select count(*) from load_rebuild_files(pending.dataset, pending.subject_key)),
    is_rebuild_queued(pending.dataset, pending.subject_key)
from pending_rebuilds(p_dataset, p_subject_key, p_parse_version, p_scan_version) as pending
cross join lateral (
    select
        count(*) as segments,
        coalesce(sum(known.readings), 0)::bigint as readings
    from segment as known
    where
        known.dataset = pending.dataset
        and known.subject_key = pending.subject_key
) as kept
order by
    pending.dataset,
    pending.subject_key
$$;
comment on function disarray.list_rebuilds(text, text, text, text) is
    'Pending rebuilds, or those that another definition would bring, and how much each has to scan; '
    'files counts those that are read again where parsing changed.';

create function disarray.count_rebuilt(p_dataset text, out rebuilt bigint, out subjects bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    count(*) filter (where defined.superseded_at is null),
    count(*)
from subject_version as made
inner join dataset_version as defined using (dataset, parse_version, scan_version)
where made.dataset = p_dataset
$$;
comment on function disarray.count_rebuilt(text) is 'How many subjects of a dataset have numbers under the definition in force, of how many.';

create function disarray.load_rebuild_files(p_dataset text, p_subject_key text)
returns table (source_uri text, fingerprint bytea)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    known.source_uri,
    known.fingerprint
from file_info as file
inner join file_fingerprint as known on file.source_uri = known.source_uri
where
    file.subject_key = p_subject_key
    -- A file that was announced without its dataset is known by what it says there.
    and (
        file.dataset = p_dataset
        or (
            file.dataset is null
            and exists (
                select
                from fragment as stored
                where
                    stored.source_uri = file.source_uri
                    and stored.dataset = p_dataset
                    and stored.subject_key = p_subject_key
                    and stored.state <> 'dropped'
            )
        )
    )
    and not exists (select from file_blacklist as listed where listed.source_uri = file.source_uri)
order by known.source_uri
$$;
comment on function disarray.load_rebuild_files(text, text) is
    'The files of a subject that are read again where parsing changed: all that were ever taken in and are not blacklisted.';

create function disarray.settle_version(p_subject_key text, p_dataset json)
returns boolean
language plpgsql
as $$
declare
    v_made disarray.subject_version;
begin
    select made.*
    into v_made
    from disarray.subject_version as made
    where
        made.subject_key = p_subject_key
        and made.dataset = p_dataset ->> 'dataset';
    if (v_made.parse_version, v_made.scan_version) is not distinct from (p_dataset ->> 'parse_version', p_dataset ->> 'scan_version') then
        return false;
    end if;
    if (v_made.parse_version, v_made.scan_version) is distinct from (
        p_dataset -> 'rebuilt_from' ->> 'parse_version', p_dataset -> 'rebuilt_from' ->> 'scan_version'
    ) then
        raise exception '%/% has numbers of another definition than was planned for. Nothing was changed.', p_dataset ->> 'dataset', p_subject_key
        using errcode = 'DA006', hint = 'Plan again.';
    end if;
    insert into disarray.subject_version (subject_key, dataset, parse_version, scan_version)
    values (p_subject_key, p_dataset ->> 'dataset', p_dataset ->> 'parse_version', p_dataset ->> 'scan_version')
    on conflict (subject_key, dataset) do update
    set
        parse_version = excluded.parse_version,
        scan_version = excluded.scan_version;
    return v_made.subject_key is not null;
end
$$;
comment on function disarray.settle_version(text, json) is
    'Note under which definition a commit makes its numbers, and refuse to mix two: true where a rebuild moves the subject to another.';

create function disarray.settle_blocks(p_subject_key text, p_dataset json)
returns void
language plpgsql
as $$
declare
    v_name constant text := p_dataset ->> 'dataset';
    v_length_us bigint;
    v_former_length_us bigint;
begin
    select max(scanned.segment_end_us - scanned.segment_us)
    into v_length_us
    from json_to_recordset(p_dataset -> 'segments') as scanned (segment_us bigint, segment_end_us bigint);
    select known.segment_end_us - known.segment_us
    into v_former_length_us
    from disarray.segment as known
    where
        known.dataset = v_name
        and known.subject_key = p_subject_key
    limit 1;
    if v_length_us is null or v_length_us = v_former_length_us then
        return;
    end if;
    -- Of segments of another length all are replaced, and with them their blocks.
    delete from disarray.metric_block as block
    where
        block.dataset = v_name
        and block.subject_key = p_subject_key;
    update disarray.subject_version as made
    set block_length_us = disarray.segments_per_block() * v_length_us
    where
        made.dataset = v_name
        and made.subject_key = p_subject_key;
end
$$;
comment on function disarray.settle_blocks(text, json) is
    'Note how long the blocks of a subject are, before its first segments are put, or those of another length.';

create function disarray.keep_unscanned(p_subject_key text, p_dataset json)
returns void
language plpgsql
as $$
declare
    v_name constant text := p_dataset ->> 'dataset';
    v_scan_version constant text := p_dataset ->> 'scan_version';
begin
    -- Numbers whose meaning changed and whose readings are not there to be scanned would be of no definition at all.
    delete from disarray.segment_summary as summary
    using disarray.segment as kept
    where
        kept.dataset = v_name
        and kept.subject_key = p_subject_key
        and kept.scan_version <> v_scan_version
        and summary.dataset = v_name
        and summary.subject_key = p_subject_key
        and summary.segment_us = kept.segment_us
        and not summary.metric = any(array(select json_array_elements_text(p_dataset -> 'kept_metrics')));
    delete from disarray.metric_block as block
    where
        block.dataset = v_name
        and block.subject_key = p_subject_key
        and not exists (
            select
            from disarray.segment_summary as summary
            where
                summary.dataset = v_name
                and summary.subject_key = p_subject_key
                and summary.metric = block.metric
                and summary.channel = block.channel
                and summary.block_us = block.block_us
        );
    delete from disarray.rollup_block as block
    using disarray.segment as kept
    where
        kept.dataset = v_name
        and kept.subject_key = p_subject_key
        and kept.scan_version <> v_scan_version
        and block.dataset = v_name
        and block.subject_key = p_subject_key
        and block.segment_us = kept.segment_us
        and not block.rollup = any(array(select json_array_elements_text(p_dataset -> 'kept_rollups')));
    update disarray.segment as kept
    set scan_version = v_scan_version
    where
        kept.dataset = v_name
        and kept.subject_key = p_subject_key
        and kept.scan_version <> v_scan_version;
end
$$;
comment on function disarray.keep_unscanned(text, json) is
    'Segments that a rebuild does not scan, because nothing changes for them or their readings are no longer kept: what means the same stays.';
