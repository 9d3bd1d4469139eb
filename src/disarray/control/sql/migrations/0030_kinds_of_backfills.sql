-- Backfills of several kinds: a chunk says what its kind has to say about it, may be cut once more, and knows who was under way beside it.
-- breaking: yes

alter table disarray.backfill_chunk add column details jsonb;
alter table disarray.backfill_chunk add column place numeric;
alter table disarray.backfill_chunk add column oldest_xid text;
update disarray.backfill_chunk set place = chunk_no;
-- Whoever migrates has the database to himself.
-- squawk-ignore constraint-missing-not-valid
alter table disarray.backfill_chunk add constraint chunks_have_a_place check (place is not null);

comment on column disarray.backfill_chunk.details is
    'What the kind of the job has to say about a chunk that is done, beside counts and checksum: which subjects, what differs.';
comment on column disarray.backfill_chunk.place is
    'Its place in the order of the cursor. A chunk that was cut because it took too long has a fraction: chunk_no says when it was cut alone.';
comment on column disarray.backfill_chunk.oldest_xid is
    'The oldest transaction that was under way when the stretch was measured: what it or a later one wrote may have come after.';

create unique index chunks_are_in_order
on disarray.backfill_chunk (job_id, place);

create index backfill_job_ended
on disarray.backfill_job (ended_at)
where state in ('done', 'cancelled');
