"""`disarray sink`: how far destinations have come, and what may be decided about them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from disarray.control import destinations, instances

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from disarray.control.connections import Connection

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres


@pytest.fixture
def hourly(connection: Connection) -> Connection:
    """A destination into which nothing can be loaded."""
    destinations.register_destination(
        connection,
        "hourly",
        dataset="press",
        definition={"target": "plant.hourly in this database", "load": "upsert"},
        subject_patterns=["*"],
    )
    destinations.note_destination_error(
        connection, "hourly", "plant.hourly does not fit: column n is missing"
    )
    return connection


def done(run: Run, *arguments: str) -> str:
    ended = run("sink", *arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_destination_that_fails_says_why(run: Run, hourly: Connection) -> None:
    [listed] = json.loads(done(run, "list", "--json"))
    assert (listed["name"], listed["state"]) == ("hourly", "failing")
    shown = done(run, "show", "hourly")
    assert "hourly is failing: upsert into plant.hourly in this database." in shown
    assert "Nothing can be loaded: plant.hourly does not fit: column n is missing." in shown
    unknown = run("sink", "show", "hourli")
    assert unknown.returncode == 1
    assert "did you mean 'hourly'?" in unknown.stderr


def test_a_pause_is_written_down_and_ends_when_it_is_resumed(run: Run, hourly: Connection) -> None:
    done(run, "pause", "hourly", "--reason", "the warehouse moves", "--dry-run")
    assert json.loads(done(run, "list", "--json"))[0]["state"] == "failing"
    done(run, "pause", "hourly", "--reason", "the warehouse moves")
    assert "Paused: the warehouse moves." in done(run, "show", "hourly")
    holder = instances.register_instance(hourly, "Worker01")
    assert destinations.claim_destination(hourly, "hourly", holder, lease_seconds=60) is None
    done(run, "resume", "hourly")
    assert json.loads(done(run, "list", "--json"))[0]["state"] == "failing"
    events = hourly.execute(
        "select event_type::text from disarray.ingest_event where event_type::text like 'destination%' order by 1"
    ).fetchall()
    assert events == [("destination_paused",), ("destination_resumed",)]


def test_a_destination_that_is_forgotten_is_gone(run: Run, hourly: Connection) -> None:
    assert "hourly is forgotten" in done(run, "forget", "hourly")
    assert json.loads(done(run, "list", "--json")) == []
    assert run("sink", "republish", "hourly").returncode == 1
