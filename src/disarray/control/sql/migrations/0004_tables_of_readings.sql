-- Readings in the database: which datasets have a table, what it holds of each segment, and where readings came from.
-- breaking: yes

create table disarray.dataset_store (
    dataset text primary key,
    store text not null,
    definition jsonb,
    changed_at timestamptz not null,
    constraint store_is_known check (store in ('lake', 'timescale'))
);
comment on table disarray.dataset_store is
    'Where the readings of a dataset live. Fragments stay in the lake whatever this says: it tells whether commits fill telemetry.<dataset>.';
comment on column disarray.dataset_store.definition is 'The columns of the table and the view over it, as last provisioned; NULL: there is none.';

create table disarray.reading_source (
    source_id integer generated always as identity primary key,
    source_uri text not null,
    constraint a_source_has_one_number unique (source_uri)
);
comment on table disarray.reading_source is
    'Numbers that stand for uris in tables of readings. They carry the order of arrival: nothing is ever ordered by them.';

alter table disarray.segment
add column table_digest text;
comment on column disarray.segment.table_digest is
    'Digest of the rows that telemetry.<dataset> holds of this segment, folds and sources included. NULL: it holds none.';
