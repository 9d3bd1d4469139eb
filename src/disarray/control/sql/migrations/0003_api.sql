-- The REST server: who may call it, and the answers that it has given to POSTs.
-- breaking: no

create type disarray.api_scope as enum (
    'read',
    'operate',
    'admin'
);
comment on type disarray.api_scope is 'What the holder of a token may do; each value includes those before it.';

create table disarray.api_token (
    token_id text primary key,
    token_name text not null,
    token_hash bytea not null,
    scope disarray.api_scope not null,
    created_at timestamptz not null,
    created_by text not null,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz,
    revoked_by text,
    constraint a_name_stands_for_one_token unique (token_name),
    constraint token_hash_is_sha256 check (octet_length(token_hash) = 32),
    constraint revoked_tokens_say_by_whom check ((revoked_at is null) = (revoked_by is null))
);
comment on table disarray.api_token is
    'Bearer tokens of the REST server. The secret is kept by its holder alone; a name is never given twice, because events carry it.';
comment on column disarray.api_token.last_used_at is 'To five minutes.';

create table disarray.api_request (
    caller text not null,
    route text not null,
    idempotency_key text not null,
    request_hash bytea not null,
    answer text not null,
    answered_at timestamptz not null,
    constraint api_request_pkey primary key (caller, route, idempotency_key)
);
comment on table disarray.api_request is
    'Answers to POSTs that carried an Idempotency-Key, written in the transaction of the action and kept for a day.';
create index api_request_by_age
on disarray.api_request (answered_at);
