-- What every event of a work order says is in columns: an object for each was a third of what it took to write one.
-- breaking: no

alter table disarray.ingest_event
add column queue_id bigint,
add column kind disarray.ingest_queue_kind,
add column reason disarray.ingest_queue_reason,
add column content_hash text,
add column enqueued_at timestamptz,
add column claimed_at timestamptz;
comment on column disarray.ingest_event.queue_id is
    'Of a work order, like the columns that follow. Events from before they were there say the same in metadata, and stay as they '
    'are: event_metadata and event_queue_id read either.';

-- Commands that registered are told apart from workers: nobody waits for them, and they serve no subject.
update disarray.instance
set metadata = metadata || '{"is_command": true}'
where instance_name ~ '^(backfill job [0-9]+|source run .+|hook send|inbox drain)$';

-- What an operator decides about a file holds also for what its earlier generations said of other subjects.
alter table disarray.moving_file
add column decision text constraint decisions_are_releases_or_allowances check (decision in ('allow', 'release'));
comment on column disarray.moving_file.decision is
    'Not NULL: nothing is on its way. The file is about another subject by now, and an earlier generation of it said something here, '
    'which an operator has released or allowed again. That is still to be done.';
