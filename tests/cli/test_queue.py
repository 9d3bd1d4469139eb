"""`disarray queue list`: what waits and what runs, oldest first."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from disarray.control import claims, files, instances
from disarray.control.files import Notification, Reason

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from disarray.control.connections import Connection

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres


@pytest.fixture
def filled(connection: Connection) -> Connection:
    """One item of TOOL01 is claimed; one of TOOL02 and one of TOOL03 wait."""
    files.enqueue_file(connection, "file:///a", "TOOL01")
    claims.fetch_items(connection, instances.register_instance(connection, "Worker01"))
    files.enqueue_files(
        connection,
        [Notification("file:///b", "TOOL02", Reason.QUIET), Notification("file:///c", "TOOL03")],
    )
    return connection


def listed(run: Run, *arguments: str) -> list[str]:
    ended = run("queue", "list", *arguments)
    assert ended.returncode == 0, ended.stderr
    return [line.split()[-1] for line in ended.stdout.splitlines()[1:]]


def test_every_item_is_listed_oldest_first(run: Run, filled: Connection) -> None:
    assert listed(run) == ["file:///a", "file:///b", "file:///c"]


def test_a_line_says_who_works_on_it_and_why_it_is_there(run: Run, filled: Connection) -> None:
    heading, first, second, _ = run("queue", "list").stdout.splitlines()
    assert heading.split()[:6] == ["id", "subject", "status", "lane", "kind", "reason"]
    assert first.split()[1:6] == ["TOOL01", "claimed", "live", "read", "file_notification"]
    assert "Worker01" in first
    assert second.split()[1:6] == ["TOOL02", "available", "live", "read", "quiet"]


def test_items_are_chosen_by_subject_and_status(run: Run, filled: Connection) -> None:
    assert listed(run, "--subject", "TOOL02") == ["file:///b"]
    assert listed(run, "--status", "claimed") == ["file:///a"]
    assert listed(run, "--subject", "TOOL01", "--status", "available") == []


def test_a_cut_list_says_how_to_go_on(run: Run, filled: Connection) -> None:
    ended = run("queue", "list", "--limit", "2")
    assert len(ended.stdout.splitlines()) == 3
    told, _, cursor = ended.stderr.rstrip().partition("--after ")
    assert told == "There are more than 2. The next ones: "
    rest = run("queue", "list", "--limit", "2", "--after", cursor)
    assert (len(rest.stdout.splitlines()), rest.stderr) == (2, "")
    assert run("queue", "list", "--limit", "3").stderr == ""


def test_an_empty_queue_is_said_to_be_empty(run: Run) -> None:
    assert run("queue", "list").stdout == "Nothing is queued.\n"
    assert json.loads(run("queue", "list", "--json").stdout) == []


def test_the_list_for_programs_holds_every_field(run: Run, filled: Connection) -> None:
    entries = json.loads(run("queue", "list", "--json", "--subject", "TOOL01").stdout)
    assert [entry["source_uri"] for entry in entries] == ["file:///a"]
    assert entries[0]["claimed_by_instance_name"] == "Worker01"
    assert {"queue_id", "lease_expires_at", "retry_count", "max_retries"} <= set(entries[0])


@pytest.mark.parametrize("wrong", [("--status", "gone"), ("--limit", "0")])
def test_a_wrong_choice_is_a_wrong_call(run: Run, wrong: tuple[str, str]) -> None:
    assert run("queue", "list", *wrong).returncode == 2
