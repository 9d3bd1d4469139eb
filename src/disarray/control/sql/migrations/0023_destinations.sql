-- Destinations: tables elsewhere that follow the commits of subjects, and how far each of them has come.
-- breaking: no

create sequence disarray.destination_fence_seq;
comment on sequence disarray.destination_fence_seq is 'Fences of loads: of two that load the same subject, the later one has the greater number.';

create table disarray.destination (
    destination text constraint destination_pkey primary key,
    dataset text not null,
    definition jsonb not null,
    subject_patterns text[] not null,
    registered_at timestamptz not null,
    paused_at timestamptz,
    pause_reason text,
    failure_count integer not null default 0,
    last_error text,
    last_error_at timestamptz,
    constraint a_destination_has_a_plain_name check (destination ~ '^[a-z][a-z0-9_]{0,62}$'),
    constraint a_pause_has_a_reason check ((paused_at is null) = (pause_reason is null)),
    constraint an_error_of_a_destination_has_a_time check ((last_error is null) = (last_error_at is null))
);
comment on table disarray.destination is 'What is loaded where, as it was last registered. Its positions are in commit_follower, under destination: and its name.';
comment on column disarray.destination.definition is 'What, where and how, without secrets. A change of it loads everything anew.';
comment on column disarray.destination.last_error is 'Why nothing can be loaded for any subject: the target is away, or does not fit.';

create table disarray.destination_position (
    destination text not null,
    subject_key text not null,
    dataset text not null,
    is_whole_due boolean not null default true,
    available_at timestamptz not null,
    loads bigint not null default 0,
    rows_loaded bigint not null default 0,
    rows_deleted bigint not null default 0,
    last_loaded_at timestamptz,
    last_seconds double precision,
    failure_count integer not null default 0,
    last_error text,
    last_error_at timestamptz,
    instance_name text,
    incarnation bigint,
    fence bigint,
    lease_expires_at timestamptz,
    constraint destination_position_pkey primary key (destination, subject_key),
    constraint a_position_belongs_to_a_destination foreign key (destination) references disarray.destination on delete cascade,
    constraint a_held_position_names_its_holder check (
        (lease_expires_at is null) = (instance_name is null)
        and (lease_expires_at is null) = (incarnation is null)
        and (lease_expires_at is null) = (fence is null)
    ),
    constraint an_error_of_a_position_has_a_time check ((last_error is null) = (last_error_at is null))
);
comment on table disarray.destination_position is
    'One subject of a destination: who loads it now, and whether all of it is due. How far it has come is in commit_follower.';
comment on column disarray.destination_position.is_whole_due is
    'Nothing in the target can be relied on: it is new, was defined anew, or is published again. Everything is loaded next.';
comment on column disarray.destination_position.available_at is 'Not before; of several that are due, the earliest goes first.';
comment on column disarray.destination_position.last_error is 'Why this subject alone could not be loaded.';

create index destination_position_in_turn
on disarray.destination_position (destination, available_at, subject_key);

alter type disarray.ingest_event_event_type add value if not exists 'destination_paused' after 'side_effect_resent';
alter type disarray.ingest_event_event_type add value if not exists 'destination_resumed' after 'destination_paused';
alter type disarray.ingest_event_event_type add value if not exists 'destination_republished' after 'destination_resumed';
