-- Backfills of several kinds: a chunk says what its kind has to say about it.
-- breaking: no

alter table disarray.backfill_chunk add column details jsonb;
comment on column disarray.backfill_chunk.details is
    'What the kind of the job has to say about a chunk that is done, beside counts and checksum: which subjects, what differs.';
