-- Tables of readings: how they are made, changed and filled. Names come from disarray.toml: only %I and %L reach dynamic SQL.

create function disarray.provision_readings(p_dataset text, p_store text, p_definition jsonb)
returns text
language plpgsql
security definer
set search_path = disarray, pg_temp
-- Who waits for a table lets everybody else wait behind him.
set lock_timeout = '60s'
as $$
declare
    v_known record;
    v_has_readings boolean;
begin
    -- Most often there is nothing to do, and then nobody is waited for.
    select known.store
    into v_known
    from dataset_store as known
    where
        known.dataset = p_dataset
        and known.store = p_store
        and (
            p_store = 'lake'
            or (known.definition = p_definition and to_regclass(format('telemetry.%I', p_definition ->> 'table')) is not null)
        );
    if found then
        return v_known.store;
    end if;
    perform enter_gate('store of ' || p_dataset);
    select exists (select from segment as known where known.dataset = p_dataset)
    into v_has_readings;
    insert into dataset_store (dataset, store, changed_at)
    values (p_dataset, case when v_has_readings then 'lake' else p_store end, clock())
    on conflict do nothing;
    update dataset_store as known
    set
        store = p_store,
        changed_at = clock()
    where
        known.dataset = p_dataset
        and known.store <> p_store
        and not v_has_readings;
    select known.store, known.definition
    into v_known
    from dataset_store as known
    where known.dataset = p_dataset;
    if v_known.store = 'timescale' then
        perform put_readings_table(p_dataset, p_definition, v_known.definition);
    end if;
    return v_known.store;
end
$$;
comment on function disarray.provision_readings(text, text, jsonb) is
    'Make sure that a dataset has the table that its readings go to, if they go to one; the store that is in force. '
    'A dataset without readings takes the store asked for, one with readings keeps its own.';

create function disarray.change_store(p_dataset text, p_store text, p_definition jsonb)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
set lock_timeout = '60s'
as $$
begin
    if p_store is null or p_store not in ('lake', 'timescale') then
        raise exception 'readings live in the lake or in timescale, not in %. Nothing was changed.', coalesce(p_store, 'NULL')
        using errcode = 'DA001';
    end if;
    -- Commits hold this lock shared: each of them ended before, or was planned on the old store and has to plan again.
    perform enter_gate('store of ' || p_dataset);
    if p_store = 'timescale' then
        perform put_readings_table(
            p_dataset, p_definition, (select known.definition from dataset_store as known where known.dataset = p_dataset)
        );
    end if;
    insert into dataset_store as known (dataset, store, changed_at)
    values (p_dataset, p_store, clock())
    on conflict (dataset) do update
    set
        store = excluded.store,
        changed_at = excluded.changed_at
    where known.store <> excluded.store;
    if p_store = 'timescale' then
        update dataset_store as known
        set definition = p_definition
        where
            known.dataset = p_dataset
            and known.definition is distinct from p_definition;
    end if;
end
$$;
comment on function disarray.change_store(text, text, jsonb) is
    'From now on commits fill the table of a dataset, or leave it. What was there before is moved subject by subject: queue_copies.';

create function disarray.store_of(p_dataset text)
returns text
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select coalesce((select known.store from dataset_store as known where known.dataset = p_dataset), 'lake')
$$;
comment on function disarray.store_of(text) is 'Where the readings of a dataset live.';

create function disarray.hold_store(p_dataset text, p_store text)
returns void
language plpgsql
as $$
begin
    -- Before any lock on the table: whoever changes the store takes this one, and then the table.
    perform disarray.enter_gate('store of ' || p_dataset, p_is_shared => true);
    if p_store <> coalesce((select known.store from disarray.dataset_store as known where known.dataset = p_dataset), 'lake') then
        raise exception 'the readings of dataset % moved to another store since this was planned. Nothing was changed.', p_dataset
        using errcode = 'DA006', hint = 'Plan again.';
    end if;
end
$$;
comment on function disarray.hold_store(text, text) is
    'Refuse a commit that was planned on another store; until the transaction ends the dataset keeps its own.';

create function disarray.queue_copies(p_dataset text, p_by text, p_subject_key text default null)
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
        insert into ingest_queue as item (kind, lane, subject_key, dataset, reason, requested_by_instance_name, enqueued_at, available_at)
        select
            'copy',
            lane_of('copy'),
            waiting.subject_key,
            p_dataset,
            'copy',
            p_by,
            v_now,
            v_now
        from subjects_to_copy(p_dataset) as waiting
        where p_subject_key is null or waiting.subject_key = p_subject_key
        order by waiting.subject_key
        on conflict do nothing
        returning item.subject_key
    loop
        perform call_turns(array[v_subject], lane_of('copy'), v_now);
        v_queued := v_queued + 1;
    end loop;
    return v_queued;
end
$$;
comment on function disarray.queue_copies(text, text, text) is
    'Queue the subjects of a dataset whose readings are not where its store says; how many were not queued already.';

create function disarray.list_copies(p_dataset text)
returns table (subject_key text, segments bigint, readings bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    waiting.subject_key,
    waiting.segments,
    waiting.readings
from subjects_to_copy(p_dataset) as waiting
order by waiting.subject_key
$$;
comment on function disarray.list_copies(text) is 'The subjects of a dataset whose readings are not, or not all, where its store says.';

create function disarray.subjects_to_copy(p_dataset text)
returns table (subject_key text, segments bigint, readings bigint)
language sql
stable
as $$
select
    known.subject_key,
    count(*),
    sum(known.readings)::bigint
from disarray.segment as known
where
    known.dataset = p_dataset
    and (known.table_digest is null) = exists (
        select
        from disarray.dataset_store as chosen
        where
            chosen.dataset = p_dataset
            and chosen.store = 'timescale'
    )
    -- Readings that the lake no longer keeps can be neither copied nor compared.
    and exists (
        select
        from disarray.fragment as stored
        where
            stored.dataset = known.dataset
            and stored.subject_key = known.subject_key
            and stored.segment_us = known.segment_us
            and stored.state = 'active'
    )
group by known.subject_key
$$;
comment on function disarray.subjects_to_copy(text) is 'Subjects with segments that the table lacks, or holds although the store is the lake.';

create function disarray.readings_type(p_type text)
returns text
language sql
immutable
as $$
select case p_type
    when 'float64' then 'double precision'
    when 'int64' then 'bigint'
    when 'string' then 'text'
    when 'bool' then 'boolean'
    when 'timestamp' then 'timestamp with time zone'
end
$$;
comment on function disarray.readings_type(text) is 'What a type of disarray.toml is in the database; NULL for an unknown one.';

create function disarray.readings_columns(p_definition jsonb)
returns table (name text, type text, tag text)
language sql
stable
as $$
select
    declared.name,
    case when declared.dimension is null then disarray.readings_type(declared.type) else 'integer' end,
    case
        when declared.dimension is null then format('Declared as %s.', declared.type)
        else format('Declared as %s; telemetry.%s says which value each number stands for.', declared.type, declared.dimension)
    end
from jsonb_to_recordset(p_definition -> 'columns') as declared (name text, type text, dimension text)
union all
select
    folded.local,
    disarray.readings_type(folded.type),
    format('The fold of metric %s (%s, %s) within the segment; the view adds the base.', folded.metric, folded.kind, folded.type)
from jsonb_to_recordset(p_definition -> 'metrics') as folded (metric text, local text, type text, kind text)
union all
select
    folded.restarted,
    'boolean',
    format('Whether metric %s restarted in this segment at or before the reading.', folded.metric)
from jsonb_to_recordset(p_definition -> 'metrics') as folded (metric text, restarted text)
where folded.restarted is not null
$$;
comment on function disarray.readings_columns(jsonb) is
    'The columns of a table of readings that its dataset decides on; a column whose tag changes is made anew.';

create function disarray.put_readings_table(p_dataset text, p_definition jsonb, p_known jsonb)
returns void
language plpgsql
as $$
declare
    v_table constant text := p_definition ->> 'table';
    v_view constant text := p_definition ->> 'running';
    v_joined constant text := coalesce(p_definition ->> 'joined', p_known ->> 'joined');
    v_relation regclass := to_regclass(format('telemetry.%I', v_table));
    v_is_known constant boolean := p_known is not null;
    v_timescale text;
    v_column record;
    v_is_made_anew boolean := false;
    v_views jsonb;
begin
    if p_definition is not distinct from p_known and v_relation is not null then
        return;
    end if;
    if exists (
        select
        from disarray.dataset_store as other
        where
            other.dataset <> p_dataset
            and (
                other.definition ->> 'table' in (v_table, v_view, v_joined)
                or other.definition ->> 'running' in (v_table, v_view, v_joined)
                or other.definition ->> 'joined' in (v_table, v_view, v_joined)
            )
    ) or exists (
        select
        from disarray.dimension as valued
        where valued.table_name in (v_table, v_view, v_joined)
    )
    or (v_relation is not null and not v_is_known)
    or (to_regclass(format('telemetry.%I', v_view)) is not null and not v_is_known)
    or (to_regclass('telemetry.' || quote_ident(v_joined)) is not null and p_known ->> 'joined' is null) then
        raise exception 'telemetry.% is taken: dataset % can have no table or view of that name. Nothing was changed.',
            concat_ws(' or telemetry.', v_table, v_view, v_joined), p_dataset
        using errcode = 'DA001', hint = 'Give the dataset another name, or move what is there.';
    end if;
    if v_relation is null then
        select home.nspname
        into v_timescale
        from pg_extension as extension
        inner join pg_namespace as home on extension.extnamespace = home.oid
        where extension.extname = 'timescaledb';
        execute format(
            'create table telemetry.%I (
                event_at timestamp with time zone not null,
                _segment_us bigint not null,
                position bigint not null,
                ordinal integer not null,
                _source_id integer not null,
                subject_key text not null,
                channel text not null
            ) %s',
            v_table, case when v_timescale is null then 'partition by range (event_at)' end
        );
        -- In this order the rows of a subject come out as they belong, and none can be there twice.
        execute format(
            'create unique index %I on telemetry.%I (subject_key, event_at, ordinal)',
            disarray.short_name(v_table || '_in_order'), v_table
        );
        if v_timescale is not null then
            execute format(
                'select %I.create_hypertable(%L::regclass, %L::name, chunk_time_interval => %L::interval, create_default_indexes => false)',
                v_timescale, format('telemetry.%I', v_table), 'event_at',
                make_interval(secs => (p_definition ->> 'chunk_us')::float8 / 1e6)
            );
        end if;
        execute format('comment on table telemetry.%I is %L', v_table, 'The readings of dataset ' || p_dataset || ' that count; see the view over it.');
        execute format('comment on column telemetry.%I.ordinal is %L', v_table, 'The place in the canonical order of the segment, from 0 on.');
        execute format('comment on column telemetry.%I.position is %L', v_table, 'The byte offset in the (decompressed) file that it came from.');
        execute format('grant select on telemetry.%I to disarray_reader, disarray_operator, disarray_worker', v_table);
        execute format('grant insert on telemetry.%I to disarray_worker', v_table);
        v_relation := to_regclass(format('telemetry.%I', v_table));
    end if;
    v_views := disarray.set_views_aside(array[v_table, v_view, v_joined]);
    execute format('drop view if exists telemetry.%I', v_view);
    if v_joined is not null then
        execute format('drop view if exists telemetry.%I', v_joined);
    end if;
    perform disarray.put_dimensions(p_dataset, p_definition);
    for v_column in
        select
            wanted.*,
            found.attnum
        from disarray.readings_columns(p_definition) as wanted
        left join pg_attribute as found
            on
                found.attrelid = v_relation
                and found.attname = wanted.name
                and not found.attisdropped
        where found.attnum is null or col_description(v_relation, found.attnum) is distinct from wanted.tag
    loop
        if v_column.type is null then
            raise exception 'column % has a type that no table can have. Nothing was changed.', v_column.name
            using errcode = 'DA001';
        end if;
        if v_column.attnum is not null then
            execute format('alter table telemetry.%I drop column %I', v_table, v_column.name);
        end if;
        execute format('alter table telemetry.%I add column %I %s', v_table, v_column.name, v_column.type);
        execute format('comment on column telemetry.%I.%I is %L', v_table, v_column.name, v_column.tag);
        v_is_made_anew := true;
    end loop;
    if v_is_made_anew and v_is_known then
        -- Rows without what a new column should say are no longer those of the catalog. Readers take the lake until they are made anew.
        update disarray.segment as known
        set table_digest = null
        where
            known.dataset = p_dataset
            and known.table_digest is not null;
        perform disarray.queue_copies(p_dataset, null);
    end if;
    perform disarray.put_joined_view(p_dataset, p_definition);
    perform disarray.put_running_view(p_dataset, p_definition);
    perform disarray.make_views_anew(v_views);
    update disarray.dataset_store as known
    set definition = p_definition
    where known.dataset = p_dataset;
exception
    when dependent_objects_still_exist then
        raise exception 'the definition of dataset % changed, and views of yours depend on telemetry.%. Nothing was changed.',
            p_dataset, concat_ws(' or telemetry.', v_view, v_joined, v_table)
        using errcode = 'DA001', hint = 'Drop them, start again, and create them anew.';
end
$$;
comment on function disarray.put_readings_table(text, jsonb, jsonb) is
    'Create or change the table and the view of a dataset. New columns are empty until segments are scanned again; '
    'columns that are no longer declared stay as they are.';

create function disarray.short_name(p_name text)
returns text
language sql
immutable
as $$
select case
    when octet_length(p_name) <= 63 then p_name
    else left(p_name, 54) || '_' || left(md5(p_name), 8)
end
$$;
comment on function disarray.short_name(text) is 'A name that PostgreSQL will not cut: two long ones never become one.';

create function disarray.put_running_view(p_dataset text, p_definition jsonb)
returns void
language plpgsql
as $$
declare
    v_columns text;
    v_values text;
    v_joins text;
begin
    select coalesce(string_agg(format('reading.%I, ', declared.name), '' order by declared.place), '')
    into v_columns
    from rows from (jsonb_to_recordset(p_definition -> 'columns') as (name text)) with ordinality as declared (name, place);
    -- As kernels/scanning/running_values.py, to the bit: nothing is known before the base is, a restart begins at zero, a reading
    -- before the first point shows what came into the segment.
    select
        coalesce(
            string_agg(
                format(
                    'case %1$s%2$s when reading.%3$I is null then base_%4$s.before_%5$s else %6$s end as %7$I, ',
                    case when folded.kind not in ('min', 'max') then format('when base_%s.base_%s is null then null', folded.place, kind.word) end,
                    case when folded.restarted is not null then format(' when reading.%I then reading.%I', folded.restarted, folded.local) end,
                    folded.local, folded.place, kind.word,
                    case folded.kind
                        when 'min' then format('least(base_%s.base_%s, reading.%I)', folded.place, kind.word, folded.local)
                        when 'max' then format('greatest(base_%s.base_%s, reading.%I)', folded.place, kind.word, folded.local)
                        else case
                            when telemetry.is_additive(folded.kind) then format('base_%s.base_%s + reading.%I', folded.place, kind.word, folded.local)
                            else 'null'
                        end
                    end,
                    folded.name
                ),
                '' order by folded.place
            ),
            ''
        ),
        -- Bases as the view segment_metric has them, whose columns would keep PostgreSQL from any order but its own: of four metrics
        -- it sorted all of the history. Functions would have to be granted to whoever reads. What a block is looked up by is no
        -- constant: else, while statistics are older than the subject, all blocks of it would be held against each reading.
        coalesce(
            string_agg(
                format(
                    ' left join disarray.segment_summary as summary_%1$s on summary_%1$s.dataset = %2$L'
                    ' and summary_%1$s.subject_key = reading.subject_key and summary_%1$s.metric = %3$L'
                    ' and summary_%1$s.channel = reading.channel and summary_%1$s.segment_us = reading._segment_us and summary_%1$s.piece = 0'
                    ' left join disarray.metric_block as block_%1$s on block_%1$s.dataset = summary_%1$s.dataset || '''''
                    ' and block_%1$s.subject_key = summary_%1$s.subject_key || '''' and block_%1$s.metric = summary_%1$s.metric || '''''
                    ' and block_%1$s.channel = summary_%1$s.channel and block_%1$s.block_us = summary_%1$s.block_us'
                    ' cross join lateral (select'
                    ' case when summary_%1$s.is_carried is not true then summary_%1$s.base_%4$s'
                    ' when block_%1$s.kind = ''min'' then least(block_%1$s.base_%4$s, summary_%1$s.base_%4$s)'
                    ' when block_%1$s.kind = ''max'' then greatest(block_%1$s.base_%4$s, summary_%1$s.base_%4$s)'
                    ' when summary_%1$s.points = 0 and summary_%1$s.prior_us is null then block_%1$s.before_%4$s + summary_%1$s.base_%4$s'
                    ' else block_%1$s.base_%4$s + summary_%1$s.base_%4$s end as base_%4$s,'
                    ' case when summary_%1$s.is_carried is not true then summary_%1$s.before_%4$s'
                    ' when block_%1$s.kind = ''min'' then least(block_%1$s.before_%4$s, summary_%1$s.before_%4$s)'
                    ' when block_%1$s.kind = ''max'' then greatest(block_%1$s.before_%4$s, summary_%1$s.before_%4$s)'
                    ' when summary_%1$s.prior_us is null then block_%1$s.before_%4$s + summary_%1$s.before_%4$s'
                    ' else block_%1$s.base_%4$s + summary_%1$s.before_%4$s end as before_%4$s'
                    ') as base_%1$s',
                    folded.place, p_dataset, folded.metric, kind.word
                ),
                '' order by folded.place
            ),
            ''
        )
    into v_values, v_joins
    from rows from (
        jsonb_to_recordset(p_definition -> 'metrics') as (metric text, name text, local text, restarted text, type text, kind text)
    ) with ordinality as folded (metric, name, local, restarted, type, kind, place)
    cross join lateral (select case folded.type when 'int64' then 'int' else 'float' end as word) as kind;
    execute format(
        'create or replace view telemetry.%I as
        select
            reading.subject_key,
            reading.event_at,
            reading.channel,
            %s%sstale.stale_from is null or reading.event_at < stale.stale_from as is_final,
            source.source_uri,
            reading.position,
            reading.ordinal
        from telemetry.%I as reading
        %s
        left join (
            select open.subject_key, min(open.since) as stale_from
            from (
                select shifting.subject_key, shifting.range_start as since
                from disarray.dirty_range as shifting
                where shifting.resolved_at is null and coalesce(shifting.dataset, %L) = %L
                union all
                select moving.subject_key, moving.stale_from
                from disarray.moving_file as moving
                where moving.dataset = %L
            ) as open
            group by open.subject_key
        ) as stale on stale.subject_key = reading.subject_key
        left join disarray.reading_source as source on source.source_id = reading._source_id',
        p_definition ->> 'running', v_columns, v_values, coalesce(p_definition ->> 'joined', p_definition ->> 'table'), v_joins, p_dataset, p_dataset, p_dataset
    );
    execute format(
        'comment on view telemetry.%I is %L', p_definition ->> 'running',
        'Each reading of dataset ' || p_dataset || ' with its running values, and whether they are final.'
    );
    execute format('grant select on telemetry.%I to disarray_reader, disarray_operator, disarray_worker', p_definition ->> 'running');
end
$$;
comment on function disarray.put_running_view(text, jsonb) is
    'The view that adds to each reading the base of its segment. One with these columns is replaced where it is: what users built on it stays.';

create function disarray.flatten_running_views()
returns integer
language plpgsql
as $$
declare
    v_dataset text;
    v_definition jsonb;
    v_flattened integer := 0;
begin
    for v_dataset in
        select known.dataset
        from disarray.dataset_store as known
        where exists (
            select
            from pg_rewrite as rule
            inner join pg_depend as link
                on
                    rule.oid = link.objid
                    and link.classid = 'pg_rewrite'::regclass
            where
                -- NULL of a dataset that never had a table.
                rule.ev_class = to_regclass('telemetry.' || quote_ident(known.definition ->> 'running'))
                and link.refclassid = 'pg_class'::regclass
                and link.refobjid = 'disarray.segment_metric'::regclass
        )
        order by known.dataset
    loop
        -- A worker that puts a new definition in force would else have its view replaced by that of the former one.
        perform disarray.enter_gate('store of ' || v_dataset);
        select known.definition
        into v_definition
        from disarray.dataset_store as known
        where known.dataset = v_dataset;
        perform disarray.put_running_view(v_dataset, v_definition);
        v_flattened := v_flattened + 1;
    end loop;
    return v_flattened;
end
$$;
comment on function disarray.flatten_running_views() is
    'Part of an upgrade: running views that read through segment_metric read its tables; of how many datasets.';

create function disarray.prepare_months(p_dataset text, p_segments bigint[])
returns integer
language plpgsql
security definer
set search_path = disarray, pg_temp
set timezone = 'UTC'
as $$
declare
    v_definition jsonb;
    v_table text;
    v_month timestamptz;
    v_name text;
    v_created integer := 0;
begin
    select known.definition
    into v_definition
    from dataset_store as known
    where known.dataset = p_dataset;
    v_table := v_definition ->> 'table';
    -- A hypertable makes its own chunks.
    if not exists (
        select
        from pg_class as relation
        where
            relation.oid = to_regclass(format('telemetry.%I', v_table))
            and relation.relkind = 'p'
    ) then
        return 0;
    end if;
    for v_month in
        select distinct months.begin
        from unnest(p_segments) as touched (segment_us)
        cross join lateral generate_series(
            date_trunc('month', instant_of(touched.segment_us), 'UTC'),
            instant_of(touched.segment_us + (v_definition ->> 'segment_us')::bigint - 1),
            interval '1 month'
        ) as months (begin)
        order by months.begin
    loop
        v_name := short_name(v_table || to_char(v_month at time zone 'UTC', '"_y"YYYY"m"MM'));
        continue when to_regclass(format('telemetry.%I', v_name)) is not null;
        -- Two workers that need the same month must not both create it.
        perform enter_gate('months of ' || v_table);
        -- Asked of the table itself: to_regclass remembers its "no" of before the wait.
        continue when exists (
            select
            from pg_class as made
            where
                made.relname = v_name
                and made.relnamespace = 'telemetry'::regnamespace
        );
        -- Created apart and attached: "create table … partition of" would wait for every reader, and every reader for it.
        execute format('create table telemetry.%I (like telemetry.%I including all)', v_name, v_table);
        execute format(
            'alter table telemetry.%I attach partition telemetry.%I for values from (%L) to (%L)',
            v_table, v_name, v_month, v_month + interval '1 month'
        );
        v_created := v_created + 1;
    end loop;
    return v_created;
end
$$;
comment on function disarray.prepare_months(text, bigint[]) is
    'Create the monthly partitions that the rows of some segments need, before the commit that brings them; how many. '
    'Neither readers nor writers wait for it.';

create function disarray.number_sources(p_source_uris text[])
returns table (source_uri text, source_id integer)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    insert into reading_source as known (source_uri)
    select asked.uri
    from unnest(p_source_uris) as asked (uri)
    where not exists (select from reading_source as known where known.source_uri = asked.uri)
    order by asked.uri
    on conflict do nothing;
    return query
    select
        known.source_uri,
        known.source_id
    from reading_source as known
    where known.source_uri = any(p_source_uris);
end
$$;
comment on function disarray.number_sources(text[]) is 'The numbers that stand for some uris in tables of readings, given out if need be.';

create function disarray.name_sources(p_source_ids integer[])
returns table (source_id integer, source_uri text)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    known.source_id,
    known.source_uri
from reading_source as known
where known.source_id = any(p_source_ids)
$$;
comment on function disarray.name_sources(integer[]) is 'The uris that some numbers in tables of readings stand for.';

create function disarray.clear_rows(
    p_dataset text,
    p_subject_key text,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_store text,
    p_segments bigint[],
    p_kept integer[]
)
returns table (name text, type text)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_table regclass;
begin
    perform assert_subject_held(p_subject_key, p_instance_name, p_incarnation, p_fence);
    perform hold_store(p_dataset, p_store);
    v_table := drop_rows(p_dataset, p_subject_key, p_segments, p_kept);
    return query
    select
        known.attname::text,
        format_type(known.atttypid, known.atttypmod)
    from pg_attribute as known
    where
        known.attrelid = v_table
        and known.attnum > 0
        and not known.attisdropped;
end
$$;
comment on function disarray.clear_rows(text, text, text, bigint, bigint, text, bigint[], integer[]) is
    'Make room in the table of a dataset: delete the rows of these segments, but the first so many of each. '
    'The columns as they are, and will be until the transaction ends: what is copied in must have exactly these types.';

create function disarray.drop_rows(
    p_dataset text, p_subject_key text, p_segments bigint[] default null, p_kept integer[] default null
)
returns regclass
language plpgsql
as $$
declare
    v_definition jsonb;
    v_number integer;
begin
    select known.definition
    into v_definition
    from disarray.dataset_store as known
    where known.dataset = p_dataset;
    if v_definition is null then
        return null;
    end if;
    execute format('lock table telemetry.%I in row exclusive mode', v_definition ->> 'table');
    if p_segments is null then
        execute format('delete from telemetry.%I where subject_key = %L', v_definition ->> 'table', p_subject_key);
    end if;
    for v_number in 1 .. coalesce(cardinality(p_segments), 0)
    loop
        -- With constants, other chunks and months are left out when the statement is planned.
        execute format(
            'delete from telemetry.%I where subject_key = %L and event_at >= %L and event_at < %L and ordinal >= %L',
            v_definition ->> 'table',
            p_subject_key,
            disarray.instant_of(p_segments[v_number]),
            disarray.instant_of(p_segments[v_number] + (v_definition ->> 'segment_us')::bigint),
            coalesce(p_kept[v_number], 0)
        );
    end loop;
    return to_regclass(format('telemetry.%I', v_definition ->> 'table'));
end
$$;
comment on function disarray.drop_rows(text, text, bigint[], integer[]) is
    'Delete what the table of a dataset holds of some segments of a subject, but the first so many rows of each; '
    'without segments, of all. For callers that hold its lock row.';
