-- Dimensions: values that live once, in a table of their own, and the numbers that stand for them in tables of readings.
-- Names come from disarray.toml: only %I and %L reach dynamic SQL.

create function disarray.dimensions_of(p_definition jsonb)
returns table (place bigint, name text, dimension text)
language sql
immutable
as $$
select
    declared.place,
    declared.name,
    declared.dimension
from rows from (jsonb_to_recordset(p_definition -> 'columns') as (name text, dimension text))
    with ordinality as declared (name, dimension, place)
where declared.dimension is not null
$$;
comment on function disarray.dimensions_of(jsonb) is 'The columns of a table of readings whose values lie in tables of their own.';

create function disarray.put_dimensions(p_dataset text, p_definition jsonb)
returns void
language plpgsql
as $$
declare
    v_wanted record;
begin
    for v_wanted in
        select
            declared.name,
            declared.dimension
        from disarray.dimensions_of(p_definition) as declared
        where not exists (
            select
            from disarray.dimension as known
            where
                known.dataset = p_dataset
                and known.column_name = declared.name
                and known.table_name = declared.dimension
                and to_regclass(format('telemetry.%I', known.table_name)) is not null
        )
        order by declared.name
    loop
        if
            to_regclass(format('telemetry.%I', v_wanted.dimension)) is not null
            or exists (
                select
                from disarray.dimension as known
                where
                    known.table_name = v_wanted.dimension
                    and (known.dataset, known.column_name) is distinct from (p_dataset, v_wanted.name)
            )
            or exists (
                select
                from disarray.dataset_store as other
                where v_wanted.dimension in (other.definition ->> 'table', other.definition ->> 'running', other.definition ->> 'joined')
            )
        then
            raise exception 'telemetry.% is taken: the values of column % of dataset % can have no table of that name. Nothing was changed.',
                v_wanted.dimension, v_wanted.name, p_dataset
            using errcode = 'DA001', hint = 'Give the column another name, leave out its dimension, or move what is there.';
        end if;
        execute format(
            'create table telemetry.%I (
                id integer generated always as identity primary key,
                value text collate "C" not null,
                value_hash bytea not null unique
            )',
            v_wanted.dimension
        );
        execute format(
            'comment on table telemetry.%I is %L', v_wanted.dimension,
            format('The values of column %s of dataset %s, each once. Numbers carry the order of arrival: nothing is ordered by them.', v_wanted.name, p_dataset)
        );
        -- By hash, since an index takes no text that is longer than some 2,700 bytes.
        execute format('comment on column telemetry.%I.value_hash is %L', v_wanted.dimension, 'SHA-256 of the value as UTF-8, from when it was written.');
        execute format('grant select on telemetry.%I to disarray_reader, disarray_operator, disarray_worker', v_wanted.dimension);
        insert into disarray.dimension as known (dataset, column_name, table_name, created_at)
        values (p_dataset, v_wanted.name, v_wanted.dimension, disarray.clock())
        on conflict (dataset, column_name) do update
        set
            table_name = excluded.table_name,
            created_at = excluded.created_at;
    end loop;
end
$$;
comment on function disarray.put_dimensions(text, jsonb) is
    'Create the tables of values that a table of readings needs and does not have yet. None is ever dropped.';

create function disarray.put_joined_view(p_dataset text, p_definition jsonb)
returns void
language plpgsql
as $$
declare
    v_columns text;
    v_joins text;
begin
    if p_definition ->> 'joined' is null then
        return;
    end if;
    select string_agg(
        case when valued.place is null then format(', reading.%I', held.name) else format(', value_%s.value as %I', valued.place, held.name) end,
        ''
        order by valued.place nulls last, held.name
    )
    into v_columns
    from disarray.readings_columns(p_definition) as held
    left join disarray.dimensions_of(p_definition) as valued on held.name = valued.name;
    -- Left joins on a primary key: a value that is not asked for is not looked up, and a number without a value hides no reading.
    select string_agg(
        format(' left join telemetry.%1$I as value_%2$s on value_%2$s.id = reading.%3$I', valued.dimension, valued.place, valued.name),
        ''
        order by valued.place
    )
    into v_joins
    from disarray.dimensions_of(p_definition) as valued;
    execute format(
        'create view telemetry.%I as
        select
            reading.subject_key,
            reading.event_at,
            reading.channel,
            reading.ordinal,
            reading.position,
            reading._segment_us,
            reading._source_id
            %s
        from telemetry.%I as reading
        %s',
        p_definition ->> 'joined', v_columns, p_definition ->> 'table', v_joins
    );
    execute format(
        'comment on view telemetry.%I is %L', p_definition ->> 'joined',
        format('The rows of telemetry.%s with the values that numbers stand for.', p_definition ->> 'table')
    );
    execute format('grant select on telemetry.%I to disarray_reader, disarray_operator, disarray_worker', p_definition ->> 'joined');
end
$$;
comment on function disarray.put_joined_view(text, jsonb) is
    'The view that shows values in the place of numbers, with the columns of a table that has no dimensions; none where there are none.';

create function disarray.rows_relation(p_dataset text)
returns text
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select coalesce(known.definition ->> 'joined', known.definition ->> 'table')
from dataset_store as known
where known.dataset = p_dataset
$$;
comment on function disarray.rows_relation(text) is
    'What in schema telemetry shows the rows of a dataset as they were copied in, values for numbers; NULL: it has no table.';

create function disarray.number_values(p_dataset text, p_column_name text, p_values text[])
returns integer[]
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_table text;
    v_numbers integer[];
begin
    select valued.dimension
    into v_table
    from dataset_store as known
    cross join lateral dimensions_of(known.definition) as valued
    where
        known.dataset = p_dataset
        and valued.name = p_column_name;
    if v_table is null then
        raise exception 'column % of dataset % is no dimension. Nothing was changed.', p_column_name, p_dataset
        using errcode = 'DA001', hint = 'Let all workers have the same disarray.toml, and start this one again.';
    end if;
    -- In the order of the values: of two commits that bring the same ones, one waits for the other and never both. What is there
    -- already is left out first, because a conflict would use up a number.
    execute format(
        'insert into telemetry.%1$I (value, value_hash)
        select
            asked.value,
            pg_catalog.sha256(pg_catalog.convert_to(asked.value, ''UTF8''))
        from pg_catalog.unnest($1) as asked (value)
        where not exists (
            select
            from telemetry.%1$I as known
            where known.value_hash = pg_catalog.sha256(pg_catalog.convert_to(asked.value, ''UTF8''))
        )
        order by asked.value collate "C"
        on conflict do nothing',
        v_table
    )
    using p_values;
    -- Compared with the value as well: a row that somebody changed must not give its number to what it no longer says.
    execute format(
        'select pg_catalog.array_agg(known.id order by asked.place)
        from pg_catalog.unnest($1) with ordinality as asked (value, place)
        left join telemetry.%I as known
            on
                known.value_hash = pg_catalog.sha256(pg_catalog.convert_to(asked.value, ''UTF8''))
                and known.value = asked.value',
        v_table
    )
    into v_numbers
    using p_values;
    if array_position(v_numbers, null) is not null then
        raise exception 'telemetry.% no longer says ''%'' where it was written. Nothing was changed.',
            v_table, left(p_values[array_position(v_numbers, null)], 200)
        using errcode = 'DA032', hint = 'disarray audit names the values that changed; restore them.';
    end if;
    return coalesce(v_numbers, '{}');
end
$$;
comment on function disarray.number_values(text, text, text[]) is
    'The numbers that stand for some values of a dimension, in their order, given out if need be. Called inside the transaction of a '
    'commit, once for each column in the order of their names, with values in the order of their bytes.';

create function disarray.audit_dimensions(p_limit integer)
returns table (rule text, found_at text, detail text)
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_known record;
begin
    for v_known in
        select
            chosen.dataset,
            valued.name,
            valued.dimension
        from dataset_store as chosen
        cross join lateral dimensions_of(chosen.definition) as valued
        order by chosen.dataset, valued.name
    loop
        if to_regclass(format('telemetry.%I', v_known.dimension)) is null or not exists (
            select
            from dimension as known
            where
                known.dataset = v_known.dataset
                and known.column_name = v_known.name
                and known.table_name = v_known.dimension
        ) then
            return query
            select
                'dimension_values_are_as_written',
                'telemetry.' || v_known.dimension,
                format('the values of column %s of dataset %s are not known to lie here, or there is no such table', v_known.name, v_known.dataset);
            continue;
        end if;
        return query execute format(
            'select
                ''dimension_values_are_as_written'',
                ''telemetry.'' || %1$L,
                pg_catalog.format(''value %%s is %%L, and was written as another'', known.id, pg_catalog.left(known.value, 200))
            from telemetry.%1$I as known
            where known.value_hash <> pg_catalog.sha256(pg_catalog.convert_to(known.value, ''UTF8''))
            order by known.id
            limit $1',
            v_known.dimension
        )
        using p_limit;
    end loop;
end
$$;
comment on function disarray.audit_dimensions(integer) is 'Dimension values that are not what was written, and dimensions without a table.';

create function disarray.audit_numbers(p_limit integer)
returns table (rule text, found_at text, detail text)
language plpgsql
stable
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_known record;
begin
    for v_known in
        select
            chosen.definition ->> 'table' as table_name,
            valued.name,
            valued.dimension
        from dataset_store as chosen
        cross join lateral dimensions_of(chosen.definition) as valued
        where
            to_regclass('telemetry.' || quote_ident(valued.dimension)) is not null
            and to_regclass('telemetry.' || quote_ident(chosen.definition ->> 'table')) is not null
        order by chosen.dataset, valued.name
    loop
        return query execute format(
            'select
                ''rows_name_values_that_exist'',
                ''telemetry.'' || %1$L,
                pg_catalog.format(''%%s rows name value %%s of telemetry.%%s, which is not there'', named.rows, named.id, %3$L)
            from (
                select
                    reading.%2$I as id,
                    pg_catalog.count(*) as rows
                from telemetry.%1$I as reading
                where reading.%2$I is not null
                group by 1
            ) as named
            where not exists (select from telemetry.%3$I as known where known.id = named.id)
            order by named.id
            limit $1',
            v_known.table_name, v_known.name, v_known.dimension
        )
        using p_limit;
    end loop;
end
$$;
comment on function disarray.audit_numbers(integer) is 'Numbers in tables of readings that stand for no value; reads every row.';
