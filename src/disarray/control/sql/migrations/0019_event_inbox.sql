-- The inbox: events of programs, kept until they are delivered as files.
-- breaking: no

alter type disarray.api_scope add value if not exists 'produce' before 'read';
comment on type disarray.api_scope is
    'What the holder of a token may do. produce: record events and nothing else. Each of the others includes those before it.';

create type disarray.raw_event_state as enum (
    'pending',
    'claimed',
    'done',
    'dead',
    'discarded'
);
comment on type disarray.raw_event_state is
    'pending → claimed → done; a claim that fails goes back to pending, or to dead once its attempts are used up. '
    'dead → pending (replayed) or discarded.';

-- A call of record_events takes one number and has the ten thousand from there on: events have the order in which they were sent.
create sequence disarray.raw_event_seq increment by 10000;
comment on sequence disarray.raw_event_seq is 'Numbers of events, ten thousand for each call of record_events.';

create table disarray.raw_event (
    event_id bigint constraint raw_event_pkey primary key,
    dataset text not null,
    event_hash bytea not null,
    payload jsonb,
    received_at timestamptz not null,
    recorded_by text not null,
    state disarray.raw_event_state not null default 'pending',
    attempts integer not null default 0,
    crashes integer not null default 0,
    available_at timestamptz not null,
    batch_no bigint,
    claimed_by_instance_name text,
    claimed_incarnation bigint,
    lease_expires_at timestamptz,
    reason text,
    settled_at timestamptz,
    constraint an_event_is_recorded_once unique (dataset, event_hash),
    constraint event_hash_is_sha256 check (octet_length(event_hash) = 32),
    constraint claims_say_whose_and_until_when check (
        (state = 'claimed') = (claimed_by_instance_name is not null)
        and (state = 'claimed') = (claimed_incarnation is not null)
        and (state = 'claimed') = (lease_expires_at is not null)
    ),
    constraint what_is_not_done_has_its_payload check (state = 'done' or payload is not null),
    constraint dead_events_say_why check (state <> 'dead' or reason is not null),
    constraint what_is_over_says_since_when check ((state in ('done', 'dead', 'discarded')) = (settled_at is not null))
);
comment on table disarray.raw_event is
    'Events of programs. What is done keeps its hash, so that the same event sent again is known; its payload is in the delivery of its batch.';
comment on column disarray.raw_event.event_hash is
    'SHA-256 of the declared id fields of the event, or of the whole event as canonical JSON: of jsonb as PostgreSQL prints it.';
comment on column disarray.raw_event.recorded_by is 'The role that called record_events.';
comment on column disarray.raw_event.attempts is 'How often it was claimed, except where it was given back unread.';
comment on column disarray.raw_event.crashes is 'How often a worker ended while it had it: then it is claimed with few others, and next alone.';
comment on column disarray.raw_event.batch_no is 'The batch that it was last claimed for; of an event that is done, the one that it was delivered in.';
comment on column disarray.raw_event.reason is 'Why it was refused when it was last read, or why it was given up.';

create index raw_event_in_turn
on disarray.raw_event (dataset, available_at, event_id)
where state = 'pending';

create index raw_event_claimed
on disarray.raw_event (batch_no)
where state = 'claimed';

create index raw_event_dead
on disarray.raw_event (event_id)
where state = 'dead';

create index raw_event_over
on disarray.raw_event (settled_at)
where state in ('done', 'discarded');
