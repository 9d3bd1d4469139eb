-- Materialized views: which there are, whose turn it is to refresh one, and how far each has come.
-- The statements that create and refresh them run as disarray_views, which may read and no more: control/views.py.

create function disarray.put_view(
    p_name text,
    p_schema_name text,
    p_definition text,
    p_unique_key text[],
    p_depends_on text[],
    p_at_most_every interval,
    p_timeout_seconds integer,
    p_by text,
    p_is_built boolean
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
begin
    insert into materialized_view as known (
        name, schema_name, definition, unique_key, depends_on, at_most_every, timeout_seconds, applied_at, applied_by, due_at
    )
    values (
        p_name, p_schema_name, p_definition, p_unique_key, p_depends_on, p_at_most_every, p_timeout_seconds, v_now, p_by, v_now
    )
    on conflict (name) do update
    set
        schema_name = excluded.schema_name,
        definition = excluded.definition,
        unique_key = excluded.unique_key,
        depends_on = excluded.depends_on,
        at_most_every = excluded.at_most_every,
        timeout_seconds = excluded.timeout_seconds,
        applied_at = excluded.applied_at,
        applied_by = excluded.applied_by,
        due_at = excluded.due_at,
        failure_count = 0,
        last_error = null,
        last_error_at = null,
        -- Whoever refreshes the former one is fenced.
        instance_name = null,
        incarnation = null,
        lease_expires_at = null;
    if p_is_built then
        update materialized_view as known
        set
            refreshed_at = v_now,
            commit_position = note_view_position(p_name)
        where known.name = p_name;
    end if;
end
$$;
comment on function disarray.put_view(text, text, text, text[], text[], interval, integer, text, boolean) is
    'Write down what a view is made of. Called before it is built, in the same transaction: what is committed meanwhile makes it stale.';

create function disarray.drop_view(p_name text)
returns boolean
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    delete from view_refresh as logged
    where logged.name = p_name;
    delete from materialized_view as known
    where known.name = p_name;
    return found;
end
$$;
comment on function disarray.drop_view(text) is 'Forget a view with its log, in the transaction that drops it; whether it was known.';

create function disarray.committed_subjects()
returns table (subject_key text, dataset text)
language sql
stable
as $$
-- From one pair to the next along the key: there may be thousands of commits of each, and workers ask every few seconds.
with recursive pair as (
    (
        select
            first.subject_key,
            first.dataset
        from disarray.subject_commit as first
        order by first.subject_key, first.dataset
        limit 1
    )
    union all
    select
        next.subject_key,
        next.dataset
    from pair
    cross join lateral (
        select
            later.subject_key,
            later.dataset
        from disarray.subject_commit as later
        where (later.subject_key, later.dataset) > (pair.subject_key, pair.dataset)
        order by later.subject_key, later.dataset
        limit 1
    ) as next
)

select
    pair.subject_key,
    pair.dataset
from pair
$$;
comment on function disarray.committed_subjects() is 'The subjects and datasets that were ever committed.';

create function disarray.note_view_position(p_name text)
returns bigint
language plpgsql
as $$
declare
    v_position bigint;
begin
    with newest as (
        select
            committed.subject_key,
            committed.dataset,
            last.commit_seq
        from disarray.committed_subjects() as committed
        cross join lateral (
            select noted.commit_seq
            from disarray.subject_commit as noted
            where
                noted.subject_key = committed.subject_key
                and noted.dataset = committed.dataset
            order by noted.commit_seq desc
            limit 1
        ) as last
        where committed.dataset in (
            select split_part(needed.part, '.', 1)
            from disarray.materialized_view as known
            cross join lateral unnest(known.depends_on) as needed (part)
            where known.name = p_name
        )
    ),

    stored as (
        insert into disarray.view_position as known (view_name, subject_key, dataset, commit_seq)
        select
            p_name,
            newest.subject_key,
            newest.dataset,
            newest.commit_seq
        from newest
        on conflict (view_name, subject_key, dataset) do update
        set commit_seq = excluded.commit_seq
        where known.commit_seq <> excluded.commit_seq
    )

    select coalesce(sum(newest.commit_seq), 0)
    into v_position
    from newest;
    return v_position;
end
$$;
comment on function disarray.note_view_position(text) is
    'Note the newest commits of all that a view depends on, as of now: whatever reads afterwards has at least these. Their sum.';

create function disarray.view_is_stale(p_name text)
returns boolean
language sql
stable
as $$
select exists (
    -- Made anew with its readings' table, and empty: see make_views_anew.
    select
    from disarray.materialized_view as known
    inner join pg_catalog.pg_class as relation on relation.oid = to_regclass(format('%I.%I', known.schema_name, known.name))
    where
        known.name = p_name
        and relation.relkind = 'm'
        and not relation.relispopulated
) or exists (
    select
    from disarray.committed_subjects() as committed
    cross join lateral (
        select
            coalesce(
                (
                    select known.commit_seq
                    from disarray.view_position as known
                    where
                        known.view_name = p_name
                        and known.subject_key = committed.subject_key
                        and known.dataset = committed.dataset
                ),
                0
            ) as done,
            (
                select noted.commit_seq
                from disarray.subject_commit as noted
                where
                    noted.subject_key = committed.subject_key
                    and noted.dataset = committed.dataset
                order by noted.commit_seq desc
                limit 1
            ) as newest
        -- Looked up for each subject by its key; joined, all commits would be read.
        offset 0
    ) as seq
    where
        seq.newest > seq.done
        and exists (
            select
            from disarray.materialized_view as known
            cross join lateral unnest(known.depends_on) as needed (part)
            where
                known.name = p_name
                and split_part(needed.part, '.', 1) = committed.dataset
                and (
                    strpos(needed.part, '.') = 0
                    or exists (
                        select
                        from disarray.subject_commit as noted
                        where
                            noted.subject_key = committed.subject_key
                            and noted.dataset = committed.dataset
                            and noted.commit_seq > seq.done
                            and (
                                noted.is_redefined
                                or noted.changed_buckets is null
                                or noted.changed_buckets ? split_part(needed.part, '.', 2)
                            )
                    )
                    -- What came in between is no longer kept: it may have changed anything.
                    or not exists (
                        select
                        from disarray.subject_commit as noted
                        where
                            noted.subject_key = committed.subject_key
                            and noted.dataset = committed.dataset
                            and noted.commit_seq = seq.done + 1
                    )
                )
        )
)
$$;
comment on function disarray.view_is_stale(text) is 'Whether something that a view depends on has a newer commit than it has in it, or it was never filled.';

create function disarray.view_lag(p_name text)
returns table (commits bigint, seconds double precision)
language sql
stable
as $$
select
    coalesce(sum(seq.newest - seq.done), 0)::bigint,
    coalesce(greatest(max(extract(epoch from disarray.clock() - oldest.committed_at)), 0), 0)::double precision
from disarray.committed_subjects() as committed
cross join lateral (
    select
        coalesce(
            (
                select known.commit_seq
                from disarray.view_position as known
                where
                    known.view_name = p_name
                    and known.subject_key = committed.subject_key
                    and known.dataset = committed.dataset
            ),
            0
        ) as done,
        (
            select noted.commit_seq
            from disarray.subject_commit as noted
            where
                noted.subject_key = committed.subject_key
                and noted.dataset = committed.dataset
            order by noted.commit_seq desc
            limit 1
        ) as newest
    offset 0
) as seq
cross join lateral (
    select noted.committed_at
    from disarray.subject_commit as noted
    where
        noted.subject_key = committed.subject_key
        and noted.dataset = committed.dataset
        and noted.commit_seq > seq.done
    order by noted.commit_seq
    limit 1
) as oldest
where committed.dataset in (
    select split_part(needed.part, '.', 1)
    from disarray.materialized_view as known
    cross join lateral unnest(known.depends_on) as needed (part)
    where known.name = p_name
)
$$;
comment on function disarray.view_lag(text) is
    'The commits of what a view depends on that it does not have in it, and the age of the oldest of them that is kept.';

create function disarray.claim_view(p_instance_name text, p_incarnation bigint)
returns table (name text, schema_name text, timeout_seconds integer, fence bigint)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock();
    v_incarnation bigint;
    v_candidate text;
    v_view materialized_view;
begin
    if not exists (select from materialized_view as due where due.due_at <= v_now) then
        return;
    end if;
    v_incarnation := living_incarnation(p_instance_name, p_incarnation);
    for v_candidate in
        select due.name
        from materialized_view as due
        where due.due_at <= v_now
        order by due.due_at, due.name
    loop
        -- A row that is locked is being refreshed: its holder lives.
        select due.*
        into v_view
        from materialized_view as due
        where
            due.name = v_candidate
            and due.due_at <= v_now
            and not is_held(due.instance_name, due.incarnation, due.lease_expires_at, v_now)
        for update skip locked;
        continue when not found or not view_is_stale(v_candidate);
        return query
        update materialized_view as due
        set
            instance_name = p_instance_name,
            incarnation = v_incarnation,
            fence = nextval('disarray.view_fence_seq'),
            -- A refresh is ended by its time limit, and has a minute to say so.
            lease_expires_at = v_now + make_interval(secs => v_view.timeout_seconds + 60)
        where due.name = v_candidate
        returning
            due.name,
            due.schema_name,
            due.timeout_seconds,
            due.fence;
        return;
    end loop;
end
$$;
comment on function disarray.claim_view(text, bigint) is
    'Take the turn to refresh a view that is due, stale and held by nobody; no row where there is none.';

create function disarray.assert_view_held(p_name text, p_instance_name text, p_incarnation bigint, p_fence bigint)
returns void
language plpgsql
as $$
begin
    perform
    from disarray.materialized_view as known
    where
        known.name = p_name
        and known.instance_name = p_instance_name
        and known.incarnation = p_incarnation
        and known.fence = p_fence
        and known.lease_expires_at > disarray.clock()
    for update;
    if not found then
        raise exception 'view % is no longer refreshed by % (incarnation %, fence %). Nothing was changed.',
            quote_literal(p_name), quote_literal(p_instance_name), p_incarnation, p_fence
        using errcode = 'DA002', hint = 'Leave it: another worker refreshes it, or it was applied anew.';
    end if;
end
$$;
comment on function disarray.assert_view_held(text, text, bigint, bigint) is
    'Lock the row of a view and check instance, incarnation, lease and fence. Until the transaction ends nobody can take it over.';

create function disarray.begin_view_refresh(p_name text, p_instance_name text, p_incarnation bigint, p_fence bigint)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform assert_view_held(p_name, p_instance_name, p_incarnation, p_fence);
    return note_view_position(p_name);
end
$$;
comment on function disarray.begin_view_refresh(text, text, bigint, bigint) is
    'In the transaction of a refresh and before it: the position that the view will have at least.';

create function disarray.end_view_refresh(
    p_name text, p_instance_name text, p_incarnation bigint, p_fence bigint, p_seconds double precision, p_position bigint, p_error text
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
begin
    perform assert_view_held(p_name, p_instance_name, p_incarnation, p_fence);
    update materialized_view as known
    set
        refreshed_at = case when p_error is null then v_now else known.refreshed_at end,
        commit_position = case when p_error is null then p_position else known.commit_position end,
        failure_count = case when p_error is null then 0 else known.failure_count + 1 end,
        last_error = p_error,
        last_error_at = case when p_error is not null then v_now end,
        due_at = v_now + case
            when p_error is null then known.at_most_every
            else greatest(known.at_most_every, (array[interval '1 min', interval '5 min', interval '25 min'])[least(known.failure_count + 1, 3)])
        end,
        instance_name = null,
        incarnation = null,
        lease_expires_at = null
    where known.name = p_name;
    insert into view_refresh (name, refreshed_at, commit_position, seconds, error)
    values (p_name, v_now, p_position, p_seconds, left(p_error, 2000));
    delete from view_refresh as logged
    where
        logged.name = p_name
        and logged.refresh_id <= (
            select older.refresh_id
            from view_refresh as older
            where older.name = p_name
            order by older.refresh_id desc
            offset 1000
            limit 1
        );
end
$$;
comment on function disarray.end_view_refresh(text, text, bigint, bigint, double precision, bigint, text) is
    'Log a refresh and give the turn back: in the transaction of the refresh, or with an error in one of its own.';

create function disarray.list_views()
returns table (
    name text,
    schema_name text,
    definition text,
    unique_key text[],
    depends_on text[],
    at_most_every interval,
    timeout_seconds integer,
    applied_at timestamptz,
    applied_by text,
    refreshed_at timestamptz,
    commit_position bigint,
    is_stale boolean,
    lag_commits bigint,
    lag_seconds double precision,
    due_at timestamptz,
    failure_count integer,
    last_error text,
    last_error_at timestamptz,
    held_by text
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    known.name,
    known.schema_name,
    known.definition,
    known.unique_key,
    known.depends_on,
    known.at_most_every,
    known.timeout_seconds,
    known.applied_at,
    known.applied_by,
    known.refreshed_at,
    known.commit_position,
    stale.is_stale,
    case when stale.is_stale then lag.commits else 0 end,
    case when stale.is_stale then lag.seconds else 0 end,
    known.due_at,
    known.failure_count,
    known.last_error,
    known.last_error_at,
    case when known.lease_expires_at > clock() then known.instance_name end
from materialized_view as known
cross join lateral (select view_is_stale(known.name) as is_stale) as stale
cross join lateral view_lag(known.name) as lag
order by known.name
$$;
comment on function disarray.list_views() is
    'The views that were applied, and where each stands. lag_commits are those that a stale one does not have in it, lag_seconds the age of the '
    'oldest of them.';

create function disarray.list_view_refreshes(p_name text, p_limit integer default 20, p_after text[] default null)
returns table (refresh_id bigint, refreshed_at timestamptz, commit_position bigint, seconds double precision, error text)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    logged.refresh_id,
    logged.refreshed_at,
    logged.commit_position,
    logged.seconds,
    logged.error
from view_refresh as logged
where
    logged.name = p_name
    and (p_after is null or logged.refresh_id < p_after[1]::bigint)
order by logged.refresh_id desc
limit p_limit
$$;
comment on function disarray.list_view_refreshes(text, integer, text[]) is 'The last refreshes of a view, newest first.';

create function disarray.grant_view_creation()
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    -- Two at once would change one row of the catalog. Refreshes go on meanwhile.
    lock table materialized_view in share update exclusive mode;
    grant create on schema telemetry to disarray_views;
end
$$;
comment on function disarray.grant_view_creation() is
    'Let disarray_views create in telemetry until revoke_view_creation, in one transaction: workers, who may become it, never can.';

create function disarray.revoke_view_creation()
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    revoke create on schema telemetry from disarray_views;
end
$$;
comment on function disarray.revoke_view_creation() is 'The end of grant_view_creation, in its transaction.';

create function disarray.set_views_aside(p_relations text[])
returns jsonb
language plpgsql
as $$
declare
    v_views jsonb;
    v_view record;
begin
    with recursive dependent as (
        select
            relation.oid as relation,
            0 as depth
        from pg_catalog.pg_class as relation
        where
            relation.relnamespace = 'telemetry'::regnamespace
            and relation.relname = any(p_relations)
        union
        select
            rule.ev_class,
            dependent.depth + 1
        from dependent
        inner join pg_catalog.pg_depend as link
            on
                link.refclassid = 'pg_catalog.pg_class'::regclass
                and link.refobjid = dependent.relation
                and link.classid = 'pg_catalog.pg_rewrite'::regclass
        inner join pg_catalog.pg_rewrite as rule on link.objid = rule.oid
        where rule.ev_class <> dependent.relation
    ),

    deepest as (
        select
            dependent.relation,
            max(dependent.depth) as depth
        from dependent
        group by dependent.relation
    )

    select
        jsonb_agg(
            jsonb_build_object(
                'name', known.name,
                'schema_name', known.schema_name,
                -- As the server has it: names are looked up anew, and it is one statement whatever somebody wrote.
                'query', rtrim(pg_catalog.pg_get_viewdef(relation.oid), ';'),
                'indexes', (
                    select jsonb_agg(pg_catalog.pg_get_indexdef(index.indexrelid))
                    from pg_catalog.pg_index as index
                    where index.indrelid = relation.oid
                )
            )
            order by deepest.depth, known.name
        )
    into v_views
    from deepest
    inner join pg_catalog.pg_class as relation on deepest.relation = relation.oid
    inner join disarray.materialized_view as known
        on
            relation.relname = known.name
            and relation.relnamespace = to_regnamespace(quote_ident(known.schema_name))
    where
        relation.relkind = 'm'
        and relation.relowner = 'disarray_views'::regrole;
    if v_views is null then
        return null;
    end if;
    lock table disarray.materialized_view in share update exclusive mode;
    -- Who refreshes one holds its row and then the view: in this order nobody waits in a circle.
    perform
    from disarray.materialized_view as known
    where known.name in (select each.value ->> 'name' from jsonb_array_elements(v_views) as each (value))
    order by known.name
    for update;
    for v_view in
        select aside.name, aside.schema_name
        from rows from (jsonb_to_recordset(v_views) as (name text, schema_name text)) with ordinality as aside (name, schema_name, place)
        order by aside.place desc
    loop
        execute format('drop materialized view %I.%I', v_view.schema_name, v_view.name);
    end loop;
    return v_views;
end
$$;
comment on function disarray.set_views_aside(text[]) is
    'Drop the views of view apply that are built on what is about to be made anew; what make_views_anew needs to bring them back. '
    'What users built on them is not dropped: that is an error.';

create function disarray.make_views_anew(p_views jsonb)
returns void
language plpgsql
as $$
declare
    v_view record;
    v_index text;
    v_error text;
begin
    if p_views is null then
        return;
    end if;
    grant create on schema telemetry to disarray_views;
    for v_view in
        select aside.name, aside.schema_name, aside.query, aside.indexes
        from rows from (
            jsonb_to_recordset(p_views) as (name text, schema_name text, query text, indexes jsonb)
        ) with ordinality as aside (name, schema_name, query, indexes, place)
        order by aside.place
    loop
        v_error := null;
        begin
            -- Without data: nothing of the query is run here, with rights that are not its own.
            execute format('create materialized view %I.%I as %s with no data', v_view.schema_name, v_view.name, v_view.query);
            for v_index in select each.value from jsonb_array_elements_text(v_view.indexes) as each (value)
            loop
                execute v_index;
            end loop;
            execute format('comment on materialized view %I.%I is %L', v_view.schema_name, v_view.name, 'Made by disarray view apply.');
            execute format(
                'grant select on %I.%I to disarray_reader, disarray_operator, disarray_worker', v_view.schema_name, v_view.name
            );
            execute format('alter materialized view %I.%I owner to disarray_views', v_view.schema_name, v_view.name);
        exception
            -- Whatever is wrong with one view keeps neither a worker nor another view.
            when others then
                v_error := 'it was dropped because what it reads from changed, and cannot be made anew: ' || sqlerrm
                    || '. Mend its file and run: disarray view apply ' || v_view.name;
                insert into disarray.view_refresh (name, refreshed_at, seconds, error)
                values (v_view.name, disarray.clock(), 0, left(v_error, 2000));
        end;
        update disarray.materialized_view as known
        set
            due_at = disarray.clock(),
            failure_count = 0,
            last_error = v_error,
            last_error_at = case when v_error is not null then disarray.clock() end,
            -- Whoever refreshes the former one is fenced.
            instance_name = null,
            incarnation = null,
            lease_expires_at = null
        where known.name = v_view.name;
    end loop;
    revoke create on schema telemetry from disarray_views;
end
$$;
comment on function disarray.make_views_anew(jsonb) is
    'Bring back, empty and due, what set_views_aside dropped. One that no longer fits stays away, and says why.';
