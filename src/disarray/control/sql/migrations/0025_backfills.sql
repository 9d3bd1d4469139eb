-- Backfills: long work in chunks, how fast it may go, and what verification found.
-- breaking: no

create type disarray.backfill_job_state as enum ('running', 'paused', 'stopped', 'verifying', 'done', 'cancelled');
comment on type disarray.backfill_job_state is
    'running: chunks are cut and processed. paused: by an operator. stopped: too many chunks failed, or a chunk cannot be cut; an operator '
    'resumes it. verifying: every chunk has ended, the whole is compared. done: there is a verdict. cancelled: given up by an operator.';

create type disarray.backfill_chunk_state as enum ('waiting', 'claimed', 'done', 'dead');
comment on type disarray.backfill_chunk_state is
    'waiting: to be claimed once it is due. claimed: a worker has it, by lease and fence. done: its effect is committed. dead: given up, '
    'its rows are as they were.';

create table disarray.backfill_job (
    job_id bigint generated always as identity primary key,
    job_key uuid not null default gen_random_uuid(),
    name text not null,
    kind text not null,
    description jsonb not null,
    state disarray.backfill_job_state not null,
    state_reason text,
    cursor_end text[],
    scan_after text[],
    scanned_at timestamptz,
    rows_estimated bigint not null,
    answer_before jsonb,
    alerted_at timestamptz,
    started_at timestamptz not null,
    started_by text not null,
    ended_at timestamptz,
    verdict text,
    verdict_details jsonb,
    verified_at timestamptz,
    instance_name text,
    incarnation bigint,
    fence bigint,
    lease_expires_at timestamptz,
    constraint verdict_is_known check (verdict in ('verified', 'changed', 'failed', 'incomplete')),
    constraint a_verdict_says_since_when check ((verdict is null) = (verified_at is null)),
    constraint what_has_ended_says_since_when check ((state in ('done', 'cancelled')) = (ended_at is not null)),
    constraint a_held_verification_names_its_holder check (
        (lease_expires_at is null) = (instance_name is null)
        and (lease_expires_at is null) = (incarnation is null)
        and (lease_expires_at is null) = (fence is null)
    )
);
comment on table disarray.backfill_job is 'One backfill: what it does, how far chunks are cut, and the verdict of its verification.';
comment on column disarray.backfill_job.job_key is 'Names the job in a database of a user, where two control planes may leave their marks.';
comment on column disarray.backfill_job.description is 'What it does, as it was read from the file of the job, with every default written out.';
comment on column disarray.backfill_job.cursor_end is 'The greatest cursor when the job began: rows beyond it are not its own. NULL: the table was empty.';
comment on column disarray.backfill_job.scan_after is 'The end of the last chunk that was cut; the next one begins behind it. NULL: none was cut.';
comment on column disarray.backfill_job.answer_before is 'What the checksum_query of the user answered before the first chunk.';
comment on column disarray.backfill_job.instance_name is 'Who verifies the job now.';

create unique index a_name_is_active_once
on disarray.backfill_job (name)
where state in ('running', 'paused', 'stopped', 'verifying');

create index backfill_job_active
on disarray.backfill_job (job_id)
where state in ('running', 'verifying');

create table disarray.backfill_chunk (
    job_id bigint not null references disarray.backfill_job (job_id),
    chunk_no bigint not null,
    cursor_from text[],
    cursor_to text[] not null,
    rows_cut bigint not null,
    state disarray.backfill_chunk_state not null default 'waiting',
    attempts integer not null default 0,
    failures integer not null default 0,
    available_at timestamptz not null,
    instance_name text,
    incarnation bigint,
    fence bigint,
    lease_expires_at timestamptz,
    last_error text,
    rows_written bigint,
    rows_read_again bigint,
    rows_after bigint,
    checksum text,
    written_xid text,
    seconds double precision,
    ended_at timestamptz,
    constraint backfill_chunk_pkey primary key (job_id, chunk_no),
    constraint claimed_chunks_name_their_holder check (
        (state = 'claimed') = (instance_name is not null)
        and (state = 'claimed') = (incarnation is not null)
        and (state = 'claimed') = (fence is not null)
        and (state = 'claimed') = (lease_expires_at is not null)
    ),
    constraint done_chunks_say_what_they_wrote check (
        (state = 'done') = (rows_written is not null)
        and (state = 'done') = (rows_after is not null)
        and (state = 'done') = (checksum is not null)
    ),
    constraint a_checksum_has_128_bits check (checksum ~ '^[0-9a-f]{32}$'),
    constraint dead_chunks_say_why check (state <> 'dead' or last_error is not null),
    constraint ended_chunks_say_since_when check ((state in ('done', 'dead')) = (ended_at is not null))
);
comment on table disarray.backfill_chunk is 'A stretch of the cursor of a job: behind cursor_from, up to and with cursor_to. Chunks of a job leave no gap.';
comment on column disarray.backfill_chunk.rows_cut is 'How many rows it had when it was cut.';
comment on column disarray.backfill_chunk.attempts is 'How often it was claimed and counts; a database that was away or busy is no attempt.';
comment on column disarray.backfill_chunk.rows_read_again is 'Rows that somebody changed between reading and writing: they were read again.';
comment on column disarray.backfill_chunk.rows_after is 'Rows of the whole stretch right after it was written, in the same transaction.';
comment on column disarray.backfill_chunk.checksum is 'The order-independent checksum of those rows: cursor and set columns (docs/backfill.md).';
comment on column disarray.backfill_chunk.written_xid is 'The transaction that wrote it: a row of a later one was changed by somebody else since.';

create index backfill_chunk_in_turn
on disarray.backfill_chunk (job_id, available_at, chunk_no)
where state = 'waiting';

create index backfill_chunk_claimed
on disarray.backfill_chunk (job_id)
where state = 'claimed';

create table disarray.backfill_pace (
    job_id bigint primary key references disarray.backfill_job (job_id),
    rate_limit double precision,
    max_concurrency integer not null,
    tokens double precision not null default 0,
    refilled_at timestamptz not null,
    chunk_rows integer not null,
    seconds_per_row double precision,
    held_by text,
    held_reason text,
    held_at timestamptz,
    constraint rates_are_positive check (rate_limit > 0),
    constraint somebody_may_work check (max_concurrency > 0),
    constraint chunks_have_rows check (chunk_rows > 0),
    constraint a_hold_says_why check ((held_by is null) = (held_reason is null) and (held_by is null) = (held_at is null))
);
comment on table disarray.backfill_pace is
    'How fast a job may go: the token bucket that all workers share, how many chunks may be claimed at once, how large the next chunk is, '
    'and what holds the job back right now. Its row is locked by whoever claims.';
comment on column disarray.backfill_pace.rate_limit is 'Rows a second; NULL: no limit.';
comment on column disarray.backfill_pace.tokens is 'Rows that may be claimed as of refilled_at; a chunk may take it below 0, and the next one waits.';
comment on column disarray.backfill_pace.seconds_per_row is 'Moving average of what a row costs.';

alter type disarray.ingest_event_event_type add value if not exists 'backfill_started' after 'source_reset';
alter type disarray.ingest_event_event_type add value if not exists 'backfill_paused' after 'backfill_started';
alter type disarray.ingest_event_event_type add value if not exists 'backfill_resumed' after 'backfill_paused';
alter type disarray.ingest_event_event_type add value if not exists 'backfill_cancelled' after 'backfill_resumed';
alter type disarray.ingest_event_event_type add value if not exists 'backfill_rate_changed' after 'backfill_cancelled';
alter type disarray.ingest_event_event_type add value if not exists 'backfill_alerted' after 'backfill_rate_changed';
alter type disarray.ingest_event_event_type add value if not exists 'backfill_stopped' after 'backfill_alerted';
alter type disarray.ingest_event_event_type add value if not exists 'backfill_ended' after 'backfill_stopped';
