"""What the database says about the queue, and questions that must have no answer."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from disarray.control.queue import Holder
from tests.control.queue_model import Lock

if TYPE_CHECKING:
    from disarray.control.connections import Connection


class Tables(NamedTuple):
    """What the database says, in the words of the model."""

    rows: dict[int, tuple[Any, ...]]
    files: dict[str, tuple[Any, ...]]
    locks: dict[str, Lock]
    events: Counter[tuple[str, str | None]]


def empty_tables(connection: Connection) -> None:
    """Back to a migrated database in which nothing ever happened; much cheaper than a new one."""
    connection.execute(
        """
        delete from disarray.ingest_queue;
        delete from disarray.subject_lock;
        delete from disarray.file_info;
        delete from disarray.file_blacklist;
        delete from disarray.ingest_event;
        delete from disarray.dirty_range;
        delete from disarray.subject;
        delete from disarray.instance;
        """
    )


def read_tables(connection: Connection) -> Tables:
    rows = connection.execute(
        """
        select queue_id, source_uri, subject_key, reason::text, content_hash, available_at, retry_count, crash_count,
            claimed_by_instance_name, claimed_incarnation, fence
        from disarray.ingest_queue
        """
    ).fetchall()
    known = connection.execute(
        """
        select source_uri, subject_key, status::text, announced_hash, content_hash, quiet_hash, parse_version,
            process_count, retry_count, crash_count,
            exists (select from disarray.file_blacklist as listed where listed.source_uri = file.source_uri)
        from disarray.file_info as file
        """
    ).fetchall()
    locks = connection.execute(
        "select subject_key, instance_name, incarnation, fence, lease_expires_at from disarray.subject_lock"
    ).fetchall()
    events = connection.execute(
        """
        select event_type::text, source_uri, count(*)
        from disarray.ingest_event as event
        where source_uri is not null or disarray.event_queue_id(event) is not null
        group by event_type, source_uri
        """
    ).fetchall()
    return Tables(
        rows={row[0]: row[1:] for row in rows},
        files={file[0]: file[1:] for file in known},
        locks={lock[0]: Lock(Holder(lock[1], lock[2]), lock[3], lock[4]) for lock in locks},
        events=Counter({(event, uri): count for event, uri, count in events}),
    )


BROKEN_GUARANTEES = """
select 'a wake-up is lost', subject_key
from disarray.ingest_queue as item
left join disarray.subject using (subject_key)
where item.status = 'available'
group by subject_key, item.lane, subject.live_turn_at, subject.backfill_turn_at
having coalesce(case item.lane when 'live' then subject.live_turn_at else subject.backfill_turn_at end, 'infinity')
    > greatest(min(item.available_at), disarray.clock())
union all
select 'a claim is without its lock', item.source_uri
from disarray.ingest_queue as item
left join disarray.subject_lock as lock
    on item.subject_key = lock.subject_key
    and item.claimed_by_instance_name = lock.instance_name
    and item.claimed_incarnation = lock.incarnation
    and item.fence = lock.fence
    and item.lease_expires_at <= lock.lease_expires_at
where item.status = 'claimed' and lock.fence is null
union all
select 'pending and queued differ', file.source_uri
from disarray.file_info as file
where file.status <> 'blacklisted'
    and (file.status = 'pending') <> exists (
        select from disarray.ingest_queue as item where item.source_uri = file.source_uri
    )
"""

# A version is safe once it is queued, or a later event ended it, or a run that began after it was announced took
# in whatever the file then was.
LOST_VERSIONS = """
select announced.source_uri, announced.content_hash
from disarray.ingest_event as announced
where
    announced.event_type in ('enqueued', 'merged')
    and announced.content_hash is not null
    and not exists (
        select
        from disarray.ingest_queue as item
        where item.source_uri = announced.source_uri
            and (item.status = 'available' or item.content_hash = announced.content_hash)
    )
    and not exists (
        select
        from disarray.ingest_event as ended
        where ended.source_uri = announced.source_uri
            and ended.event_id > announced.event_id
            and (
                ended.event_type = 'blacklisted'
                or (
                    ended.event_type in ('completed', 'superseded', 'dead_letter')
                    and ended.content_hash = announced.content_hash
                )
                or (
                    ended.event_type = 'completed'
                    and ended.claimed_at >= announced.occurred_at
                )
            )
    )
"""
