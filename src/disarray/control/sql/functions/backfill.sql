-- Backfills: jobs, what operators decide about them, how fast they may go, and how far they are.

create function disarray.start_backfill(
    p_name text,
    p_kind text,
    p_description jsonb,
    p_cursor_end text[],
    p_rows_estimated bigint,
    p_answer_before jsonb,
    p_rate_limit double precision,
    p_max_concurrency integer,
    p_chunk_rows integer,
    p_reason text,
    p_by text
)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_active bigint;
    v_job_id bigint;
begin
    perform check_decision(p_reason, p_by);
    perform check_backfill_pace(p_rate_limit, p_max_concurrency);
    if (
        p_name ~ '^[a-z][a-z0-9_]{0,62}$'
        and p_kind ~ '^[a-z]{1,20}$'
        and jsonb_typeof(p_description) = 'object'
        and octet_length(p_description::text) <= 100000
        and p_rows_estimated >= 0
        and p_chunk_rows between 1 and 1000000
    ) is not true then
        raise exception 'a backfill has a name of a-z, 0-9 and _, a kind, a description of at most 100000 bytes and chunks of 1 to 1000000 rows. Nothing was started.'
        using errcode = 'DA001';
    end if;
    insert into backfill_job (
        name, kind, description, state, cursor_end, rows_estimated, answer_before, started_at, started_by, scanned_at
    )
    values (
        p_name, p_kind, p_description, 'running', p_cursor_end, p_rows_estimated, p_answer_before, v_now, p_by,
        -- An empty table has no chunks.
        case when p_cursor_end is null then v_now end
    )
    on conflict (name) where state in ('running', 'paused', 'stopped', 'verifying') do nothing
    returning job_id into v_job_id;
    if v_job_id is null then
        select job.job_id
        into v_active
        from backfill_job as job
        where
            job.name = p_name
            and job.state in ('running', 'paused', 'stopped', 'verifying');
        raise exception 'backfill % is under way as job %. Nothing was started.', quote_literal(p_name), v_active
        using errcode = 'DA001', hint = format('disarray backfill resume %s goes on with it, disarray backfill cancel %s gives it up.', v_active, v_active);
    end if;
    insert into backfill_pace (job_id, rate_limit, max_concurrency, refilled_at, chunk_rows)
    values (v_job_id, p_rate_limit, p_max_concurrency, v_now, p_chunk_rows);
    perform note_backfill_event('backfill_started', v_job_id, decision_of(p_reason, p_by));
    return v_job_id;
end
$$;
comment on function disarray.start_backfill(text, text, jsonb, text[], bigint, jsonb, double precision, integer, integer, text, text) is
    'Begin a backfill: its number. One of a name is under way at a time.';

create function disarray.check_backfill_pace(p_rate_limit double precision, p_max_concurrency integer)
returns void
language plpgsql
immutable
as $$
begin
    if coalesce(not (p_rate_limit > 0 and p_rate_limit <= 1e9), false) or (p_max_concurrency between 1 and 1000) is not true then
        raise exception 'a rate is more than 0 and at most 1e9 rows a second, and 1 to 1000 chunks are processed at once. Nothing was changed.'
        using errcode = 'DA001';
    end if;
end
$$;
comment on function disarray.check_backfill_pace(double precision, integer) is 'Refuse a rate or a concurrency that cannot be.';

create function disarray.note_backfill_event(p_event_type text, p_job_id bigint, p_metadata jsonb)
returns void
language plpgsql
set search_path = disarray, pg_temp
as $$
declare
    v_name constant text := (select job.name from backfill_job as job where job.job_id = p_job_id);
    v_details constant jsonb := p_metadata || jsonb_build_object('job_id', p_job_id, 'backfill', v_name);
begin
    insert into ingest_event (occurred_at, event_type, metadata)
    values (clock(), p_event_type::ingest_event_event_type, v_details);
    if p_event_type in ('backfill_ended', 'backfill_stopped', 'backfill_cancelled') then
        -- One that is resumed, or verified again, ends again.
        perform note_side_effects(
            'backfill_ended',
            null,
            null,
            p_job_id || ' ' || clock(),
            format(
                'backfill %s (%s) %s', v_name, p_job_id,
                case p_event_type
                    when 'backfill_stopped' then 'stopped: ' || coalesce(v_details ->> 'error', 'it cannot go on')
                    when 'backfill_cancelled' then 'was cancelled'
                    else 'ended: ' || coalesce(v_details ->> 'verdict', 'without a verdict')
                end
            ),
            v_details
        );
    end if;
end
$$;
comment on function disarray.note_backfill_event(text, bigint, jsonb) is
    'Write down what became of a backfill, and tell hooks of its end: that it is done with a verdict, has stopped, or was cancelled.';

create function disarray.refuse_unknown_backfill(p_job_id bigint)
returns void
language plpgsql
immutable
as $$
begin
    raise exception 'there is no backfill job %. Nothing was changed.', coalesce(p_job_id::text, 'NULL')
    using errcode = 'DA040', hint = 'disarray backfill list names those that there are.';
end
$$;
comment on function disarray.refuse_unknown_backfill(bigint) is 'The error for a job that nobody started.';

create function disarray.stop_backfill(p_job_id bigint, p_reason text)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    if coalesce(btrim(p_reason), '') = '' then
        raise exception 'a backfill stops for a reason. Nothing was changed.'
        using errcode = 'DA001';
    end if;
    update backfill_job as job
    set
        state = 'stopped',
        state_reason = left(p_reason, 4000)
    where
        job.job_id = p_job_id
        and job.state in ('running', 'verifying');
    if found then
        perform note_backfill_event('backfill_stopped', p_job_id, jsonb_build_object('error', left(p_reason, 1000)));
    end if;
end
$$;
comment on function disarray.stop_backfill(bigint, text) is 'Stop a job that cannot go on: no chunk can be cut, or its table is not what it was. Its chunks stay.';

create function disarray.note_backfill_hold(p_job_id bigint, p_held_by text, p_reason text)
returns void
language sql
security definer
set search_path = disarray, pg_temp
as $$
update backfill_pace as pace
set
    held_by = case when p_reason is not null then left(p_held_by, 40) end,
    held_reason = case when p_held_by is not null then left(p_reason, 1000) end,
    held_at = case when p_held_by is not null and p_reason is not null then clock() end
where pace.job_id = p_job_id
$$;
comment on function disarray.note_backfill_hold(bigint, text, text) is 'Keep what holds a job back right now: a limit of health, or a database that is away; NULL: nothing does.';

create function disarray.decide_backfill(p_job_id bigint, p_decision text, p_reason text, p_by text)
returns text
language plpgsql
security definer
set search_path = disarray, pg_temp
set lock_timeout = '10s'
as $$
declare
    v_now constant timestamptz := clock();
    v_job backfill_job;
    v_has_dead boolean;
begin
    perform check_decision(p_reason, p_by);
    if coalesce(p_decision not in ('paused', 'resumed', 'cancelled'), true) then
        raise exception 'a backfill is paused, resumed or cancelled, not %. Nothing was changed.', coalesce(quote_literal(p_decision), 'NULL')
        using errcode = 'DA001';
    end if;
    -- Before the job, as whoever claims does: once this has returned, no claim comes after it.
    perform
    from backfill_pace as pace
    where pace.job_id = p_job_id
    for update;
    select job.*
    into v_job
    from backfill_job as job
    where job.job_id = p_job_id
    for update;
    if not found then
        perform refuse_unknown_backfill(p_job_id);
    end if;
    v_has_dead := exists (select from backfill_chunk as chunk where chunk.job_id = p_job_id and chunk.state = 'dead');
    if v_job.state = 'cancelled'
        or (v_job.state = 'done' and not (p_decision = 'resumed' and v_has_dead))
        or (v_job.state = 'verifying' and p_decision = 'resumed')
        or (v_job.state = 'running' and p_decision = 'resumed' and not v_has_dead)
    then
        raise exception 'backfill job % is %: it cannot be %. Nothing was changed.', p_job_id, v_job.state, p_decision
        using errcode = 'DA001';
    end if;
    if p_decision = 'resumed' then
        -- What was given up has all its attempts again.
        update backfill_chunk as chunk
        set
            state = 'waiting',
            attempts = 0,
            available_at = v_now,
            ended_at = null
        where
            chunk.job_id = p_job_id
            and chunk.state = 'dead';
    end if;
    update backfill_job as job
    set
        state = (case p_decision when 'paused' then 'paused' when 'resumed' then 'running' else 'cancelled' end)::backfill_job_state,
        state_reason = case p_decision when 'resumed' then null else p_reason end,
        alerted_at = case when p_decision <> 'resumed' then job.alerted_at end,
        ended_at = case when p_decision = 'cancelled' then v_now end,
        verdict = case when p_decision <> 'resumed' then job.verdict end,
        verdict_details = case when p_decision <> 'resumed' then job.verdict_details end,
        verified_at = case when p_decision <> 'resumed' then job.verified_at end,
        instance_name = null,
        incarnation = null,
        fence = null,
        lease_expires_at = null
    where job.job_id = p_job_id;
    update backfill_pace as pace
    set
        held_by = null,
        held_reason = null,
        held_at = null
    where pace.job_id = p_job_id;
    if p_decision = 'cancelled' then
        perform drop_generation(p_job_id);
    end if;
    perform note_backfill_event('backfill_' || p_decision, p_job_id, decision_of(p_reason, p_by));
    return case p_decision when 'resumed' then 'running' else p_decision end;
end
$$;
comment on function disarray.decide_backfill(bigint, text, text, text) is
    'Pause a job, resume it (dead chunks are tried again) or cancel it: its state. Chunks that are being processed end as they would have.';

create function disarray.set_backfill_pace(p_job_id bigint, p_rate_limit double precision, p_max_concurrency integer, p_reason text, p_by text)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
set lock_timeout = '10s'
as $$
begin
    perform check_decision(p_reason, p_by);
    perform check_backfill_pace(p_rate_limit, p_max_concurrency);
    update backfill_pace as pace
    set
        rate_limit = p_rate_limit,
        max_concurrency = p_max_concurrency,
        -- The former rate made the debt: the new one is in force from now on.
        tokens = 0,
        refilled_at = clock()
    where pace.job_id = p_job_id;
    if not found then
        perform refuse_unknown_backfill(p_job_id);
    end if;
    perform note_backfill_event(
        'backfill_rate_changed',
        p_job_id,
        decision_of(p_reason, p_by) || jsonb_build_object('rate_limit', p_rate_limit, 'max_concurrency', p_max_concurrency)
    );
end
$$;
comment on function disarray.set_backfill_pace(bigint, double precision, integer, text, text) is
    'Change how fast a job may go, while it runs: rows a second (NULL: no limit) and chunks at once, over all workers.';

create function disarray.forget_backfills(p_keep interval, p_is_rehearsal boolean default false)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_limit constant timestamptz := clock() - p_keep;
    v_old bigint[];
begin
    if (p_keep >= interval '1 day') is not true then
        raise exception 'backfills that have ended are remembered for a day at least, not %. Nothing was forgotten.', p_keep
        using errcode = 'DA001';
    end if;
    v_old := array(
        select job.job_id
        from backfill_job as job
        where
            job.state in ('done', 'cancelled')
            and job.ended_at < v_limit
            -- Whoever verifies it once more, or resumes it, keeps it.
            and coalesce(job.verified_at, job.ended_at) < v_limit
            and job.lease_expires_at is null
        for update skip locked
    );
    if not p_is_rehearsal then
        perform drop_generation(old.job_id)
        from unnest(v_old) as old (job_id);
        delete from backfill_chunk as chunk
        where chunk.job_id = any(v_old);
        delete from backfill_pace as pace
        where pace.job_id = any(v_old);
        delete from backfill_job as job
        where job.job_id = any(v_old);
    end if;
    return cardinality(v_old);
end
$$;
comment on function disarray.forget_backfills(interval, boolean) is
    'Forget backfills that ended so long ago, with their chunks; how many. Marks in databases of users stay.';

create function disarray.list_backfills(p_job_id bigint default null, p_is_active boolean default null, p_limit integer default 100, p_after text[] default null)
returns table (
    job_id bigint,
    job_key uuid,
    name text,
    kind text,
    description jsonb,
    state text,
    state_reason text,
    cursor_end text[],
    scan_after text[],
    scanned_at timestamptz,
    rows_estimated bigint,
    answer_before jsonb,
    started_at timestamptz,
    started_by text,
    ended_at timestamptz,
    verdict text,
    verdict_details jsonb,
    verified_at timestamptz,
    chunks_waiting bigint,
    chunks_claimed bigint,
    chunks_done bigint,
    chunks_dead bigint,
    failures bigint,
    rows_done bigint,
    rows_written bigint,
    rows_read_again bigint,
    rows_of_last_minute bigint,
    rate_limit double precision,
    max_concurrency integer,
    chunk_rows integer,
    held_by text,
    held_reason text,
    held_at timestamptz,
    listed_at timestamptz
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    job.job_id,
    job.job_key,
    job.name,
    job.kind,
    job.description,
    job.state::text,
    job.state_reason,
    job.cursor_end,
    job.scan_after,
    job.scanned_at,
    job.rows_estimated,
    job.answer_before,
    job.started_at,
    job.started_by,
    job.ended_at,
    job.verdict,
    job.verdict_details,
    job.verified_at,
    counted.waiting,
    counted.claimed,
    counted.done,
    counted.dead,
    counted.failures,
    counted.rows_done,
    counted.rows_written,
    counted.rows_read_again,
    counted.rows_of_last_minute,
    pace.rate_limit,
    pace.max_concurrency,
    pace.chunk_rows,
    pace.held_by,
    pace.held_reason,
    pace.held_at,
    clock()
from backfill_job as job
inner join backfill_pace as pace on job.job_id = pace.job_id
cross join lateral (
    select
        count(*) filter (where chunk.state = 'waiting') as waiting,
        count(*) filter (where chunk.state = 'claimed') as claimed,
        count(*) filter (where chunk.state = 'done') as done,
        count(*) filter (where chunk.state = 'dead') as dead,
        coalesce(sum(chunk.failures), 0)::bigint as failures,
        coalesce(sum(chunk.rows_cut) filter (where chunk.state = 'done'), 0)::bigint as rows_done,
        coalesce(sum(chunk.rows_written), 0)::bigint as rows_written,
        coalesce(sum(chunk.rows_read_again), 0)::bigint as rows_read_again,
        coalesce(sum(chunk.rows_cut) filter (where chunk.state = 'done' and chunk.ended_at > clock() - interval '1 minute'), 0)::bigint
            as rows_of_last_minute
    from backfill_chunk as chunk
    where chunk.job_id = job.job_id
) as counted
where
    (p_job_id is null or job.job_id = p_job_id)
    and (p_is_active is not true or job.state in ('running', 'verifying'))
    and (p_after is null or job.job_id < p_after[1]::bigint)
order by job.job_id desc
limit p_limit
$$;
comment on function disarray.list_backfills(bigint, boolean, integer, text[]) is
    'Backfills, the newest first, with their progress, their limits and what holds them back; p_after has the number of the last of the page before.';

create function disarray.list_active_backfills()
returns table (job_id bigint, job_key uuid, kind text, description jsonb, state text)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    job.job_id,
    job.job_key,
    job.kind,
    job.description,
    job.state::text
from backfill_job as job
where job.state in ('running', 'verifying')
order by job.job_id
$$;
comment on function disarray.list_active_backfills() is 'The jobs that a worker may have something to do for.';

create function disarray.live_health()
returns table (commit_p99_seconds double precision, queue_age_seconds double precision)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    (
        select
            percentile_cont(0.99) within group (
                order by extract(epoch from done.occurred_at - done.claimed_at)::double precision
            )
        from ingest_event as done
        where
            done.event_type = 'completed'
            and done.occurred_at > clock() - interval '5 minutes'
            and done.kind in ('read', 'remove', 'reconcile')
    ),
    (
        select extract(epoch from clock() - min(item.available_at))::double precision
        from ingest_queue as item
        where
            item.lane = 'live'
            and item.status = 'available'
            and item.available_at <= clock()
    )
$$;
comment on function disarray.live_health() is
    'How live work fares: p99 of the last five minutes from claim to commit, and how long the oldest item of the live lane waits; NULL where there was none.';
