-- Table sources: how far each has been read, and who reads it now.

create function disarray.claim_source(
    p_pipeline_name text,
    p_table_name text,
    p_instance_name text,
    p_incarnation bigint,
    p_lease_seconds integer,
    p_is_asked_for boolean default false
)
returns table (
    fence bigint,
    watermark jsonb,
    layout jsonb,
    notices jsonb,
    failure_count integer
)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_incarnation bigint;
    v_state source_state;
begin
    if (
        p_pipeline_name ~ '^[a-z][a-z0-9_]{0,62}$'
        and octet_length(p_table_name) between 1 and 1000
        and p_lease_seconds between 1 and 86400
    ) is not true then
        raise exception 'a source has a name of a-z, 0-9 and _, a table, and a lease of 1 to 86400 seconds. Nothing was claimed.'
        using errcode = 'DA001';
    end if;
    v_incarnation := living_incarnation(p_instance_name, p_incarnation);
    insert into source_state (pipeline_name, table_name, next_pull_at, registered_at)
    values (p_pipeline_name, p_table_name, v_now, v_now)
    on conflict do nothing;
    -- A row that is locked belongs to a batch that is being committed: its holder lives.
    select state.*
    into v_state
    from source_state as state
    where
        state.pipeline_name = p_pipeline_name
        and state.table_name = p_table_name
    for update skip locked;
    if not found
        or v_state.paused_at is not null
        or (v_state.next_pull_at > v_now and not coalesce(p_is_asked_for, false))
        or is_held(v_state.instance_name, v_state.incarnation, v_state.lease_expires_at, v_now)
    then
        return;
    end if;
    return query
    update source_state as state
    set
        instance_name = p_instance_name,
        incarnation = v_incarnation,
        -- Not from fence_seq, by whose parity subjects and newcomers take turns.
        fence = nextval('disarray.batch_seq'),
        lease_expires_at = v_now + make_interval(secs => p_lease_seconds),
        last_pulled_at = v_now
    where
        state.pipeline_name = p_pipeline_name
        and state.table_name = p_table_name
    returning
        state.fence,
        state.watermark,
        state.layout,
        state.notices,
        state.failure_count;
end
$$;
comment on function disarray.claim_source(text, text, text, bigint, integer, boolean) is
    'Take the turn to read a source that is due, or asked for: one row with the fence and where to go on, none where it is held, '
    'paused or not due.';

create function disarray.assert_source_held(
    p_pipeline_name text,
    p_table_name text,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint
)
returns void
language plpgsql
as $$
declare
    v_state disarray.source_state;
begin
    select state.*
    into v_state
    from disarray.source_state as state
    where
        state.pipeline_name = p_pipeline_name
        and state.table_name = p_table_name
    for update;
    if not found
        or v_state.instance_name is distinct from p_instance_name
        or v_state.incarnation is distinct from p_incarnation
        or v_state.fence is distinct from p_fence
        or v_state.lease_expires_at <= disarray.clock()
    then
        raise exception 'source % is no longer held by % (incarnation %, fence %). Nothing was changed.',
            quote_literal(p_pipeline_name), quote_literal(p_instance_name), p_incarnation, p_fence
        using errcode = 'DA002', hint = 'Drop this batch: another worker reads the source, or it was reset.';
    end if;
end
$$;
comment on function disarray.assert_source_held(text, text, text, bigint, bigint) is
    'Lock the row of a source and check instance, incarnation, lease and fence. Until the transaction ends nobody can take it over.';

create function disarray.renew_source(
    p_pipeline_name text,
    p_table_name text,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_lease_seconds integer
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform assert_source_held(p_pipeline_name, p_table_name, p_instance_name, p_incarnation, p_fence);
    update source_state as state
    set lease_expires_at = clock() + make_interval(secs => p_lease_seconds)
    where
        state.pipeline_name = p_pipeline_name
        and state.table_name = p_table_name;
end
$$;
comment on function disarray.renew_source(text, text, text, bigint, bigint, integer) is 'Keep the turn to read a source for longer.';

create function disarray.advance_source(
    p_pipeline_name text,
    p_table_name text,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_run_id uuid,
    p_watermark jsonb,
    p_layout jsonb default null,
    p_notices jsonb default null,
    p_counts jsonb default '{}',
    p_cursor_to text default null
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform assert_source_held(p_pipeline_name, p_table_name, p_instance_name, p_incarnation, p_fence);
    if octet_length(p_watermark::text) > 1000000 or octet_length(p_layout::text) > 1000000 or octet_length(p_notices::text) > 100000 then
        raise exception 'what is kept of a source has at most a megabyte. Nothing was changed.'
        using errcode = 'DA001';
    end if;
    update source_state as state
    set
        watermark = coalesce(p_watermark, state.watermark),
        layout = coalesce(p_layout, state.layout),
        notices = coalesce(p_notices, state.notices),
        rows_seen = state.rows_seen + coalesce((p_counts ->> 'seen')::bigint, 0),
        rows_taken = state.rows_taken + coalesce((p_counts ->> 'taken')::bigint, 0),
        rows_duplicate = state.rows_duplicate + coalesce((p_counts ->> 'duplicate')::bigint, 0),
        rows_rejected = state.rows_rejected + coalesce((p_counts ->> 'rejected')::bigint, 0),
        batches = state.batches + case when coalesce((p_counts ->> 'taken')::bigint, 0) > 0 then 1 else 0 end,
        cursor_to = coalesce(p_cursor_to, state.cursor_to),
        last_run_id = p_run_id,
        last_delivered_at = case
            when coalesce((p_counts ->> 'taken')::bigint, 0) > 0 then clock()
            else state.last_delivered_at
        end
    where
        state.pipeline_name = p_pipeline_name
        and state.table_name = p_table_name;
end
$$;
comment on function disarray.advance_source(text, text, text, bigint, bigint, uuid, jsonb, jsonb, jsonb, jsonb, text) is
    'Move a source on. First statement of the transaction that records what was taken: it locks and checks the row of the source.';

create function disarray.end_source_turn(
    p_pipeline_name text,
    p_table_name text,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_next_in interval,
    p_error text default null
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform assert_source_held(p_pipeline_name, p_table_name, p_instance_name, p_incarnation, p_fence);
    update source_state as state
    set
        instance_name = null,
        incarnation = null,
        fence = null,
        lease_expires_at = null,
        next_pull_at = clock() + greatest(p_next_in, interval '0'),
        failure_count = case when p_error is null then 0 else state.failure_count + 1 end,
        last_error = case when p_error is null then null else left(p_error, 4000) end,
        last_error_at = case when p_error is not null then clock() end
    where
        state.pipeline_name = p_pipeline_name
        and state.table_name = p_table_name;
end
$$;
comment on function disarray.end_source_turn(text, text, text, bigint, bigint, interval, text) is
    'Give the turn back: when the source is due again, and what went wrong if anything did.';

create function disarray.list_sources()
returns table (
    pipeline_name text,
    table_name text,
    watermark jsonb,
    layout jsonb,
    notices jsonb,
    rows_seen bigint,
    rows_taken bigint,
    rows_duplicate bigint,
    rows_rejected bigint,
    batches bigint,
    cursor_to text,
    last_run_id uuid,
    last_pulled_at timestamptz,
    last_delivered_at timestamptz,
    next_pull_at timestamptz,
    failure_count integer,
    last_error text,
    last_error_at timestamptz,
    paused_at timestamptz,
    pause_reason text,
    held_by text
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    state.pipeline_name,
    state.table_name,
    state.watermark,
    state.layout,
    state.notices,
    state.rows_seen + coalesce(loaded.rows_seen, 0)::bigint,
    state.rows_taken + coalesce(loaded.rows_taken, 0)::bigint,
    state.rows_duplicate + coalesce(loaded.rows_duplicate, 0)::bigint,
    state.rows_rejected + coalesce(loaded.rows_rejected, 0)::bigint,
    state.batches + coalesce(loaded.batches, 0)::bigint,
    state.cursor_to,
    state.last_run_id,
    state.last_pulled_at,
    greatest(state.last_delivered_at, loaded.last_delivered_at),
    state.next_pull_at,
    state.failure_count,
    state.last_error,
    state.last_error_at,
    state.paused_at,
    state.pause_reason,
    case when state.lease_expires_at > clock() then state.instance_name end
from source_state as state
left join (
    select
        load.pipeline_name,
        load.table_name,
        sum(load.rows_seen) as rows_seen,
        sum(load.rows_taken) as rows_taken,
        sum(load.rows_duplicate) as rows_duplicate,
        sum(load.rows_rejected) as rows_rejected,
        sum(load.batches) as batches,
        max(load.last_delivered_at) filter (where load.rows_taken > 0) as last_delivered_at
    from source_load as load
    group by
        load.pipeline_name,
        load.table_name
) as loaded on state.pipeline_name = loaded.pipeline_name and state.table_name = loaded.table_name
order by
    state.pipeline_name,
    state.table_name
$$;
comment on function disarray.list_sources() is
    'Every source that was ever read: how far it is, who reads it now, and what went wrong last. Counts are those of its initial loads as well.';

create function disarray.decide_source(
    p_pipeline_name text,
    p_table_name text,
    p_decision text,
    p_reason text,
    p_by text,
    p_watermark jsonb default null
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
set lock_timeout = '10s'
as $$
declare
    v_now constant timestamptz := clock();
begin
    perform check_decision(p_reason, p_by);
    if coalesce(p_decision not in ('paused', 'resumed', 'reset'), true) then
        raise exception 'a source is paused, resumed or reset, not %. Nothing was changed.', coalesce(quote_literal(p_decision), 'NULL')
        using errcode = 'DA001';
    end if;
    insert into source_state (pipeline_name, table_name, next_pull_at, registered_at)
    values (p_pipeline_name, p_table_name, v_now, v_now)
    on conflict do nothing;
    perform
    from source_state as state
    where
        state.pipeline_name = p_pipeline_name
        and state.table_name = p_table_name
    for update;
    update source_state as state
    set
        paused_at = case p_decision when 'paused' then coalesce(state.paused_at, v_now) when 'resumed' then null else state.paused_at end,
        pause_reason = case p_decision when 'paused' then p_reason when 'resumed' then null else state.pause_reason end,
        watermark = case p_decision when 'reset' then p_watermark else state.watermark end,
        -- What it looks like by now is learnt anew.
        layout = case p_decision when 'reset' then null else state.layout end,
        notices = case p_decision when 'reset' then '[]' else state.notices end,
        failure_count = case p_decision when 'paused' then state.failure_count else 0 end,
        last_error = case p_decision when 'paused' then state.last_error end,
        last_error_at = case p_decision when 'paused' then state.last_error_at end,
        next_pull_at = case p_decision when 'paused' then state.next_pull_at else v_now end,
        -- Whoever reads it now is fenced: it would go on from where the source no longer is.
        instance_name = null,
        incarnation = null,
        fence = null,
        lease_expires_at = null
    where
        state.pipeline_name = p_pipeline_name
        and state.table_name = p_table_name;
    -- What it would still take is what the new watermark takes, or what nobody wants.
    update source_load as load
    set
        state = 'abandoned',
        ended_at = v_now
    where
        p_decision = 'reset'
        and load.pipeline_name = p_pipeline_name
        and load.table_name = p_table_name
        and load.state = 'running';
    insert into ingest_event (occurred_at, event_type, instance_name, metadata)
    values (
        v_now,
        ('source_' || p_decision)::ingest_event_event_type,
        null,
        decision_of(p_reason, p_by) || jsonb_build_object('source', p_pipeline_name, 'table', p_table_name, 'watermark', p_watermark)
    );
end
$$;
comment on function disarray.decide_source(text, text, text, text, text, jsonb) is
    'Pause a source, resume it, or let it go on from another watermark; whoever reads it now loses its turn.';
