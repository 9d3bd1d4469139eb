"""The embedded transport: straight into the queue of a real PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.broker.direct import DirectTransport
from disarray.broker.transport import Announcement
from disarray.control import queue
from disarray.control.connections import open_pool
from disarray.errors import TransportUnavailableError
from disarray.model.notification import Notification, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.control.connections import Connection, Pool

pytestmark = pytest.mark.postgres


@pytest.fixture
def pool(dsn: str) -> Iterator[Pool]:
    with open_pool(dsn) as pool:
        yield pool


def announce(number: int, uri: str = "") -> Announcement:
    return Announcement(f"agent:{number}", Notification(uri or f"file:///{number}", "TOOL01", Reason.QUIET))


def test_what_is_delivered_is_queued(pool: Pool, connection: Connection) -> None:
    receipt = DirectTransport(pool, instance_name="Worker01").publish([announce(1), announce(2)])
    assert receipt.delivered == {"agent:1", "agent:2"}
    assert {entry.source_uri for entry in queue.list_queue(connection)} == {"file:///1", "file:///2"}


def test_one_that_can_never_be_queued_does_not_stop_the_others(pool: Pool, connection: Connection) -> None:
    several = [announce(number, "file:///a\nb" if number == 3 else "") for number in range(9)]
    receipt = DirectTransport(pool).publish(several)
    assert receipt.delivered == {f"agent:{number}" for number in range(9) if number != 3}
    assert "control characters" in receipt.refused["agent:3"]
    assert len(queue.list_queue(connection)) == 8


def test_a_database_that_is_away_is_told_and_nothing_is_delivered() -> None:
    with open_pool("host=127.0.0.1 port=1 dbname=none connect_timeout=1") as pool:
        pool.timeout = 0.5
        with pytest.raises(TransportUnavailableError, match="sent again"):
            DirectTransport(pool).publish([announce(1)])
