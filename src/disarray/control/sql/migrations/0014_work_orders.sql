-- Work orders: a queue row says what is to be done, to which target, and in which lane.
-- breaking: yes

create type disarray.ingest_queue_kind as enum (
    'read',
    'remove',
    'rebuild',
    'reconcile',
    'compact',
    'copy'
);
comment on type disarray.ingest_queue_kind is
    'What a work order asks for. About a file: read (take in what it says, and carry out what was decided about it), remove '
    '(let it count for nothing). About a subject: rebuild (move it to the definition in force), reconcile (resolve what is '
    'stale), compact (seal and compact), copy (bring its readings to the store of their dataset). The values have no order.';

create type disarray.ingest_queue_lane as enum (
    'live',
    'backfill'
);
comment on type disarray.ingest_queue_lane is
    'live: numbers wait for it. backfill: long work on what is there already.';

comment on type disarray.ingest_queue_reason is
    'Why an order is queued, for people: what was announced, or decided about a file. The values have no order.';

alter table disarray.ingest_queue
-- Programs from before are refused: this migration breaks with them.
-- squawk-ignore ban-drop-not-null
alter column source_uri drop not null,
add column kind disarray.ingest_queue_kind not null default 'read',
add column lane disarray.ingest_queue_lane not null default 'live';

update disarray.ingest_queue as item
set
    kind = case
        when item.reason = 'remove' then 'remove'
        when starts_with(item.source_uri, 'subject:') then item.reason::text
        else 'read'
    end::disarray.ingest_queue_kind,
    lane = case
        when starts_with(item.source_uri, 'subject:') and item.reason in ('rebuild', 'compact', 'copy') then 'backfill'
        else 'live'
    end::disarray.ingest_queue_lane,
    source_uri = case when not starts_with(item.source_uri, 'subject:') then item.source_uri end
where
    item.reason = 'remove'
    or starts_with(item.source_uri, 'subject:');

alter table disarray.ingest_queue
-- Every row was just written, and nobody else has the table.
-- squawk-ignore constraint-missing-not-valid
add constraint orders_name_their_target check (
    case
        when kind in ('read', 'remove') then source_uri is not null
        when kind in ('rebuild', 'copy') then source_uri is null and dataset is not null
        else source_uri is null and dataset is null
    end
);
comment on column disarray.ingest_queue.source_uri is 'The file that the order is about; NULL where it is about a subject.';
comment on column disarray.ingest_queue.kind is 'What is to be done.';
comment on column disarray.ingest_queue.lane is 'Whether numbers wait for it; lane_of(kind) says which lane an order takes.';
comment on column disarray.ingest_queue.reason is 'Why, for people; what decides is the kind and, of a file, every reason that its order took in.';

-- A file has one order that waits and one that is claimed, whatever their kinds: a_uri_waits_once_and_is_claimed_once.
create unique index a_subject_order_waits_once_and_is_claimed_once
on disarray.ingest_queue (subject_key, kind, dataset, lane, status)
nulls not distinct
where source_uri is null;

-- What happened to orders about subjects names the subject.
update disarray.ingest_event as happened
set source_uri = null
where starts_with(happened.source_uri, 'subject:');
