create function disarray.create_token(
    p_token_id text,
    p_token_name text,
    p_token_hash bytea,
    p_scope text,
    p_by text,
    p_valid_for interval default '90 days'
)
returns timestamptz
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_expires_at constant timestamptz := v_now + p_valid_for;
begin
    perform check_instance(p_token_name);
    perform check_decision('token', p_by);
    if (p_token_id ~ '^[0-9a-f]{16}$' and octet_length(p_token_hash) = 32) is not true then
        raise exception 'a token has an id of 16 hexadecimal digits and a SHA-256 hash. Nothing was stored.'
        using errcode = 'DA001';
    end if;
    if lower(regexp_replace(p_token_name, '^\s+|\s+$', '', 'g')) = 'local' then
        raise exception 'no token can be named %: in the records that is whoever calls on this machine without one. Nothing was stored.',
            quote_literal(p_token_name)
        using errcode = 'DA001', hint = 'Choose another name.';
    end if;
    if (p_scope = any(enum_range(null::api_scope)::text[])) is not true then
        raise exception 'scope % is not known. Nothing was stored.', coalesce(quote_literal(left(p_scope, 200)), 'NULL')
        using errcode = 'DA001', hint = 'Use one of: produce, read, operate, admin.';
    end if;
    if v_expires_at <= v_now then
        raise exception 'the token would be over before it begins. Nothing was stored.'
        using errcode = 'DA001';
    end if;
    insert into api_token (token_id, token_name, token_hash, scope, created_at, created_by, expires_at)
    values (p_token_id, p_token_name, p_token_hash, p_scope::api_scope, v_now, p_by, v_expires_at)
    on conflict on constraint a_name_stands_for_one_token do nothing;
    if not found then
        raise exception 'there is, or was, a token named %. Nothing was stored.', quote_literal(p_token_name)
        using errcode = 'DA001', hint = 'Choose another name: what the former one did is recorded under it.';
    end if;
    return v_expires_at;
end
$$;
comment on function disarray.create_token(text, text, bytea, text, text, interval) is
    'Let the holder of a secret call the REST server; for 90 days, for the time given, or where that is NULL for good. Until when.';

create function disarray.find_token(p_token_id text)
returns table (token_name text, scope text, token_hash bytea)
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_now constant timestamptz := clock();
    v_found api_token;
begin
    select known.*
    into v_found
    from api_token as known
    where
        known.token_id = p_token_id
        and known.revoked_at is null
        and coalesce(known.expires_at > v_now, true);
    if not found then
        return;
    end if;
    if coalesce(v_found.last_used_at < v_now - interval '5 minutes', true) then
        -- Requests that come together need not wait for each other to say the same.
        update api_token as known
        set last_used_at = v_now
        where known.token_id = (
            select free.token_id
            from api_token as free
            where free.token_id = p_token_id
            for no key update skip locked
        );
    end if;
    return query
    select
        v_found.token_name,
        v_found.scope::text,
        v_found.token_hash;
end
$$;
comment on function disarray.find_token(text) is
    'The token of this id, if it holds now. The caller compares the hash: the id is no secret.';

create function disarray.list_tokens()
returns table (
    token_name text,
    scope text,
    created_at timestamptz,
    created_by text,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz,
    revoked_by text
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    known.token_name,
    known.scope::text,
    known.created_at,
    known.created_by,
    known.expires_at,
    known.last_used_at,
    known.revoked_at,
    known.revoked_by
from api_token as known
order by known.token_name
$$;
comment on function disarray.list_tokens() is 'Every token that was ever made, without its secret.';

create function disarray.revoke_token(p_token_name text, p_by text)
returns boolean
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_revoked boolean;
begin
    perform check_decision('token', p_by);
    update api_token as known
    set
        revoked_at = clock(),
        revoked_by = p_by
    where
        known.token_name = p_token_name
        and known.revoked_at is null;
    v_revoked := found;
    if not v_revoked and not exists (select from api_token as known where known.token_name = p_token_name) then
        raise exception 'there is no token named %. Nothing was changed.', coalesce(quote_literal(left(p_token_name, 200)), 'NULL')
        using errcode = 'DA020', hint = 'disarray token list tells which there are.';
    end if;
    return v_revoked;
end
$$;
comment on function disarray.revoke_token(text, text) is 'End a token at once; false where it was revoked before.';
