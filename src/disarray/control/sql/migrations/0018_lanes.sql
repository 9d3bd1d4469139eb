-- The lanes are served: a subject has a turn in each, and live work goes first.
-- breaking: no

-- Programs never name these columns: they call functions, which are replaced with this migration.
-- squawk-ignore renaming-column
alter table disarray.subject rename column next_turn_at to live_turn_at;
-- squawk-ignore renaming-column
alter table disarray.subject rename column last_served_at to live_served_at;
alter table disarray.subject
add column backfill_turn_at timestamptz,
add column backfill_served_at timestamptz not null default '-infinity';
comment on column disarray.subject.live_turn_at is
    'When the subject may next be served in the live lane: the later of its oldest available item there and live_served_at, so '
    'that a busy subject queues up behind those that waited. NULL: nothing is queued.';
comment on column disarray.subject.backfill_turn_at is
    'The same for the backfill lane, by its own service: live work on a subject never sends its backfill to the back of the line.';

update disarray.subject as subject
set
    live_turn_at = case when oldest.live_at is not null then greatest(oldest.live_at, subject.live_served_at) end,
    backfill_turn_at = oldest.backfill_at
from (
    select
        item.subject_key,
        min(item.available_at) filter (where item.lane = 'live') as live_at,
        min(item.available_at) filter (where item.lane = 'backfill') as backfill_at
    from disarray.ingest_queue as item
    where item.status = 'available'
    group by item.subject_key
) as oldest
where subject.subject_key = oldest.subject_key;

alter table disarray.instance
add column turn_count bigint not null default 0;
comment on column disarray.instance.turn_count is
    'Turns that the instance took while the backfill lane had something: one in backfill_turns() of them is of that lane.';

drop index disarray.subject_with_numbers_in_turn;
drop index disarray.newcomer_in_turn;
create index subject_in_live_turn
on disarray.subject (has_numbers, live_turn_at, subject_key)
where live_turn_at is not null;
create index subject_in_backfill_turn
on disarray.subject (backfill_turn_at, subject_key)
where backfill_turn_at is not null;

drop index disarray.ingest_queue_in_line;
create index ingest_queue_in_line
on disarray.ingest_queue (subject_key, lane, available_at, queue_id)
where status = 'available';
