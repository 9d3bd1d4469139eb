-- Resyncs of table sources: a generation of deliveries is written beside the one that counts, and takes its place.
-- breaking: yes

alter type disarray.ingest_queue_kind add value if not exists 'resync' after 'copy';
comment on type disarray.ingest_queue_kind is
    'What a work order asks for. About a file: read (take in what it says, and carry out what was decided about it), remove '
    '(let it count for nothing). About a subject: rebuild (move it to the definition in force), reconcile (resolve what is '
    'stale), compact (seal and compact), copy (bring its readings to the store of their dataset), resync (let a generation of '
    'deliveries take the place of the one before). The values have no order.';

-- A value of this transaction cannot be used as such in it, only its name.
-- squawk-ignore ban-drop-constraint
alter table disarray.ingest_queue drop constraint orders_name_their_target;
-- Whoever migrates has the database to himself.
-- squawk-ignore constraint-missing-not-valid
alter table disarray.ingest_queue add constraint orders_name_their_target check (
    case
        when kind in ('read', 'remove') then source_uri is not null
        when kind in ('reconcile', 'compact') then source_uri is null and dataset is null
        else source_uri is null and dataset is not null
    end
);

create table disarray.resync (
    job_id bigint primary key,
    source_name text not null,
    dataset text not null,
    batch_no bigint not null,
    arrival bigint not null,
    key_end jsonb,
    readings_before bigint not null,
    begun_at timestamptz not null,
    verified_at timestamptz,
    constraint a_generation_has_a_number_of_its_own unique (batch_no)
);
comment on table disarray.resync is
    'One resync of a table source: which generation it writes. Its job may be forgotten; the numbers of its batch are not.';
comment on column disarray.resync.batch_no is
    'The number of the generation: what was delivered under a smaller one is of the generation before, a greater one was pulled since.';
comment on column disarray.resync.arrival is 'Its number in the order of first announcements, for all of its files: what was pulled since arrived later.';
comment on column disarray.resync.key_end is 'The greatest key when it began: behind it one last chunk is open to the end. NULL: the table was empty.';
comment on column disarray.resync.readings_before is 'How many readings counted when it began, of the subjects that its source had delivered something of.';
comment on column disarray.resync.verified_at is 'Since when subjects may be swapped: every chunk was compared. NULL: it changes nothing yet.';

create table disarray.staged_delivery (
    source_uri text primary key,
    job_id bigint not null references disarray.resync (job_id),
    chunk_no bigint not null,
    subject_key text not null,
    rows bigint not null,
    bytes bigint not null,
    constraint a_staged_delivery_has_rows check (rows > 0 and bytes > 0)
);
comment on table disarray.staged_delivery is
    'A file of a generation that does not count yet: the swap of its subject makes it a delivery; of a resync that was given up, the sweep '
    'deletes it.';
create index staged_delivery_of_subject
on disarray.staged_delivery (job_id, subject_key);
create index staged_delivery_of_chunk
on disarray.staged_delivery (job_id, chunk_no);

alter table disarray.delivery add column superseded_at timestamptz;
-- Whoever migrates has the database to himself.
-- squawk-ignore require-concurrent-index-creation
create index delivery_that_counts
on disarray.delivery (subject_key, batch_no)
where superseded_at is null;
comment on column disarray.delivery.superseded_at is 'Since when a generation of a resync counts in its place: nothing of it counts, and it is read no more.';
