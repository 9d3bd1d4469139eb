"""The catalogue of bad input through the whole path: each ends where it must, explained, and nobody else notices."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pika  # type: ignore[import-untyped]
import pytest

from disarray.broker.consumer import REASON_HEADER
from disarray.broker.routing import routing_key
from disarray.control import files
from disarray.errors import InvalidRequestError
from disarray.model.uris import file_uri
from disarray.store.audit.audit import AuditSettings, audit
from tests.broker.test_messages import BAD_MESSAGES
from tests.whole_path.journeys import JOURNEYS

if TYPE_CHECKING:
    from disarray.control.connections import Connection
    from tests.whole_path.conftest import System
    from tests.whole_path.journeys import Journey

pytestmark = pytest.mark.postgres

REFUSED = [journey for journey in JOURNEYS if journey.refused]
TAKEN = [journey for journey in JOURNEYS if not journey.refused]


@pytest.mark.parametrize("journey", TAKEN, ids=lambda journey: journey.name)
def test_a_bad_file_ends_where_it_must_and_its_neighbour_is_in(system: System, journey: Journey) -> None:
    status, lines, rejected, error, crashes = system.file(system.uri(journey))
    assert status == journey.status, error
    assert crashes == 0
    if journey.lines is not None:
        assert lines == journey.lines
    if status == "processed":
        assert rejected == journey.rejected
        assert error is None
    if status == "failed":
        assert journey.error in error
        assert "\n" not in error
        assert "Traceback" not in error
        assert "unexpected" not in error
    counting = journey.in_store if journey.in_store is not None else (lines or {}).get("kept", 0)
    assert active(system, system.uri(journey)) == counting
    neighbour = file_uri(str(system.path(journey).parent / "neighbour.csv"))
    assert system.file(neighbour)[0] == "processed"
    assert active(system, neighbour) == 7


@pytest.mark.parametrize("journey", REFUSED, ids=lambda journey: journey.name)
def test_a_name_that_must_not_be_followed_is_refused_by_the_agent_with_the_reason(
    system: System, journey: Journey
) -> None:
    told = [
        line for line in system.agent_logs[0].splitlines() if repr(str(system.path(journey)))[1:-1] in line
    ]
    assert [journey.refused in line for line in told] == [True]


def test_every_guarantee_holds_afterwards(system: System) -> None:
    with system.plant.pool.connection() as connection:
        verdicts = audit(connection, system.lake, AuditSettings(patience=timedelta(0), is_deep=True))
    assert [finding for verdict in verdicts for finding in verdict.findings] == []


def test_the_worker_lived_through_all_of_it(system: System) -> None:
    assert system.worker.process.poll() is None
    assert "Traceback" not in system.worker.log


@pytest.mark.parametrize("system", ["RabbitMQ"], indirect=True)
def test_bad_messages_end_as_dead_letters_with_their_reason(system: System) -> None:
    assert system.broker is not None
    assert system.names is not None
    connection = pika.BlockingConnection(pika.URLParameters(system.broker))
    channel = connection.channel()
    for case in BAD_MESSAGES:
        body, _ = case.values
        channel.basic_publish(system.names.exchange, routing_key("TOOL07"), body)
    wanted = [str(case.values[1]) for case in BAD_MESSAGES]
    found = dead_letters(channel, system.names.dead_queue, count=len(wanted))
    connection.close()
    assert [complaint in reason for complaint, reason in zip(wanted, found, strict=True)] == [True] * len(
        found
    )
    assert all(reason.endswith("Nothing of it was queued.") for reason in found)
    assert system.worker.process.poll() is None


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        pytest.param({"x": float("nan")}, "Nothing was stored", id="NaN"),
        pytest.param({"x": "a\0b"}, "Nothing was stored", id="NUL"),
        pytest.param({"x": "\ud800"}, "Nothing was stored", id="lone surrogate"),
        pytest.param({"x": [[[[[[[[1]]]]]]]]}, "more than 8 levels", id="deep"),
        pytest.param({"x": "y" * 16_384}, "at most 16384 are stored", id="large"),
    ],
)
def test_bad_metadata_is_refused_by_the_database_with_the_reason(
    connection: Connection, metadata: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InvalidRequestError, match=complaint):
        files.enqueue_file(connection, "file:///bad", "TOOL07", metadata=metadata)
    assert files.describe_file(connection, "file:///bad") is None


def active(system: System, uri: str) -> int:
    """Readings of a file that count."""
    quoted = uri.replace("'", "''")
    with system.plant.pool.connection() as connection:
        fragments = connection.execute(
            "select coalesce(sum(readings), 0)::int from disarray.fragment "
            f"where state = 'active' and source_uri = '{quoted}'".encode()
        ).fetchone()
    assert fragments is not None
    return int(fragments[0])


def dead_letters(channel: Any, queue: str, *, count: int) -> list[str]:
    """The reasons of the messages that nobody could use, in order."""
    reasons: list[str] = []
    deadline = time.monotonic() + 20
    while len(reasons) < count and time.monotonic() < deadline:
        method, properties, _ = channel.basic_get(queue, auto_ack=True)
        if method is None:
            time.sleep(0.05)
        else:
            reasons.append(properties.headers[REASON_HEADER])
    return reasons
