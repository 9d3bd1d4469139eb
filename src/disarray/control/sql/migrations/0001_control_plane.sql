-- The control plane: what is queued, who holds which subject, what is known of every file, what is stale.
-- breaking: yes

create type disarray.ingest_queue_reason as enum (
    'reconcile',
    'compact',
    'copy',
    'file_notification',
    'quiet',
    'preview',
    'backfill',
    'rebuild',
    'reingest',
    'allow',
    'release',
    'remove'
);
comment on type disarray.ingest_queue_reason is
    'Why an item is queued, weakest first: when two requests for one uri merge, the later value of this enum wins.';

create type disarray.ingest_queue_status as enum (
    'available',
    'claimed'
);
comment on type disarray.ingest_queue_status is
    'available -> claimed (fetch_items); claimed -> gone (complete_item, or a dead letter); '
    'claimed -> available (fail_item, release_subject, an expired lease, a restarted instance).';

create type disarray.file_info_status as enum (
    'pending',
    'processed',
    'failed',
    'parked',
    'blacklisted'
);
comment on type disarray.file_info_status is
    'pending: a queue row exists. The others are final until something changes: processed (its readings are in), '
    'failed (dead letter, see last_error), parked (waits for an operator), blacklisted (refused on purpose).';

create type disarray.ingest_event_event_type as enum (
    'enqueued',
    'merged',
    'unchanged',
    'superseded',
    'refused_blacklisted',
    'completed',
    'failed',
    'dead_letter',
    'lease_expired',
    'taken_over',
    'released',
    'blacklisted',
    'allowed',
    'reingest_requested',
    'dead_letter_retried',
    'dead_letter_discarded',
    'reconcile_requested',
    'reconciled',
    'instance_registered',
    'instance_bound',
    'instance_paused',
    'instance_draining',
    'instance_resumed',
    'quarantine_released',
    'quarantine_rejected'
);
comment on type disarray.ingest_event_event_type is 'What happened, one value per kind of entry in ingest_event.';

create type disarray.file_request as (
    source_uri text,
    subject_key text,
    reason disarray.ingest_queue_reason,
    metadata jsonb,
    dataset text,
    content_hash text,
    parse_version text,
    verdict text,
    is_new_version boolean,
    former_hash text,
    retry_count integer,
    crash_count integer
);
comment on type disarray.file_request is 'One notification on its way through enqueue_files.';

create sequence disarray.fence_seq;
comment on sequence disarray.fence_seq is
    'Fencing tokens. A sequence, because a counter kept in the lock row would start again once that row is deleted.';

create sequence disarray.incarnation_seq;
comment on sequence disarray.incarnation_seq is 'Lives of instances. Never reused, so an old life can never pass for a new one.';

create table disarray.instance (
    instance_name text primary key,
    incarnation bigint not null,
    subject_patterns text[] not null default '{*}',
    registered_at timestamptz not null,
    last_seen_at timestamptz not null,
    paused_at timestamptz,
    draining_incarnation bigint,
    metadata jsonb not null default '{}',
    constraint patterns_are_present check (cardinality(subject_patterns) > 0)
);
comment on table disarray.instance is 'A worker by name, its present life, and the subjects that it serves (globs: * and ?).';
comment on column disarray.instance.paused_at is 'Since when it claims nothing; a restart changes nothing about that.';
comment on column disarray.instance.draining_incarnation is 'The life that finishes what it holds and claims nothing more; the next life claims again.';

create table disarray.subject (
    subject_key text primary key,
    next_turn_at timestamptz,
    last_served_at timestamptz not null default '-infinity',
    first_seen_at timestamptz not null
) with (
    -- No statistics until there is something to count: plans are kept, and one that was made for ten rows reads them all.
    autovacuum_analyze_threshold = 1000,
    autovacuum_vacuum_threshold = 1000
);
comment on table disarray.subject is
    'Every subject ever seen. The row lock is the gate through which items of the subject become claimable.';
comment on column disarray.subject.next_turn_at is
    'When the subject may next be served: the later of its oldest available item and last_served_at, so that a busy '
    'subject queues up behind those that waited. NULL: nothing is queued.';
create index subject_in_turn
on disarray.subject (next_turn_at, subject_key)
where next_turn_at is not null;

create table disarray.subject_lock (
    subject_key text primary key,
    instance_name text not null,
    incarnation bigint not null,
    fence bigint not null,
    held_since timestamptz not null,
    batch_count integer not null default 0,
    lease_expires_at timestamptz not null
);
comment on table disarray.subject_lock is
    'One row per held subject. A commit locks its row first and checks it; a row that is gone or changed means: fenced.';
create index subject_lock_of_instance
on disarray.subject_lock (instance_name);

create table disarray.file_info (
    source_uri text primary key,
    subject_key text not null,
    dataset text,
    status disarray.file_info_status not null,
    content_hash text,
    announced_hash text,
    quiet_hash text,
    parse_version text,
    logical_start timestamptz,
    logical_end timestamptz,
    process_count integer not null default 0,
    retry_count integer not null default 0,
    crash_count integer not null default 0,
    last_error text,
    failed_at timestamptz,
    failed_request jsonb,
    discarded_at timestamptz,
    first_seen_at timestamptz not null,
    last_seen_at timestamptz not null,
    metadata jsonb not null default '{}'
) with (
    fillfactor = 80,
    -- As for subject.
    autovacuum_analyze_threshold = 1000,
    autovacuum_vacuum_threshold = 1000
);
comment on table disarray.file_info is 'One row per uri: what it is, where it stands, and what its newest version has cost so far.';
comment on column disarray.file_info.content_hash is 'Of the version whose readings are in.';
comment on column disarray.file_info.announced_hash is 'Of the newest version that anybody told us of.';
comment on column disarray.file_info.quiet_hash is 'Of the version that was taken in after the file went quiet, its unterminated last line included.';
comment on column disarray.file_info.retry_count is 'Failed attempts at the newest version: they belong to the content, and survive a new notification.';
comment on column disarray.file_info.crash_count is 'Attempts that ended with the worker gone. Above zero, the file is claimed alone.';
comment on column disarray.file_info.failed_at is 'Since when it is a dead letter: what was asked for last was given up. NULL where something waits, or all was done.';
comment on column disarray.file_info.failed_request is 'What was given up, its reason and metadata: a retry asks for the same again.';
comment on column disarray.file_info.discarded_at is 'When an operator stopped caring for the dead letter. A new version revives it.';
create index file_info_of_subject
on disarray.file_info (subject_key);
create index file_info_dead_letter
on disarray.file_info (failed_at, source_uri)
where failed_at is not null;
create index file_info_needs_attention
on disarray.file_info (status, source_uri)
where status in ('failed', 'parked');

create table disarray.file_blacklist (
    source_uri text primary key,
    reason text not null,
    blacklisted_by text not null,
    blacklisted_at timestamptz not null
);
comment on table disarray.file_blacklist is 'Files that must not count. What they contributed is removed, and comes back with allow_file.';

create table disarray.ingest_queue (
    queue_id bigint generated always as identity primary key,
    source_uri text not null,
    subject_key text not null,
    dataset text,
    reason disarray.ingest_queue_reason not null,
    status disarray.ingest_queue_status not null default 'available',
    content_hash text,
    metadata jsonb not null default '{}',
    requested_by_instance_name text,
    claimed_by_instance_name text,
    claimed_incarnation bigint,
    fence bigint,
    retry_count integer not null default 0,
    crash_count integer not null default 0,
    max_retries integer not null default 5,
    enqueued_at timestamptz not null,
    available_at timestamptz not null,
    claimed_at timestamptz,
    lease_expires_at timestamptz,
    constraint claimed_rows_name_their_holder check (
        (status = 'claimed') = (
            claimed_by_instance_name is not null
            and claimed_incarnation is not null
            and fence is not null
            and claimed_at is not null
            and lease_expires_at is not null
        )
    )
) with (
    -- Rows live for seconds: reuse their space at once, long before a share of the table is dead.
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.0,
    autovacuum_analyze_threshold = 10000
);
comment on table disarray.ingest_queue is 'Work that waits or runs. Finished work leaves the table; its story stays in file_info and ingest_event.';
-- One index, not one for each status: where several partial ones fit a question, a nearly empty queue makes any look right.
create unique index a_uri_waits_once_and_is_claimed_once
on disarray.ingest_queue (source_uri, status);
create index ingest_queue_in_line
on disarray.ingest_queue (subject_key, available_at, queue_id)
where status = 'available';
-- Not "where status = 'claimed'", which it amounts to: a query by instance could then use a_uri_is_claimed_once as well,
-- and would read all of it whenever statistics say that nothing is claimed.
create index ingest_queue_of_instance
on disarray.ingest_queue (claimed_by_instance_name, subject_key)
where claimed_by_instance_name is not null;

create table disarray.ingest_event (
    event_id bigint generated always as identity,
    occurred_at timestamptz not null,
    event_type disarray.ingest_event_event_type not null,
    source_uri text,
    subject_key text,
    instance_name text,
    metadata jsonb not null default '{}'
) partition by range (occurred_at);
comment on table disarray.ingest_event is 'What happened to which file and subject, by month; drop_old_events ends its life.';
create index ingest_event_of_file
on disarray.ingest_event (source_uri, occurred_at);
-- Events come in the order of time: a summary of each stretch of pages finds a day of them, and costs the writer nothing.
create index ingest_event_in_time
on disarray.ingest_event
using brin (occurred_at) with (pages_per_range = 32, autosummarize = on);
create table disarray.ingest_event_default partition of disarray.ingest_event default;
comment on table disarray.ingest_event_default is 'Catches events of months that nobody provisioned, so that no event is ever refused.';

create table disarray.dirty_range (
    range_id bigint generated always as identity primary key,
    subject_key text not null,
    dataset text,
    range_start timestamptz not null,
    range_end timestamptz not null,
    reason text not null,
    created_at timestamptz not null,
    resolved_at timestamptz,
    restates jsonb,
    constraint range_is_not_empty check (range_start < range_end)
);
comment on table disarray.dirty_range is
    'Spans of a subject whose derived numbers are stale until resolved_at is set; of all its datasets where none is named.';
comment on column disarray.dirty_range.restates is
    'For a change of old numbers: run_id, source_uris, since_us, and the totals before it, to be held against those after the shift.';
create index dirty_range_unresolved
on disarray.dirty_range (subject_key, range_start)
where resolved_at is null;
