-- Chunks of backfills are cut, claimed and ended here; what a chunk does to a table is done by its worker, in the transaction that ends it.

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
    if (p_is_last is not null and p_cursor_to is not null and p_rows >= 0) is not true then
        raise exception 'a chunk has an end and a number of rows. Nothing was changed.'
        using errcode = 'DA001';
    end if;
    v_chunk_no := 1 + coalesce((select max(known.chunk_no) from backfill_chunk as known where known.job_id = p_job_id), 0);
    insert into backfill_chunk (job_id, chunk_no, place, cursor_from, cursor_to, rows_cut, available_at)
    values (
        p_job_id,
        v_chunk_no,
        -- Behind every other: halves of chunks have places between whole numbers.
        1 + coalesce((select floor(max(known.place)) from backfill_chunk as known where known.job_id = p_job_id), 0),
        v_job.scan_after,
        p_cursor_to,
        p_rows,
        v_now
    );
    update backfill_job as job
    set
        scan_after = p_cursor_to,
        scanned_at = case when p_is_last then v_now end
    where job.job_id = p_job_id;
    return v_chunk_no;
end
$$;
comment on function disarray.add_backfill_chunk(bigint, text[], bigint, boolean) is
    'Cut a chunk behind the last one: its number. In the transaction of lock_backfill_scan.';

create function disarray.claim_backfill_chunk(
    p_job_id bigint,
    p_instance_name text,
    p_incarnation bigint,
    p_lease_seconds integer,
    p_max_attempts integer,
    p_max_error_rate double precision,
    p_alert_threshold double precision
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
    if not found then
        perform refuse_unknown_backfill(p_job_id);
    end if;
    -- First: chunks that die by it may stop the job.
    perform return_backfill_chunks(p_job_id, v_now, p_max_attempts, p_max_error_rate, p_alert_threshold);
    select job.*
    into v_job
    from backfill_job as job
    where job.job_id = p_job_id;
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
comment on function disarray.claim_backfill_chunk(bigint, text, bigint, integer, integer, double precision, double precision) is
    'Claim the next chunk of a job, or say why there is none and how long to wait: rate, concurrency, retry, none (more are cut, or others are '
    'at work), over (every chunk has ended), stopped (the job does not run). What holds the job back is kept with it.';

create function disarray.return_backfill_chunks(
    p_job_id bigint,
    p_now timestamptz,
    p_max_attempts integer,
    p_max_error_rate double precision,
    p_alert_threshold double precision
)
returns void
language plpgsql
set search_path = disarray, pg_temp
as $$
declare
    v_error text;
begin
    with returned as (
        update backfill_chunk as chunk
        set
            state = (case when chunk.attempts >= p_max_attempts then 'dead' else 'waiting' end)::backfill_chunk_state,
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
                from backfill_chunk as lost
                where
                    lost.job_id = p_job_id
                    and lost.state = 'claimed'
                    and (
                        lost.lease_expires_at <= p_now
                        -- A holder that was started again since holds nothing.
                        or not exists (
                            select
                            from instance as known
                            where
                                known.instance_name = lost.instance_name
                                and known.incarnation = lost.incarnation
                        )
                    )
                -- A row that is locked is being committed: its holder lives.
                for update skip locked
            )
        returning
            chunk.state,
            chunk.last_error
    )

    select max(returned.last_error)
    into v_error
    from returned
    where returned.state = 'dead';
    if v_error is not null then
        perform judge_backfill_errors(p_job_id, v_error, p_max_error_rate, p_alert_threshold);
    end if;
end
$$;
comment on function disarray.return_backfill_chunks(bigint, timestamptz, integer, double precision, double precision) is
    'Take back the chunks of those who are gone; what has used up its attempts is dead, and counts as any other that died.';

create function disarray.judge_backfill_errors(p_job_id bigint, p_error text, p_max_error_rate double precision, p_alert_threshold double precision)
returns void
language plpgsql
set search_path = disarray, pg_temp
as $$
declare
    v_ended bigint;
    v_failed bigint;
    v_share double precision;
begin
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
        set alerted_at = clock()
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
end
$$;
comment on function disarray.judge_backfill_errors(bigint, text, double precision, double precision) is
    'After a chunk died: past the alert threshold of dead chunks that is told once, past max_error_rate the job stops.';

create function disarray.assert_backfill_chunk_held(p_job_id bigint, p_chunk_no bigint, p_instance_name text, p_incarnation bigint, p_fence bigint)
returns void
language plpgsql
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
    'Lock the row of a chunk and check instance, incarnation, lease and fence.';

create function disarray.hold_backfill_chunk(p_job_id bigint, p_chunk_no bigint, p_instance_name text, p_incarnation bigint, p_fence bigint)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    perform assert_backfill_chunk_held(p_job_id, p_chunk_no, p_instance_name, p_incarnation, p_fence);
    -- Nobody sees this: it is undone, or the chunk has ended. So its end does not ask for a time that its lock made meaningless.
    update backfill_chunk as chunk
    set lease_expires_at = 'infinity'
    where
        chunk.job_id = p_job_id
        and chunk.chunk_no = p_chunk_no;
end
$$;
comment on function disarray.hold_backfill_chunk(bigint, bigint, text, bigint, bigint) is
    'First statement of the transaction that has the effect of a chunk: lock its row and check instance, incarnation, lease and fence. Until the '
    'transaction ends nobody can take the chunk over, however long it takes; a session that freezes in it is ended by the server.';

create function disarray.renew_backfill_chunk(
    p_job_id bigint,
    p_chunk_no bigint,
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
    perform
    from backfill_chunk as chunk
    where
        chunk.job_id = p_job_id
        and chunk.chunk_no = p_chunk_no
    for update skip locked;
    if not found then
        -- Its holder is in the transaction that ends it, or it is gone: there is nothing to keep.
        return;
    end if;
    perform assert_backfill_chunk_held(p_job_id, p_chunk_no, p_instance_name, p_incarnation, p_fence);
    update backfill_chunk as chunk
    set lease_expires_at = clock() + make_interval(secs => p_lease_seconds)
    where
        chunk.job_id = p_job_id
        and chunk.chunk_no = p_chunk_no;
end
$$;
comment on function disarray.renew_backfill_chunk(bigint, bigint, text, bigint, bigint, integer) is
    'Keep a chunk for longer, while it is read and computed. One that is being ended needs that no more.';

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
    p_oldest_xid text,
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
        oldest_xid = p_oldest_xid,
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
comment on function disarray.complete_backfill_chunk(bigint, bigint, text, bigint, bigint, bigint, bigint, bigint, text, text, text, double precision, double precision, integer, jsonb) is
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
    if v_state = 'dead' then
        perform judge_backfill_errors(p_job_id, p_error, p_max_error_rate, p_alert_threshold);
    end if;
    return v_state;
end
$$;
comment on function disarray.fail_backfill_chunk(
    bigint, bigint, text, bigint, bigint, text, double precision, integer, boolean, double precision, double precision
) is
    'Give a chunk back with what went wrong: waiting, or dead where its attempts are used up. Past max_error_rate of dead chunks the job stops. '
    'An error that is not the chunk''s own (the database is away or busy) is no attempt.';

create function disarray.cut_backfill_chunk(
    p_job_id bigint,
    p_chunk_no bigint,
    p_instance_name text,
    p_incarnation bigint,
    p_fence bigint,
    p_cursor_to text[],
    p_rows bigint,
    p_error text
)
returns bigint
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_chunk backfill_chunk;
    v_following numeric;
    v_chunk_no bigint;
begin
    perform assert_backfill_chunk_held(p_job_id, p_chunk_no, p_instance_name, p_incarnation, p_fence);
    -- Before the job, as every decision does.
    update backfill_pace as pace
    set chunk_rows = least(pace.chunk_rows, p_rows)
    where pace.job_id = p_job_id;
    -- Numbers of chunks are given out under the lock of the job.
    perform
    from backfill_job as job
    where job.job_id = p_job_id
    for update;
    select chunk.*
    into v_chunk
    from backfill_chunk as chunk
    where
        chunk.job_id = p_job_id
        and chunk.chunk_no = p_chunk_no;
    if (p_error is not null and p_rows > 0 and p_cursor_to <> v_chunk.cursor_to and p_cursor_to is distinct from v_chunk.cursor_from) is not true then
        raise exception 'a chunk is cut within, for a reason. Nothing was changed.'
        using errcode = 'DA001';
    end if;
    v_following := coalesce(
        (select min(behind.place) from backfill_chunk as behind where behind.job_id = p_job_id and behind.place > v_chunk.place),
        floor(v_chunk.place) + 1
    );
    v_chunk_no := 1 + (select max(known.chunk_no) from backfill_chunk as known where known.job_id = p_job_id);
    insert into backfill_chunk (job_id, chunk_no, place, cursor_from, cursor_to, rows_cut, available_at)
    values (
        p_job_id,
        v_chunk_no,
        (v_chunk.place + v_following) / 2,
        p_cursor_to,
        v_chunk.cursor_to,
        greatest(v_chunk.rows_cut - p_rows, 0),
        v_now
    );
    update backfill_chunk as chunk
    set
        cursor_to = p_cursor_to,
        rows_cut = p_rows,
        state = 'waiting',
        attempts = chunk.attempts - 1,
        available_at = v_now,
        last_error = left(p_error, 4000),
        instance_name = null,
        incarnation = null,
        fence = null,
        lease_expires_at = null
    where
        chunk.job_id = p_job_id
        and chunk.chunk_no = p_chunk_no;
    return v_chunk_no;
end
$$;
comment on function disarray.cut_backfill_chunk(bigint, bigint, text, bigint, bigint, text[], bigint, text) is
    'Give a chunk back in two, because it takes too long as it is: it ends at a cursor within, and a new one has the rest; the number of that. '
    'It costs no attempt, and chunks to come are no larger.';

create function disarray.list_backfill_chunks(
    p_job_id bigint,
    p_state text default null,
    p_limit integer default 100,
    p_after text[] default null
)
returns table (
    chunk_no bigint,
    place numeric,
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
    oldest_xid text,
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
    chunk.place,
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
    chunk.oldest_xid,
    chunk.details,
    chunk.seconds,
    chunk.ended_at
from backfill_chunk as chunk
where
    chunk.job_id = p_job_id
    and (p_state is null or chunk.state::text = p_state)
    and (p_after is null or chunk.place > p_after[1]::numeric)
order by chunk.place
limit p_limit
$$;
comment on function disarray.list_backfill_chunks(bigint, text, integer, text[]) is 'The chunks of a job in the order of its cursor; p_after has the place of the last of the page before.';
