"""`disarray dead-letters`: what was given up, and what becomes of it."""

from __future__ import annotations

import getpass
import json
from typing import TYPE_CHECKING

import pytest

from disarray.control import claim_ends, claims, dead_letters, events, files, instances, queue

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from disarray.control.connections import Connection

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres


@pytest.fixture
def given_up(connection: Connection) -> Connection:
    """Two files that failed for good, of two subjects."""
    holder = instances.register_instance(connection, "Worker01")
    for name, subject in (("a", "TOOL01"), ("b", "TOOL02")):
        files.enqueue_file(connection, f"file:///{name}", subject)
        [item] = claims.fetch_items(connection, holder)
        claim_ends.fail_item(connection, item.queue_id, holder, error_message="no header", is_permanent=True)
        claim_ends.release_subject(connection, subject, holder)
    return connection


def listed(connection: Connection) -> list[str]:
    return [dead.source_uri for dead in dead_letters.list_dead_letters(connection)]


def test_they_are_listed_with_their_error_and_chosen_by_subject(run: Run, given_up: Connection) -> None:
    told = run("dead-letters", "list").stdout
    assert "no header" in told
    assert len(told.splitlines()) == 3
    [dead] = json.loads(run("dead-letters", "list", "--subject", "TOOL02", "--json").stdout)
    assert (dead["source_uri"], dead["attempts"], dead["reason"]) == ("file:///b", 5, "file_notification")


def test_a_dry_run_tells_the_same_and_changes_nothing(run: Run, given_up: Connection) -> None:
    told = run("dead-letters", "retry", "--all", "--dry-run")
    assert told.returncode == 0
    assert "2 files queued again" in told.stdout
    assert "nothing was changed" in told.stdout
    assert "discarded" in run("dead-letters", "discard", "file:///a", "--reason", "x", "--dry-run").stdout
    assert listed(given_up) == ["file:///a", "file:///b"]
    assert queue.list_queue(given_up) == []


def test_a_retry_by_name_is_written_down_with_the_user_who_asked(run: Run, given_up: Connection) -> None:
    told = json.loads(run("dead-letters", "retry", "file:///a", "--json").stdout)
    assert told["queued"]["file:///a"] is not None
    assert listed(given_up) == ["file:///b"]
    noted = events.list_file_events(given_up, "file:///a")
    [by] = [event.metadata["by"] for event in noted if event.event_type == "dead_letter_retried"]
    assert by == getpass.getuser()


def test_old_ones_are_discarded_by_age_and_stay_known(run: Run, given_up: Connection) -> None:
    given_up.execute(
        "update disarray.file_info set failed_at = failed_at - interval '100 d' where source_uri = 'file:///a'"
    )
    ended = run("dead-letters", "discard", "--older-than", "90 d", "--reason", "nobody cares", "--by", "ada")
    assert "1 dead letter discarded." in ended.stdout
    assert listed(given_up) == ["file:///b"]
    assert "discarded dead letter" in run("files", "show", "file:///a").stdout


def test_what_is_no_dead_letter_is_refused_and_a_wrong_call_too(run: Run, given_up: Connection) -> None:
    files.enqueue_file(given_up, "file:///c", "TOOL01")
    ended = run("dead-letters", "retry", "file:///a", "file:///c")
    assert ended.returncode == 1
    assert "'file:///c' is no dead letter. Nothing was changed." in ended.stderr
    assert run("dead-letters", "retry").returncode == 2
    assert run("dead-letters", "discard", "--reason", "x").returncode == 2
