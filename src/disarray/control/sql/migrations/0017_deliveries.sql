-- Deliveries: what a source handed over as files, batch by batch, and how far each table source is.
-- breaking: no

create sequence disarray.batch_seq;
comment on sequence disarray.batch_seq is
    'Numbers of batches. A later batch has a greater number, and its files a greater name: under one key its readings win.';

create table disarray.delivery_batch (
    batch_no bigint primary key,
    source_name text not null,
    dataset text not null,
    run_id uuid not null,
    instance_name text not null,
    rows_seen bigint not null,
    rows_taken bigint not null,
    rows_duplicate bigint not null,
    rows_rejected bigint not null,
    cursor_from text,
    cursor_to text,
    delivered_at timestamptz not null,
    constraint every_row_is_accounted_for check (
        rows_taken >= 0
        and rows_duplicate >= 0
        and rows_rejected >= 0
        and rows_seen = rows_taken + rows_duplicate + rows_rejected
    )
);
comment on table disarray.delivery_batch is 'What a source handed over in one transaction: how many rows, and from which stretch of its cursor.';
comment on column disarray.delivery_batch.cursor_from is 'The least cursor of the batch, as text for people; NULL where the source has no cursor.';
create index delivery_batch_of_source
on disarray.delivery_batch (source_name, batch_no);

create table disarray.delivery (
    source_uri text primary key,
    batch_no bigint not null references disarray.delivery_batch (batch_no),
    subject_key text not null,
    rows bigint not null,
    bytes bigint not null,
    deleted_at timestamptz,
    constraint a_delivery_has_rows check (rows > 0 and bytes > 0)
);
comment on table disarray.delivery is 'One file of the landing folder: what a batch said about one subject. Files that no row names are orphans.';
comment on column disarray.delivery.deleted_at is 'When the file was deleted because nothing that counts, and nothing that waits, was left of it.';
create index delivery_of_batch
on disarray.delivery (batch_no);

create table disarray.source_state (
    pipeline_name text not null,
    table_name text not null,
    watermark jsonb,
    layout jsonb,
    notices jsonb not null default '[]',
    rows_seen bigint not null default 0,
    rows_taken bigint not null default 0,
    rows_duplicate bigint not null default 0,
    rows_rejected bigint not null default 0,
    batches bigint not null default 0,
    cursor_to text,
    last_run_id uuid,
    last_pulled_at timestamptz,
    last_delivered_at timestamptz,
    next_pull_at timestamptz not null,
    failure_count integer not null default 0,
    last_error text,
    last_error_at timestamptz,
    paused_at timestamptz,
    pause_reason text,
    instance_name text,
    incarnation bigint,
    fence bigint,
    lease_expires_at timestamptz,
    registered_at timestamptz not null,
    primary key (pipeline_name, table_name),
    constraint a_held_source_names_its_holder check (
        (lease_expires_at is null) = (instance_name is null)
        and (lease_expires_at is null) = (incarnation is null)
        and (lease_expires_at is null) = (fence is null)
    )
);
comment on table disarray.source_state is
    'How far a pipeline has read a table, and who reads it now: one holder at a time, by lease and fence. Two pipelines on one table '
    'have a row each.';
comment on column disarray.source_state.watermark is 'What the next extract goes on from, as the program writes it; NULL before the first.';
comment on column disarray.source_state.layout is 'Names and types of the columns as of the first extract: a change stops the source.';
comment on column disarray.source_state.notices is 'What was told once and is worth keeping: columns that were added, why a watermark is not exact.';
comment on column disarray.source_state.next_pull_at is 'When it is due: after each pull by its interval, after failures later and later.';

alter type disarray.ingest_event_event_type add value if not exists 'source_paused' after 'dataset_defined';
alter type disarray.ingest_event_event_type add value if not exists 'source_resumed' after 'source_paused';
alter type disarray.ingest_event_event_type add value if not exists 'source_reset' after 'source_resumed';
