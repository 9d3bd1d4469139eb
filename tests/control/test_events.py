"""The life of the event log: months ahead are ready, strays are caught, old months go whole."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import events, files, instances
from disarray.errors import InvalidRequestError
from tests.processes import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres

MARCH = datetime(2031, 3, 15, 12, tzinfo=UTC)


@pytest.fixture
def in_march(connection: Connection) -> Connection:
    """A database whose clock stands in the middle of March 2031."""
    connection.execute("update disarray.test_clock set ahead = %s - clock_timestamp()", (MARCH,))
    return connection


def partitions(connection: Connection) -> list[str]:
    rows = connection.execute(
        """
        select inhrelid::regclass::text
        from pg_inherits
        where inhparent = 'disarray.ingest_event'::regclass
        order by 1
        """
    )
    return [name.removeprefix("disarray.ingest_event_") for (name,) in rows]


def write_event(connection: Connection, occurred_at: datetime) -> str:
    row = connection.execute(
        """
        insert into disarray.ingest_event (occurred_at, event_type, source_uri)
        values (%s, 'enqueued', 'file:///a')
        returning tableoid::regclass::text
        """,
        (occurred_at,),
    ).fetchone()
    assert row is not None
    return str(row[0]).removeprefix("disarray.ingest_event_")


def events_left(connection: Connection) -> list[datetime]:
    rows = connection.execute("select occurred_at from disarray.ingest_event order by 1")
    return [occurred_at for (occurred_at,) in rows]


def test_this_month_and_the_coming_ones_are_provisioned_once(in_march: Connection) -> None:
    assert events.provision_event_partitions(in_march, months_ahead=2) == 3
    assert events.provision_event_partitions(in_march, months_ahead=2) == 0
    assert events.provision_event_partitions(in_march, months_ahead=3) == 1
    assert partitions(in_march) == ["2031_03", "2031_04", "2031_05", "2031_06", "default"]


def test_two_that_begin_together_provision_once(
    in_march: Connection, connect: Callable[[], Connection]
) -> None:
    second = connect()
    with ThreadPoolExecutor(1) as pool:
        with in_march.transaction():
            assert events.provision_event_partitions(in_march, months_ahead=2) == 3
            waiting = pool.submit(events.provision_event_partitions, second, months_ahead=2)
            eventually(lambda: is_waiting(in_march, second), seconds=5)
        assert waiting.result() == 0
    assert partitions(in_march) == ["2031_03", "2031_04", "2031_05", "default"]


def is_waiting(connection: Connection, other: Connection) -> bool:
    row = connection.execute(
        "select exists (select from pg_locks where pid = %s and not granted)", (other.info.backend_pid,)
    ).fetchone()
    assert row is not None
    return bool(row[0])


def test_registering_an_instance_provisions_them_as_well(in_march: Connection) -> None:
    instances.register_instance(in_march, "Worker01")
    assert "2031_04" in partitions(in_march)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_a_month_begins_in_utc_wherever_the_caller_lives(in_march: Connection, zone: str) -> None:
    in_march.execute("select set_config('timezone', %s, false)", (zone,))
    assert events.provision_event_partitions(in_march, months_ahead=12) == 13
    begin = datetime(2031, 11, 1, tzinfo=UTC)
    assert write_event(in_march, begin) == "2031_11"
    assert write_event(in_march, begin - timedelta(microseconds=1)) == "2031_10"
    in_march.execute("set timezone = 'UTC'")
    assert events.provision_event_partitions(in_march, months_ahead=12) == 0


def test_an_event_of_a_month_that_nobody_provisioned_is_caught(in_march: Connection) -> None:
    assert files.enqueue_file(in_march, "file:///a", "TOOL01") is not None
    assert write_event(in_march, MARCH) == "default"


def test_a_month_whose_first_events_were_caught_stays_with_the_default_partition(
    in_march: Connection,
) -> None:
    write_event(in_march, MARCH)
    assert events.provision_event_partitions(in_march, months_ahead=1) == 1
    assert partitions(in_march) == ["2031_04", "default"]
    assert write_event(in_march, MARCH) == "default"


def test_retention_drops_whole_months_only(
    in_march: Connection, advance_clock: Callable[[timedelta], None]
) -> None:
    events.provision_event_partitions(in_march, months_ahead=3)
    stray = datetime(2031, 2, 28, tzinfo=UTC)
    kept = [datetime(2031, 4, 1, tzinfo=UTC), datetime(2031, 4, 30, tzinfo=UTC), MARCH + timedelta(days=61)]
    for occurred_at in (stray, MARCH, *kept):
        write_event(in_march, occurred_at)
    advance_clock(timedelta(days=61))
    # Thirty days before the middle of May is the middle of April: April stays whole.
    assert events.drop_old_events(in_march, keep=timedelta(days=30)) == 1
    assert partitions(in_march) == ["2031_04", "2031_05", "2031_06", "default"]
    assert events_left(in_march) == kept


def test_retention_of_less_than_a_month_is_refused_and_drops_nothing(in_march: Connection) -> None:
    write_event(in_march, MARCH - timedelta(days=3650))
    for keep in (timedelta(days=29), timedelta(0), timedelta(days=-365)):
        with pytest.raises(InvalidRequestError, match="Nothing was dropped"):
            events.drop_old_events(in_march, keep=keep)
    assert len(events_left(in_march)) == 1


def test_retention_leaves_alone_what_only_looks_like_a_partition(in_march: Connection) -> None:
    in_march.execute("create table disarray.ingest_event_2001_01 ()")
    assert events.drop_old_events(in_march, keep=timedelta(days=30)) == 0
    in_march.execute("select from disarray.ingest_event_2001_01")


def test_events_from_before_an_order_had_columns_say_the_same(connection: Connection) -> None:
    metadata = {"content_hash": "v1", "size": 3}
    queue_id = files.enqueue_file(connection, "file:///now", "TOOL01", metadata=metadata)
    connection.execute(
        """
        insert into disarray.ingest_event (occurred_at, event_type, source_uri, subject_key, metadata)
        values (disarray.clock(), 'enqueued', 'file:///then', 'TOOL01', jsonb_build_object(
            'queue_id', %s::bigint, 'reason', 'file_notification', 'content_hash', 'v1'
        ))
        """,
        (queue_id,),
    )
    [now], [then] = (events.list_file_events(connection, f"file:///{when}") for when in ("now", "then"))
    assert now.metadata == then.metadata
    since = datetime.now(UTC) - timedelta(hours=1)
    found = events.list_events(connection, since=since, queue_id=queue_id)
    assert {each.source_uri for each in found} == {"file:///now", "file:///then"}
