-- POSTs that may be sent twice. Both functions run in the transaction of the action between them.

create function disarray.begin_request(p_caller text, p_route text, p_idempotency_key text, p_request_hash bytea)
returns text
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_limit constant timestamptz := clock() - interval '24 hours';
    v_known api_request;
begin
    -- Held until the action is committed or undone. Whoever gets it next sees the answer, or knows that there is none.
    if not pg_try_advisory_xact_lock(hashtextextended(jsonb_build_array(p_caller, p_route, p_idempotency_key)::text, 0)) then
        raise exception 'a request with this Idempotency-Key is under way. This one did nothing.'
        using errcode = 'DA021', hint = 'Send it again in a moment.';
    end if;
    delete from api_request as old
    where (old.caller, old.route, old.idempotency_key) in (
        select
            expired.caller,
            expired.route,
            expired.idempotency_key
        from api_request as expired
        where expired.answered_at < v_limit
        order by expired.answered_at
        limit 100
        for update skip locked
    );
    select known.*
    into v_known
    from api_request as known
    where
        known.caller = p_caller
        and known.route = p_route
        and known.idempotency_key = p_idempotency_key
        and known.answered_at >= v_limit;
    if v_known.request_hash <> p_request_hash then
        raise exception 'this Idempotency-Key was used for another request. This one did nothing.'
        using errcode = 'DA022', hint = 'Send it with a new key.';
    end if;
    return v_known.answer;
end
$$;
comment on function disarray.begin_request(text, text, text, bytea) is
    'The stored answer to a request that was made before, or NULL: then act, and keep_answer before the commit.';

create function disarray.keep_answer(
    p_caller text,
    p_route text,
    p_idempotency_key text,
    p_request_hash bytea,
    p_answer text
)
returns void
language sql
security definer
set search_path = disarray, pg_temp
as $$
insert into api_request as known (caller, route, idempotency_key, request_hash, answer, answered_at)
values (p_caller, p_route, p_idempotency_key, p_request_hash, p_answer, clock())
-- Only one that is over a day old can still be there.
on conflict (caller, route, idempotency_key) do update
set
    request_hash = excluded.request_hash,
    answer = excluded.answer,
    answered_at = excluded.answered_at
$$;
comment on function disarray.keep_answer(text, text, text, bytea, text) is
    'Store the answer to a request for a day, together with what it did.';
