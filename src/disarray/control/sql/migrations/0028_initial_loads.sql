-- Initial loads: a table that is there already is taken in by chunks of its key, beside the watermark that follows it.
-- breaking: no

create type disarray.source_load_state as enum ('running', 'done', 'abandoned');
comment on type disarray.source_load_state is
    'running: chunks are cut and read. done: every row version that belongs to the load was delivered. abandoned: its source was reset.';

create type disarray.source_chunk_state as enum ('waiting', 'claimed', 'done');
comment on type disarray.source_chunk_state is
    'waiting: to be claimed; one that was read before only once the load waits for no transaction any more. claimed: a worker reads it, by '
    'lease and fence. done: delivered, and nothing that belongs to the load can appear in it.';

create table disarray.source_load (
    load_id bigint generated always as identity primary key,
    pipeline_name text not null,
    table_name text not null,
    state disarray.source_load_state not null default 'running',
    plan jsonb not null,
    open_transactions text[] not null,
    key_end jsonb not null,
    cut_up_to jsonb,
    is_cut boolean not null default false,
    rows_estimated bigint not null,
    rows_seen bigint not null default 0,
    rows_taken bigint not null default 0,
    rows_duplicate bigint not null default 0,
    rows_rejected bigint not null default 0,
    batches bigint not null default 0,
    notices jsonb not null default '[]',
    started_at timestamptz not null,
    last_delivered_at timestamptz,
    ended_at timestamptz,
    next_round_at timestamptz not null,
    failure_count integer not null default 0,
    last_error text,
    last_error_at timestamptz,
    constraint a_load_that_ended_says_since_when check ((state = 'running') = (ended_at is null)),
    constraint a_load_that_is_done_was_cut_to_its_end check (state <> 'done' or is_cut)
);
comment on table disarray.source_load is
    'One initial load of a table source: which row versions are its own, how far chunks are cut, what they delivered. It is made in the '
    'transaction that lets the watermark begin behind it.';
comment on column disarray.source_load.plan is 'Which row versions belong to it, and the columns as they were when it began, as the program writes it.';
comment on column disarray.source_load.open_transactions is
    'Transactions of the source that may still write what belongs to the load. While there are any, a chunk that was read is read again later.';
comment on column disarray.source_load.key_end is 'The greatest key when the load began: behind it one last chunk is open to the end.';
comment on column disarray.source_load.cut_up_to is 'The end of the last chunk that was cut; NULL: none was.';
comment on column disarray.source_load.next_round_at is 'When chunks may be claimed again: after failures later and later.';
create unique index a_source_is_loaded_once_at_a_time
on disarray.source_load (pipeline_name, table_name)
where state = 'running';

create table disarray.source_chunk (
    load_id bigint not null references disarray.source_load (load_id),
    chunk_no bigint not null,
    key_from jsonb,
    key_to jsonb,
    state disarray.source_chunk_state not null default 'waiting',
    read_under jsonb,
    instance_name text,
    incarnation bigint,
    fence bigint,
    lease_expires_at timestamptz,
    rows_taken bigint not null default 0,
    constraint source_chunk_pkey primary key (load_id, chunk_no),
    constraint a_claimed_chunk_names_its_holder check (
        (state = 'claimed') = (instance_name is not null)
        and (state = 'claimed') = (incarnation is not null)
        and (state = 'claimed') = (fence is not null)
        and (state = 'claimed') = (lease_expires_at is not null)
    )
);
comment on table disarray.source_chunk is 'A stretch of the key of a table source: behind key_from, up to and with key_to; NULL: without an end there. Chunks leave no gap.';
comment on column disarray.source_chunk.read_under is 'The snapshot under which it was read, where it has to be read again: rows that this one showed are not taken twice.';
create index source_chunk_unfinished
on disarray.source_chunk (load_id, chunk_no)
where state <> 'done';
