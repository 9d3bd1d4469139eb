"""`disarray workers` and `disarray reconcile`: who may claim, and what is to be mended."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import claim_ends, claims, dirty_ranges, files, instances, queue, subjects
from tests.cli.conftest import IN_PROCESS

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from disarray.control.connections import Connection
    from tests.plant import Plant

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres


def test_a_worker_is_paused_resumed_and_drained_by_name(run: Run, connection: Connection) -> None:
    holder = instances.register_instance(connection, "Worker01")
    files.enqueue_file(connection, "file:///a", "TOOL01")
    claims.fetch_items(connection, holder)
    paused = run("workers", "pause", "Worker01", "--reason", "share is moved", "--dry-run")
    assert paused.stdout.startswith("Worker01 is paused; it still works on 1 item.")
    assert instances.instance_state(connection, "Worker01") == "active"
    run("workers", "pause", "Worker01", "--reason", "share is moved")
    assert instances.instance_state(connection, "Worker01") == "paused"
    assert "paused" in run("workers", "list").stdout
    assert "paused" in run("status").stdout
    assert run("workers", "resume", "Worker01").stdout == "Worker01 is active.\n"
    drained = json.loads(run("workers", "drain", "Worker01", "--reason", "upgrade", "--json").stdout)
    assert (drained["state"], drained["claimed_items"]) == ("draining", 1)


def test_an_unknown_worker_is_an_error_that_says_where_the_known_are(run: Run) -> None:
    ended = run("workers", "pause", "Nobody", "--reason", "x")
    assert ended.returncode == 1
    assert "disarray workers list" in ended.stderr
    assert run("workers", "list").stdout == "No worker ever registered.\n"


@pytest.fixture
def stale(connection: Connection) -> queue.Holder:
    """TOOL01 and TOOL02 are stale, TOOL02 is still held, TOOL03 is final."""
    holder = instances.register_instance(connection, "Worker01")
    start = datetime(2026, 10, 1, tzinfo=UTC)
    for subject in ("TOOL01", "TOOL02", "TOOL03"):
        files.enqueue_file(connection, f"file:///{subject}", subject)
    items = claims.fetch_items(connection, holder, claims.FetchPolicy(max_subjects=3))
    for subject in ("TOOL01", "TOOL02"):
        dirty_ranges.mark_dirty(
            connection, subject, holder, range_start=start, range_end=start + timedelta(1), reason="late"
        )
    claim_ends.complete_items(connection, [item.queue_id for item in items], holder)
    claim_ends.release_subject(connection, "TOOL01", holder)
    claim_ends.release_subject(connection, "TOOL03", holder)
    return holder


def test_reconcile_queues_what_is_stale_and_leaves_held_subjects_to_their_holder(
    run: Run, connection: Connection, stale: queue.Holder
) -> None:
    assert "2 subjects to reconcile." in run("reconcile", "--all", "--dry-run").stdout
    assert queue.list_queue(connection) == []
    told = run("reconcile", "--all").stdout
    assert "TOOL01 is stale from 2026-10-01 00:00:00Z on and is queued" in told
    assert "TOOL02 is stale from 2026-10-01 00:00:00Z on and is left to Worker01, who holds it" in told
    assert [(entry.subject_key, entry.reason) for entry in queue.list_queue(connection)] == [
        ("TOOL01", "reconcile")
    ]
    again = json.loads(run("reconcile", "TOOL01", "--json").stdout)
    assert [each["queue_id"] for each in again["requested"]] == [queue.list_queue(connection)[0].queue_id]
    assert run("reconcile", "TOOL03").stdout == "0 subjects to reconcile.\n"


def test_a_queued_repair_is_claimed_next(run: Run, connection: Connection, stale: queue.Holder) -> None:
    run("reconcile", "TOOL01")
    other = instances.register_instance(connection, "Worker02")
    [item] = claims.fetch_items(connection, other)
    assert (item.subject_key, item.reason) == ("TOOL01", "reconcile")


def test_reconcile_now_leaves_nothing_stale(run: Run, connection: Connection, plant: Plant) -> None:
    connection.execute(
        """
        insert into disarray.dirty_range (subject_key, range_start, range_end, reason, created_at)
        values ('TOOL07', '2026-10-01', 'infinity', 'late', disarray.clock())
        """
    )
    plant.description.write_text(plant.description.read_text() + IN_PROCESS)
    before = plant.derived()
    told = run("reconcile", "--all", "--now", "--json")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["completed"] == 1
    assert [state.stale_from for state in subjects.list_subject_states(connection)] == [None]
    assert plant.derived() == before


def test_reconcile_refuses_names_that_were_never_seen_and_no_names_at_all(
    run: Run, stale: queue.Holder
) -> None:
    ended = run("reconcile", "TOOL1")
    assert ended.returncode == 1
    assert "no subject 'TOOL1' was ever seen" in ended.stderr
    assert run("reconcile").returncode == 2
