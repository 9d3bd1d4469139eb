-- Initial loads of table sources: chunks of a key, cut and claimed while earlier ones are read.

create function disarray.begin_source_load(
    p_pipeline_name text,
    p_table_name text,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_plan jsonb,
    p_open_transactions text[],
    p_key_end jsonb,
    p_rows_estimated bigint
)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_load_id bigint;
begin
    perform assert_source_held(p_pipeline_name, p_table_name, p_instance_name, p_incarnation, p_fence);
    if (
        octet_length(p_plan::text) <= 1000000
        and octet_length(p_key_end::text) <= 100000
        and jsonb_typeof(p_key_end) = 'array'
        and p_open_transactions is not null
        and p_rows_estimated >= 0
    ) is not true then
        raise exception 'an initial load has a plan of at most a megabyte, the key where it ends and the transactions it waits for. Nothing was changed.'
        using errcode = 'DA001';
    end if;
    insert into source_load (
        pipeline_name, table_name, plan, open_transactions, key_end, rows_estimated, started_at, next_round_at
    )
    values (p_pipeline_name, p_table_name, p_plan, p_open_transactions, p_key_end, p_rows_estimated, v_now, v_now)
    returning load_id into v_load_id;
    return v_load_id;
end
$$;
comment on function disarray.begin_source_load(text, text, text, bigint, bigint, jsonb, text[], jsonb, bigint) is
    'Begin the initial load of a source, in the transaction in which its watermark begins behind what the load takes.';

create function disarray.find_source_load(p_pipeline_name text, p_table_name text)
returns table (
    load_id bigint,
    plan jsonb,
    open_transactions text[],
    key_end jsonb,
    cut_up_to jsonb,
    is_cut boolean,
    unread_chunks bigint,
    failure_count integer,
    is_due boolean
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    load.load_id,
    load.plan,
    load.open_transactions,
    load.key_end,
    load.cut_up_to,
    load.is_cut,
    (
        select count(*)
        from source_chunk as chunk
        where
            chunk.load_id = load.load_id
            and chunk.state = 'waiting'
            and chunk.read_under is null
    ),
    load.failure_count,
    load.next_round_at <= clock()
    and not exists (
        select
        from source_state as state
        where
            state.pipeline_name = load.pipeline_name
            and state.table_name = load.table_name
            and state.paused_at is not null
    )
from source_load as load
where
    load.pipeline_name = p_pipeline_name
    and load.table_name = p_table_name
    and load.state = 'running'
$$;
comment on function disarray.find_source_load(text, text) is
    'The initial load of a source that is under way, and whether it is due: its source is not paused, and no failure is waited for.';

create function disarray.lock_source_load(p_load_id bigint)
returns disarray.source_load
language plpgsql
as $$
declare
    v_load disarray.source_load;
begin
    select load.*
    into v_load
    from disarray.source_load as load
    where
        load.load_id = p_load_id
        and load.state = 'running'
    for update;
    if not found then
        raise exception 'initial load % is not under way any more. Nothing was changed.', coalesce(p_load_id::text, 'NULL')
        using errcode = 'DA002', hint = 'Drop what was read: its source was reset, or another worker ended the load.';
    end if;
    return v_load;
end
$$;
comment on function disarray.lock_source_load(bigint) is 'Lock a load that is under way; before any of its chunks.';

create function disarray.settle_source_load(p_load_id bigint, p_open_transactions text[])
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform lock_source_load(p_load_id);
    update source_load as load
    set open_transactions = p_open_transactions
    where
        load.load_id = p_load_id
        -- None is waited for again: another worker may have seen more of them end.
        and cardinality(p_open_transactions) < cardinality(load.open_transactions);
end
$$;
comment on function disarray.settle_source_load(bigint, text[]) is 'Those of the transactions that a load waits for which are still open.';

create function disarray.add_source_chunks(p_load_id bigint, p_cut_up_to jsonb, p_ends jsonb[], p_is_last boolean)
returns boolean
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_load source_load;
    v_last bigint;
begin
    v_load := lock_source_load(p_load_id);
    if v_load.is_cut or v_load.cut_up_to is distinct from p_cut_up_to or (octet_length(p_ends::text) <= 1000000 and p_is_last is not null) is not true then
        return false;
    end if;
    v_last := coalesce((select max(chunk.chunk_no) from source_chunk as chunk where chunk.load_id = p_load_id), 0);
    insert into source_chunk (load_id, chunk_no, key_from, key_to)
    select
        p_load_id,
        v_last + cut.place,
        coalesce(lag(cut.key_to) over (order by cut.place), p_cut_up_to),
        cut.key_to
    from (
        select
            given.key_to,
            given.place
        from unnest(p_ends) with ordinality as given (key_to, place)
        union all
        select
            null,
            cardinality(p_ends) + 1
        where p_is_last
    ) as cut;
    update source_load as load
    set
        cut_up_to = coalesce(p_ends[cardinality(p_ends)], load.cut_up_to),
        is_cut = p_is_last
    where load.load_id = p_load_id;
    return true;
end
$$;
comment on function disarray.add_source_chunks(bigint, jsonb, jsonb[], boolean) is
    'Add chunks behind the last one that was cut, each to the next end, the last of all without one; false where another worker cut meanwhile.';

create function disarray.claim_source_chunks(
    p_load_id bigint,
    p_instance_name text,
    p_incarnation bigint,
    p_lease_seconds integer,
    p_limit integer
)
returns table (chunk_no bigint, key_from jsonb, key_to jsonb, read_under jsonb, fence bigint, is_final boolean)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock();
    v_fence constant bigint := nextval('disarray.batch_seq');
    v_incarnation bigint;
    v_load source_load;
begin
    if (p_lease_seconds between 1 and 86400 and p_limit between 1 and 1000) is not true then
        raise exception '1 to 1000 chunks are claimed with a lease of 1 to 86400 seconds. Nothing was claimed.'
        using errcode = 'DA001';
    end if;
    v_incarnation := living_incarnation(p_instance_name, p_incarnation);
    v_load := lock_source_load(p_load_id);
    return query
    update source_chunk as chunk
    set
        state = 'claimed',
        instance_name = p_instance_name,
        incarnation = v_incarnation,
        fence = v_fence,
        lease_expires_at = v_now + make_interval(secs => p_lease_seconds)
    where
        chunk.load_id = p_load_id
        and chunk.chunk_no in (
            select free.chunk_no
            from source_chunk as free
            where
                free.load_id = p_load_id
                and (
                    free.state = 'waiting'
                    or (
                        free.state = 'claimed'
                        and (
                            free.lease_expires_at <= v_now
                            -- A holder that was started again since holds nothing.
                            or not exists (
                                select
                                from instance as known
                                where
                                    known.instance_name = free.instance_name
                                    and known.incarnation = free.incarnation
                            )
                        )
                    )
                )
                and (free.read_under is null or cardinality(v_load.open_transactions) = 0)
            order by
                free.read_under is not null,
                free.chunk_no
            limit p_limit
        )
    returning
        chunk.chunk_no,
        chunk.key_from,
        chunk.key_to,
        chunk.read_under,
        chunk.fence,
        cardinality(v_load.open_transactions) = 0;
end
$$;
comment on function disarray.claim_source_chunks(bigint, text, bigint, integer, integer) is
    'Claim chunks of a load under one fence. is_final: no transaction is waited for, so that a snapshot taken from now on shows all that will '
    'ever belong to them.';

create function disarray.renew_source_chunks(
    p_load_id bigint,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_lease_seconds integer
)
returns bigint
language sql
security definer
set search_path = disarray, pg_temp
as $$
with renewed as (
    update source_chunk as chunk
    set lease_expires_at = clock() + make_interval(secs => p_lease_seconds)
    where
        chunk.load_id = p_load_id
        and chunk.state = 'claimed'
        and chunk.instance_name = p_instance_name
        and chunk.incarnation = p_incarnation
        and chunk.fence = p_fence
        and chunk.lease_expires_at > clock()
    returning chunk.chunk_no
)

select count(*)
from renewed
$$;
comment on function disarray.renew_source_chunks(bigint, text, bigint, bigint, integer) is 'Keep the chunks of a claim for longer: how many are still held.';

create function disarray.complete_source_chunk(
    p_load_id bigint,
    p_chunk_no bigint,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_counts jsonb,
    p_read_under jsonb default null,
    p_reached jsonb default null,
    p_notices jsonb default '[]'
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_load source_load;
    v_chunk source_chunk;
begin
    v_load := lock_source_load(p_load_id);
    select chunk.*
    into v_chunk
    from source_chunk as chunk
    where
        chunk.load_id = p_load_id
        and chunk.chunk_no = p_chunk_no
    for update;
    if not found
        or v_chunk.state <> 'claimed'
        or v_chunk.instance_name is distinct from p_instance_name
        or v_chunk.incarnation is distinct from p_incarnation
        or v_chunk.fence is distinct from p_fence
        or v_chunk.lease_expires_at <= clock()
    then
        raise exception 'chunk % of initial load % is no longer held by % (incarnation %, fence %). Nothing was changed.',
            coalesce(p_chunk_no::text, 'NULL'), p_load_id, quote_literal(p_instance_name), p_incarnation, p_fence
        using errcode = 'DA002', hint = 'Drop what was read: another worker has it.';
    end if;
    if octet_length(p_read_under::text) > 1000000 or octet_length(p_reached::text) > 100000 then
        raise exception 'what is kept of a chunk has at most a megabyte. Nothing was changed.'
        using errcode = 'DA001';
    end if;
    if p_reached is not null then
        insert into source_chunk (load_id, chunk_no, key_from, key_to, read_under)
        select
            p_load_id,
            max(chunk.chunk_no) + 1,
            p_reached,
            v_chunk.key_to,
            v_chunk.read_under
        from source_chunk as chunk
        where chunk.load_id = p_load_id;
    end if;
    update source_chunk as chunk
    set
        state = (case when p_read_under is null then 'done' else 'waiting' end)::source_chunk_state,
        key_to = coalesce(p_reached, chunk.key_to),
        read_under = p_read_under,
        rows_taken = chunk.rows_taken + coalesce((p_counts ->> 'taken')::bigint, 0),
        instance_name = null,
        incarnation = null,
        fence = null,
        lease_expires_at = null
    where
        chunk.load_id = p_load_id
        and chunk.chunk_no = p_chunk_no;
    update source_load as load
    set
        rows_seen = load.rows_seen + coalesce((p_counts ->> 'seen')::bigint, 0),
        rows_taken = load.rows_taken + coalesce((p_counts ->> 'taken')::bigint, 0),
        rows_duplicate = load.rows_duplicate + coalesce((p_counts ->> 'duplicate')::bigint, 0),
        rows_rejected = load.rows_rejected + coalesce((p_counts ->> 'rejected')::bigint, 0),
        batches = load.batches + case when coalesce((p_counts ->> 'taken')::bigint, 0) > 0 then 1 else 0 end,
        notices = (
            select coalesce(jsonb_agg(distinct kept.notice), '[]')
            from (
                select given.notice
                from jsonb_array_elements(load.notices || coalesce(p_notices, '[]')) as given (notice)
                limit 100
            ) as kept
        ),
        last_delivered_at = clock(),
        failure_count = 0,
        last_error = null,
        last_error_at = null
    where load.load_id = p_load_id;
end
$$;
comment on function disarray.complete_source_chunk(bigint, bigint, text, bigint, bigint, jsonb, jsonb, jsonb, jsonb) is
    'End a chunk: first statement of the transaction that records what was taken. With p_read_under it is read again once the load waits for '
    'no transaction; with p_reached it ends there, and its rest becomes a chunk of its own.';

create function disarray.release_source_chunks(
    p_load_id bigint,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_error text default null,
    p_next_in interval default '0'
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform lock_source_load(p_load_id);
    update source_chunk as chunk
    set
        state = 'waiting',
        instance_name = null,
        incarnation = null,
        fence = null,
        lease_expires_at = null
    where
        chunk.load_id = p_load_id
        and chunk.state = 'claimed'
        and chunk.instance_name = p_instance_name
        and chunk.incarnation = p_incarnation
        and chunk.fence = p_fence;
    update source_load as load
    set
        next_round_at = clock() + greatest(p_next_in, interval '0'),
        failure_count = case when p_error is null then load.failure_count else load.failure_count + 1 end,
        last_error = coalesce(left(p_error, 4000), load.last_error),
        last_error_at = case when p_error is null then load.last_error_at else clock() end
    where load.load_id = p_load_id;
end
$$;
comment on function disarray.release_source_chunks(bigint, text, bigint, bigint, text, interval) is
    'Give chunks back that were not read: when the load goes on, and what went wrong if anything did.';

create function disarray.end_source_load(p_load_id bigint)
returns boolean
language sql
security definer
set search_path = disarray, pg_temp
as $$
with ended as (
    update source_load as load
    set
        state = 'done',
        ended_at = clock()
    where
        load.load_id = p_load_id
        and load.state = 'running'
        and load.is_cut
        and not exists (
            select
            from source_chunk as chunk
            where
                chunk.load_id = p_load_id
                and chunk.state <> 'done'
        )
    returning load.load_id
)

select exists (select from ended)
$$;
comment on function disarray.end_source_load(bigint) is 'End a load of which every chunk is done; false where one is left, or another worker ended it.';

create function disarray.list_source_loads()
returns table (
    pipeline_name text,
    table_name text,
    state text,
    chunks_done bigint,
    chunks_cut bigint,
    is_cut boolean,
    open_transactions bigint,
    rows_estimated bigint,
    rows_taken bigint,
    rows_rejected bigint,
    notices jsonb,
    started_at timestamptz,
    last_delivered_at timestamptz,
    ended_at timestamptz,
    failure_count integer,
    last_error text
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select distinct on (load.pipeline_name, load.table_name)
    load.pipeline_name,
    load.table_name,
    load.state::text,
    chunk.done,
    chunk.cut,
    load.is_cut,
    cardinality(load.open_transactions)::bigint,
    load.rows_estimated,
    load.rows_taken,
    load.rows_rejected,
    load.notices,
    load.started_at,
    load.last_delivered_at,
    load.ended_at,
    load.failure_count,
    load.last_error
from source_load as load
cross join lateral (
    select
        count(*) filter (where known.state = 'done') as done,
        count(*) as cut
    from source_chunk as known
    where known.load_id = load.load_id
) as chunk
order by
    load.pipeline_name,
    load.table_name,
    load.load_id desc
$$;
comment on function disarray.list_source_loads() is 'The newest initial load of each source: how far it is, and what went wrong last.';
