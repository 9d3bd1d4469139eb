"""`disarray status`: for people, for programs, once and again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING

import pytest

from disarray.control import claims, files, instances, verification_runs
from disarray.control.files import Notification

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from disarray.control.connections import Connection

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres


@pytest.fixture
def busy(connection: Connection) -> Connection:
    """Two files wait, one is claimed, one subject belongs to nobody."""
    instances.register_instance(connection, "Worker01", subject_patterns=["TOOL*"])
    holder = instances.register_instance(connection, "Worker02", subject_patterns=["TOOL*"])
    files.enqueue_file(connection, "file:///a", "TOOL01")
    assert len(claims.fetch_items(connection, holder)) == 1
    files.enqueue_files(
        connection, [Notification("file:///b", "TOOL01"), Notification("file:///c", "LOST-1")]
    )
    return connection


def test_an_empty_database_says_what_to_do_next_and_that_works(run: Run, connection: Connection) -> None:
    told = run("status").stdout
    assert "No file was ever announced" in told
    assert "No instance ever registered" in told
    statement = told.split('-c "')[1].split('"')[0]
    assert connection.execute(statement.encode()).fetchone() is not None
    assert "No file was ever announced" not in run("status").stdout


def test_status_counts_what_waits_and_runs_and_names_who_and_what_is_left_over(
    run: Run, busy: Connection
) -> None:
    told = run("status")
    assert (told.returncode, told.stderr) == (0, "")
    lines = {line.split()[0]: line for line in told.stdout.splitlines()}
    assert "2 available" in lines["queue"]
    assert "1 claimed" in lines["queue"]
    assert "3 pending" in lines["files"]
    assert lines["Worker02"].split()[1:5] == ["active", "TOOL*", "1", "1"]
    assert lines["Waiting,"].endswith("bound to no instance: LOST-1")


def test_status_names_subjects_that_are_not_what_their_files_say(run: Run, busy: Connection) -> None:
    run_id = uuid.uuid4()
    verification_runs.start_verification(busy, run_id, selection={}, subjects=2, readings=5)
    verification_runs.note_subject_verification(
        busy,
        run_id,
        "TOOL01",
        verdict="different",
        readings=5,
        findings=[{"what": "metric"}],
        finding_count=1,
    )
    told = run("status").stdout
    [line] = [line for line in told.splitlines() if line.startswith("verified")]
    assert " ".join(line.split()) == (
        "verified 0 identical 0 identical in part, 1 different, 0 unproven, 0 not final, 1 never"
    )
    assert "1 subject not as the files say: TOOL01. See: disarray verify --subject SUBJECT" in told


def test_piped_status_has_no_control_characters_and_a_terminal_gets_the_same_facts(
    run: Run, run_on_terminal: Callable[..., str], busy: Connection
) -> None:
    assert "\x1b" not in run("status").stdout
    drawn = run_on_terminal("status")
    assert "─" in drawn
    for fact in ("2 available", "3 pending", "Worker02", "LOST-1"):
        assert fact in drawn


def test_status_for_programs_is_one_json_document(run: Run, busy: Connection) -> None:
    told = json.loads(run("status", "--json").stdout)
    assert told["queue"]["available"] == 2
    assert told["unserved_subjects"] == ["LOST-1"]
    assert [instance["claimed_items"] for instance in told["instances"]] == [0, 1]


def test_a_name_that_looks_like_markup_is_shown_as_text(
    run_on_terminal: Callable[..., str], connection: Connection
) -> None:
    instances.register_instance(connection, "[red]Worker[/red]")
    files.enqueue_file(connection, "share:[bold]a", "[/nonsense]")
    assert "[red]Worker[/red]" in run_on_terminal("status")
    listed = run_on_terminal("queue", "list")
    assert "[/nonsense]" in listed
    assert "share:[bold]a" in listed


def test_watching_goes_on_through_a_lost_connection_until_it_is_interrupted(
    command: Callable[..., list[str]], environment: dict[str, str], tmp_path: Path, connection: Connection
) -> None:
    with subprocess.Popen(
        command("status", "--json", "--watch"),
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["queue"]["available"] == 0
        files.enqueue_file(connection, "file:///a", "TOOL01")
        assert json.loads(watching.stdout.readline())["queue"]["available"] == 1
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'disarray status'"
            " and datname = current_database()"
        )
        files.enqueue_file(connection, "file:///b", "TOOL01")
        assert json.loads(watching.stdout.readline())["queue"]["available"] == 2
        watching.send_signal(signal.SIGINT)
        _, complaints = watching.communicate(timeout=240)
    assert watching.returncode == 0
    assert "Traceback" not in complaints


# Shows one status, and is interrupted where Python can tell nobody of it.
LOSING = """
import signal
from disarray.cli.commands import status
from disarray.cli.main import main

class Finalized:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

shown = status._print_json

def show(found):
    shown(found)
    Finalized()

status._print_json = show
main()
"""


def test_an_interruption_that_is_lost_in_a_finalizer_ends_watching_all_the_same(
    command: Callable[..., list[str]], environment: dict[str, str], tmp_path: Path, connection: Connection
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LOSING, *command("status", "--json", "--watch")[3:]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "Exception ignored" in ended.stderr
    assert (ended.returncode, len(ended.stdout.splitlines())) == (0, 1)
