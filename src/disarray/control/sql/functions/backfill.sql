-- Backfills. Chunks are cut, claimed and ended here; what a chunk does to a table is done by its worker, in the transaction that ends it.

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

create function disarray.lock_backfill_scan(p_job_id bigint, p_ahead integer)
returns table (scan_after text[], cursor_end text[], chunk_rows integer)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
#variable_conflict use_column
begin
    -- Whoever cuts a chunk now holds the row: the others go on with chunks that are there.
    return query
    with job as (
        select
            locked.scan_after,
            locked.cursor_end,
            locked.job_id
        from backfill_job as locked
        where
            locked.job_id = p_job_id
            and locked.state = 'running'
            and locked.scanned_at is null
        for update skip locked
    )

    select
        job.scan_after,
        job.cursor_end,
        pace.chunk_rows
    from job
    inner join backfill_pace as pace on job.job_id = pace.job_id
    where (
        select count(*)
        from (
            select
            from backfill_chunk as ahead
            where
                ahead.job_id = job.job_id
                and ahead.state = 'waiting'
            limit p_ahead
        ) as counted
    ) < p_ahead;
end
$$;
comment on function disarray.lock_backfill_scan(bigint, integer) is
    'The turn to cut the next chunk of a job: where the last one ended. No row where the job does not run, is cut to its end, has enough '
    'chunks that wait, or is being cut by another. It holds until the transaction ends.';

create function disarray.add_backfill_chunk(p_job_id bigint, p_cursor_to text[], p_rows bigint, p_is_last boolean)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_job backfill_job;
    v_chunk_no bigint;
begin
    select job.*
    into v_job
    from backfill_job as job
    where job.job_id = p_job_id
    for update;
    if not found or v_job.state <> 'running' or v_job.scanned_at is not null then
        raise exception 'backfill job % is not being cut into chunks. Nothing was changed.', coalesce(p_job_id::text, 'NULL')
        using errcode = 'DA002';
    end if;
    if (p_is_last is null) or (p_cursor_to is null and not p_is_last) or coalesce(p_rows < 0, p_cursor_to is not null) then
        raise exception 'a chunk has an end and a number of rows. Nothing was changed.'
        using errcode = 'DA001';
    end if;
    if p_cursor_to is not null then
        v_chunk_no := 1 + coalesce((select max(known.chunk_no) from backfill_chunk as known where known.job_id = p_job_id), 0);
        insert into backfill_chunk (job_id, chunk_no, cursor_from, cursor_to, rows_cut, available_at)
        values (p_job_id, v_chunk_no, v_job.scan_after, p_cursor_to, p_rows, v_now);
    end if;
    update backfill_job as job
    set
        scan_after = coalesce(p_cursor_to, job.scan_after),
        scanned_at = case when p_is_last then v_now end
    where job.job_id = p_job_id;
    return v_chunk_no;
end
$$;
comment on function disarray.add_backfill_chunk(bigint, text[], bigint, boolean) is
    'Cut a chunk behind the last one: its number. In the transaction of lock_backfill_scan. Without an end it is only said that no more come.';

create function disarray.claim_backfill_chunk(
    p_job_id bigint,
    p_instance_name text,
    p_incarnation bigint,
    p_lease_seconds integer,
    p_max_attempts integer
)
returns table (
    outcome text,
    wait_seconds double precision,
    chunk_no bigint,
    cursor_from text[],
    cursor_to text[],
    rows_cut bigint,
    attempts integer,
    fence bigint,
    chunk_rows integer,
    seconds_per_row double precision,
    rate_limit double precision
)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock();
    v_incarnation bigint;
    v_job backfill_job;
    v_pace backfill_pace;
    v_tokens double precision;
    v_outcome text;
    v_wait double precision := 0;
    v_reason text;
    v_due_at timestamptz;
    v_chunk backfill_chunk;
begin
    if (p_lease_seconds between 1 and 86400 and p_max_attempts >= 1) is not true then
        raise exception 'a chunk is claimed with a lease of 1 to 86400 seconds and 1 or more attempts. Nothing was claimed.'
        using errcode = 'DA001';
    end if;
    v_incarnation := living_incarnation(p_instance_name, p_incarnation);
    -- One claim of a job at a time: so the limits hold for all workers together, and after a pause has returned there is none.
    select pace.*
    into v_pace
    from backfill_pace as pace
    where pace.job_id = p_job_id
    for update;
    select job.*
    into v_job
    from backfill_job as job
    where job.job_id = p_job_id;
    if not found then
        perform refuse_unknown_backfill(p_job_id);
    end if;
    perform return_backfill_chunks(p_job_id, v_now, p_max_attempts);
    v_tokens := case
        when v_pace.rate_limit is null then 0
        -- What nobody used for a second is gone: a job that paused does not rush afterwards.
        else least(
            v_pace.rate_limit,
            v_pace.tokens + v_pace.rate_limit * greatest(extract(epoch from v_now - v_pace.refilled_at), 0)::double precision
        )
    end;
    if v_job.state <> 'running' then
        v_outcome := 'stopped';
    elsif (select count(*) from backfill_chunk as held where held.job_id = p_job_id and held.state = 'claimed') >= v_pace.max_concurrency then
        v_outcome := 'concurrency';
        v_wait := 0.05;
        v_reason := format('%s chunks are being processed, which is max_concurrency', v_pace.max_concurrency);
    elsif v_tokens < 0 then
        v_outcome := 'rate';
        v_wait := -v_tokens / v_pace.rate_limit;
        v_reason := format('%s rows a second is the limit; the next chunk is due in %s s', v_pace.rate_limit, round(v_wait::numeric, 2));
    else
        select chunk.*
        into v_chunk
        from backfill_chunk as chunk
        where
            chunk.job_id = p_job_id
            and chunk.state = 'waiting'
            and chunk.available_at <= v_now
        order by
            chunk.available_at,
            chunk.chunk_no
        limit 1
        for update skip locked;
        if found then
            v_outcome := 'claimed';
        else
            v_due_at := (select min(later.available_at) from backfill_chunk as later where later.job_id = p_job_id and later.state = 'waiting');
            v_outcome := case
                when v_due_at is not null then 'retry'
                when v_job.scanned_at is null or exists (
                    select
                    from backfill_chunk as held
                    where
                        held.job_id = p_job_id
                        and held.state = 'claimed'
                ) then 'none'
                else 'over'
            end;
            v_wait := case v_outcome
                when 'retry' then greatest(extract(epoch from v_due_at - v_now), 0.01)::double precision
                when 'none' then 0.05
                else 0
            end;
            v_reason := case when v_outcome = 'retry' then format('a chunk that failed is tried again in %s s', round(v_wait::numeric, 2)) end;
        end if;
    end if;
    update backfill_pace as pace
    set
        tokens = case
            when pace.rate_limit is null then 0
            else v_tokens - case when v_outcome = 'claimed' then v_chunk.rows_cut else 0 end
        end,
        refilled_at = v_now,
        held_by = case when v_reason is not null then v_outcome end,
        held_reason = v_reason,
        held_at = case when v_reason is not null then v_now end
    where pace.job_id = p_job_id;
    if v_outcome = 'claimed' then
        update backfill_chunk as chunk
        set
            state = 'claimed',
            attempts = chunk.attempts + 1,
            instance_name = p_instance_name,
            incarnation = v_incarnation,
            fence = nextval('disarray.batch_seq'),
            lease_expires_at = v_now + make_interval(secs => p_lease_seconds)
        where
            chunk.job_id = p_job_id
            and chunk.chunk_no = v_chunk.chunk_no
        returning chunk.* into v_chunk;
    end if;
    return query
    select
        v_outcome,
        v_wait,
        v_chunk.chunk_no,
        v_chunk.cursor_from,
        v_chunk.cursor_to,
        v_chunk.rows_cut,
        v_chunk.attempts,
        v_chunk.fence,
        v_pace.chunk_rows,
        v_pace.seconds_per_row,
        v_pace.rate_limit;
end
$$;
comment on function disarray.claim_backfill_chunk(bigint, text, bigint, integer, integer) is
    'Claim the next chunk of a job, or say why there is none and how long to wait: rate, concurrency, retry, none (more are cut, or others are '
    'at work), over (every chunk has ended), stopped (the job does not run). What holds the job back is kept with it.';

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

create function disarray.return_backfill_chunks(p_job_id bigint, p_now timestamptz, p_max_attempts integer)
returns void
language sql
as $$
update disarray.backfill_chunk as chunk
set
    state = (case when chunk.attempts >= p_max_attempts then 'dead' else 'waiting' end)::disarray.backfill_chunk_state,
    failures = chunk.failures + 1,
    available_at = p_now,
    last_error = format('the worker that had it (%s) ended without an answer', chunk.instance_name),
    ended_at = case when chunk.attempts >= p_max_attempts then p_now end,
    instance_name = null,
    incarnation = null,
    fence = null,
    lease_expires_at = null
where
    chunk.job_id = p_job_id
    and chunk.chunk_no in (
        select lost.chunk_no
        from disarray.backfill_chunk as lost
        where
            lost.job_id = p_job_id
            and lost.state = 'claimed'
            and (
                lost.lease_expires_at <= p_now
                -- A holder that was started again since holds nothing.
                or not exists (
                    select
                    from disarray.instance as known
                    where
                        known.instance_name = lost.instance_name
                        and known.incarnation = lost.incarnation
                )
            )
        -- A row that is locked is being committed: its holder lives.
        for update skip locked
    )
$$;
comment on function disarray.return_backfill_chunks(bigint, timestamptz, integer) is 'Take back the chunks of those who are gone; what has used up its attempts is dead.';

create function disarray.assert_backfill_chunk_held(p_job_id bigint, p_chunk_no bigint, p_instance_name text, p_incarnation bigint, p_fence bigint)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_chunk backfill_chunk;
begin
    select chunk.*
    into v_chunk
    from backfill_chunk as chunk
    where
        chunk.job_id = p_job_id
        and chunk.chunk_no = p_chunk_no
    for update;
    if not found
        or v_chunk.state <> 'claimed'
        or v_chunk.instance_name is distinct from p_instance_name
        or v_chunk.incarnation is distinct from p_incarnation
        or v_chunk.fence is distinct from p_fence
        or v_chunk.lease_expires_at <= clock()
    then
        raise exception 'chunk % of backfill job % is no longer held by % (incarnation %, fence %). Nothing was changed.',
            coalesce(p_chunk_no::text, 'NULL'), coalesce(p_job_id::text, 'NULL'), coalesce(quote_literal(p_instance_name), 'NULL'), p_incarnation, p_fence
        using errcode = 'DA002', hint = 'Drop it: another worker has it, or it was given up.';
    end if;
    perform living_incarnation(p_instance_name, p_incarnation);
end
$$;
comment on function disarray.assert_backfill_chunk_held(bigint, bigint, text, bigint, bigint) is
    'Lock the row of a chunk and check instance, incarnation, lease and fence: first statement of the transaction that has its effect. Until '
    'that ends nobody can take the chunk over.';

create function disarray.complete_backfill_chunk(
    p_job_id bigint,
    p_chunk_no bigint,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_rows_written bigint,
    p_rows_read_again bigint,
    p_rows_after bigint,
    p_checksum text,
    p_written_xid text,
    p_seconds double precision,
    p_seconds_per_row double precision,
    p_chunk_rows integer,
    p_details jsonb
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform assert_backfill_chunk_held(p_job_id, p_chunk_no, p_instance_name, p_incarnation, p_fence);
    if octet_length(p_details::text) > 100000 then
        raise exception 'a chunk has details of at most 100000 bytes. Nothing was changed.'
        using errcode = 'DA001';
    end if;
    update backfill_chunk as chunk
    set
        state = 'done',
        rows_written = p_rows_written,
        rows_read_again = p_rows_read_again,
        rows_after = p_rows_after,
        checksum = p_checksum,
        written_xid = p_written_xid,
        details = p_details,
        seconds = p_seconds,
        ended_at = clock(),
        last_error = null,
        instance_name = null,
        incarnation = null,
        fence = null,
        lease_expires_at = null
    where
        chunk.job_id = p_job_id
        and chunk.chunk_no = p_chunk_no;
    update backfill_pace as pace
    set
        seconds_per_row = coalesce(p_seconds_per_row, pace.seconds_per_row),
        chunk_rows = coalesce(p_chunk_rows, pace.chunk_rows)
    where pace.job_id = p_job_id;
end
$$;
comment on function disarray.complete_backfill_chunk(bigint, bigint, text, bigint, bigint, bigint, bigint, bigint, text, text, double precision, double precision, integer, jsonb) is
    'End a chunk in the transaction that wrote its rows: what was written, the checksum of the stretch as it is now, how large the next chunk is, '
    'and what its kind has to say about it.';

create function disarray.fail_backfill_chunk(
    p_job_id bigint,
    p_chunk_no bigint,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_error text,
    p_retry_delay_seconds double precision,
    p_max_attempts integer,
    p_is_to_blame boolean,
    p_max_error_rate double precision,
    p_alert_threshold double precision
)
returns text
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_state text;
    v_ended bigint;
    v_failed bigint;
    v_share double precision;
begin
    if (p_error is not null and p_retry_delay_seconds between 0 and 86400 and p_max_attempts >= 1 and p_is_to_blame is not null) is not true then
        raise exception 'a chunk fails with a reason, a delay of at most a day and 1 or more attempts. Nothing was changed.'
        using errcode = 'DA001';
    end if;
    perform assert_backfill_chunk_held(p_job_id, p_chunk_no, p_instance_name, p_incarnation, p_fence);
    update backfill_chunk as chunk
    set
        state = (case when p_is_to_blame and chunk.attempts >= p_max_attempts then 'dead' else 'waiting' end)::backfill_chunk_state,
        attempts = chunk.attempts - case when p_is_to_blame then 0 else 1 end,
        failures = chunk.failures + case when p_is_to_blame then 1 else 0 end,
        available_at = v_now + make_interval(secs => p_retry_delay_seconds),
        last_error = left(p_error, 4000),
        ended_at = case when p_is_to_blame and chunk.attempts >= p_max_attempts then v_now end,
        instance_name = null,
        incarnation = null,
        fence = null,
        lease_expires_at = null
    where
        chunk.job_id = p_job_id
        and chunk.chunk_no = p_chunk_no
    returning chunk.state::text into v_state;
    if v_state <> 'dead' then
        return v_state;
    end if;
    select
        count(*),
        count(*) filter (where chunk.state = 'dead')
    into v_ended, v_failed
    from backfill_chunk as chunk
    where
        chunk.job_id = p_job_id
        and chunk.state in ('done', 'dead');
    v_share := v_failed::double precision / v_ended;
    if v_share > p_alert_threshold then
        update backfill_job as job
        set alerted_at = v_now
        where
            job.job_id = p_job_id
            and job.alerted_at is null;
        if found then
            perform note_backfill_event('backfill_alerted', p_job_id, jsonb_build_object('dead', v_failed, 'ended', v_ended, 'error', left(p_error, 1000)));
        end if;
    end if;
    if v_share > p_max_error_rate then
        update backfill_job as job
        set
            state = 'stopped',
            state_reason = format('%s of %s chunks are dead, more than max_error_rate allows; the last said: %s', v_failed, v_ended, left(p_error, 1000))
        where
            job.job_id = p_job_id
            and job.state = 'running';
        if found then
            perform note_backfill_event('backfill_stopped', p_job_id, jsonb_build_object('dead', v_failed, 'ended', v_ended, 'error', left(p_error, 1000)));
        end if;
    end if;
    return v_state;
end
$$;
comment on function disarray.fail_backfill_chunk(
    bigint, bigint, text, bigint, bigint, text, double precision, integer, boolean, double precision, double precision
) is
    'Give a chunk back with what went wrong: waiting, or dead where its attempts are used up. Past max_error_rate of dead chunks the job stops. '
    'An error that is not the chunk''s own (the database is away or busy) is no attempt.';

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

create function disarray.claim_backfill_verification(p_job_id bigint, p_instance_name text, p_incarnation bigint, p_lease_seconds integer, p_is_asked_for boolean)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_incarnation bigint;
    v_job backfill_job;
    v_fence bigint;
begin
    if (p_lease_seconds between 1 and 86400) is not true then
        raise exception 'a verification is claimed with a lease of 1 to 86400 seconds. Nothing was claimed.'
        using errcode = 'DA001';
    end if;
    v_incarnation := living_incarnation(p_instance_name, p_incarnation);
    select job.*
    into v_job
    from backfill_job as job
    where job.job_id = p_job_id
    for update skip locked;
    if not found then
        return null;
    end if;
    if not (
        v_job.state in ('running', 'verifying')
        or (coalesce(p_is_asked_for, false) and v_job.state = 'done')
    )
        or v_job.scanned_at is null
        or exists (
            select
            from backfill_chunk as open
            where
                open.job_id = p_job_id
                and open.state in ('waiting', 'claimed')
        )
        or (
            v_job.lease_expires_at > v_now
            and exists (
                select
                from instance as known
                where
                    known.instance_name = v_job.instance_name
                    and known.incarnation = v_job.incarnation
            )
        )
    then
        return null;
    end if;
    update backfill_job as job
    set
        state = case when job.state = 'running' then 'verifying' else job.state end,
        instance_name = p_instance_name,
        incarnation = v_incarnation,
        fence = nextval('disarray.batch_seq'),
        lease_expires_at = v_now + make_interval(secs => p_lease_seconds)
    where job.job_id = p_job_id
    returning job.fence into v_fence;
    return v_fence;
end
$$;
comment on function disarray.claim_backfill_verification(bigint, text, bigint, integer, boolean) is
    'Take the turn to verify a job whose chunks have all ended: the fence. NULL where another verifies it or it is not due; one that is done is '
    'verified again where that is asked for.';

create function disarray.assert_backfill_verification_held(p_job_id bigint, p_instance_name text, p_incarnation bigint, p_fence bigint)
returns void
language plpgsql
as $$
declare
    v_job disarray.backfill_job;
begin
    select job.*
    into v_job
    from disarray.backfill_job as job
    where job.job_id = p_job_id
    for update;
    if not found
        or v_job.instance_name is distinct from p_instance_name
        or v_job.incarnation is distinct from p_incarnation
        or v_job.fence is distinct from p_fence
        or v_job.lease_expires_at <= disarray.clock()
    then
        raise exception 'the verification of backfill job % is no longer held by %. Nothing was changed.',
            coalesce(p_job_id::text, 'NULL'), coalesce(quote_literal(p_instance_name), 'NULL')
        using errcode = 'DA002', hint = 'Drop it: another worker verifies the job, or it was decided otherwise.';
    end if;
end
$$;
comment on function disarray.assert_backfill_verification_held(bigint, text, bigint, bigint) is 'Lock the row of a job and check who verifies it.';

create function disarray.renew_backfill_verification(p_job_id bigint, p_instance_name text, p_incarnation bigint, p_fence bigint, p_lease_seconds integer)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform assert_backfill_verification_held(p_job_id, p_instance_name, p_incarnation, p_fence);
    update backfill_job as job
    set lease_expires_at = clock() + make_interval(secs => p_lease_seconds)
    where job.job_id = p_job_id;
end
$$;
comment on function disarray.renew_backfill_verification(bigint, text, bigint, bigint, integer) is 'Keep the turn to verify for longer.';

create function disarray.record_backfill_verdict(
    p_job_id bigint,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_verdict text,
    p_details jsonb
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
begin
    -- Before the job, as every decision does.
    perform
    from backfill_pace as pace
    where pace.job_id = p_job_id
    for update;
    perform assert_backfill_verification_held(p_job_id, p_instance_name, p_incarnation, p_fence);
    if coalesce(octet_length(p_details::text) > 100000, true) then
        raise exception 'a verdict has details of at most 100000 bytes. Nothing was changed.'
        using errcode = 'DA001';
    end if;
    update backfill_job as job
    set
        state = 'done',
        state_reason = null,
        ended_at = coalesce(job.ended_at, v_now),
        verdict = p_verdict,
        verdict_details = p_details,
        verified_at = v_now,
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
    perform note_backfill_event('backfill_ended', p_job_id, jsonb_build_object('verdict', p_verdict));
end
$$;
comment on function disarray.record_backfill_verdict(bigint, text, bigint, bigint, text, jsonb) is
    'Keep what verification found, and end the job: verified, changed (by others, since), failed, or incomplete (chunks are dead).';

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

create function disarray.list_backfill_chunks(
    p_job_id bigint,
    p_state text default null,
    p_limit integer default 100,
    p_after text[] default null
)
returns table (
    chunk_no bigint,
    cursor_from text[],
    cursor_to text[],
    rows_cut bigint,
    state text,
    attempts integer,
    failures integer,
    available_at timestamptz,
    instance_name text,
    last_error text,
    rows_written bigint,
    rows_read_again bigint,
    rows_after bigint,
    checksum text,
    written_xid text,
    details jsonb,
    seconds double precision,
    ended_at timestamptz
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    chunk.chunk_no,
    chunk.cursor_from,
    chunk.cursor_to,
    chunk.rows_cut,
    chunk.state::text,
    chunk.attempts,
    chunk.failures,
    chunk.available_at,
    chunk.instance_name,
    chunk.last_error,
    chunk.rows_written,
    chunk.rows_read_again,
    chunk.rows_after,
    chunk.checksum,
    chunk.written_xid,
    chunk.details,
    chunk.seconds,
    chunk.ended_at
from backfill_chunk as chunk
where
    chunk.job_id = p_job_id
    and (p_state is null or chunk.state::text = p_state)
    and (p_after is null or chunk.chunk_no > p_after[1]::bigint)
order by chunk.chunk_no
limit p_limit
$$;
comment on function disarray.list_backfill_chunks(bigint, text, integer, text[]) is 'The chunks of a job in their order; p_after has the number of the last of the page before.';

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
                order by extract(epoch from done.occurred_at - (done.metadata ->> 'claimed_at')::timestamptz)::double precision
            )
        from ingest_event as done
        where
            done.event_type = 'completed'
            and done.occurred_at > clock() - interval '5 minutes'
            and done.metadata ->> 'kind' in ('read', 'remove', 'reconcile')
            and done.metadata ? 'claimed_at'
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
