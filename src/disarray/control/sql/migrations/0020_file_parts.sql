-- Files about several subjects: the parts that they were split into, and what is on its way to them.
-- breaking: no

create table disarray.file_part (
    part_uri text primary key,
    parent_uri text not null,
    subject_key text not null,
    first_split_at timestamptz not null
);
comment on table disarray.file_part is
    'What a file says about one of its subjects is a part: a row of file_info like any other, whose readings lie at the byte positions of its parent.';
create index file_part_of_parent
on disarray.file_part (parent_uri, part_uri);
create index file_part_of_subject
on disarray.file_part (subject_key);

create table disarray.part_delivery (
    delivery_no bigint generated always as identity primary key,
    part_uri text not null references disarray.file_part (part_uri),
    run_id uuid not null,
    content_hash text not null,
    parse_version text not null,
    generation integer not null,
    seam_position bigint not null,
    change text not null,
    replacement text not null,
    reason disarray.ingest_queue_reason not null,
    fragments jsonb not null,
    paths text[] not null,
    fingerprint bytea not null,
    delivered_at timestamptz not null
);
comment on table disarray.part_delivery is
    'What a split found out about a part and its subject has not taken in yet. It leaves with the commit that takes it in.';
comment on column disarray.part_delivery.content_hash is 'Of the version of the file that was split.';
comment on column disarray.part_delivery.seam_position is 'What the part said from here on is replaced; in a new generation nothing is.';
comment on column disarray.part_delivery.reason is 'Why the part is queued: follows from what was asked about its parent.';
comment on column disarray.part_delivery.paths is 'Files of the lake that its fragments lie in: the vacuum passes over them.';
create index part_delivery_of_part
on disarray.part_delivery (part_uri, delivery_no);

alter table disarray.file_blacklist
add column parent_uri text;
comment on column disarray.file_blacklist.parent_uri is 'The file with which a part was blacklisted: allowed again with it. NULL where it was named itself.';
