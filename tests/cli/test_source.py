"""`disarray source`: how far sources are read, pulled by hand, paused, resumed and reset."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from disarray.cli.support.source_resync import LONGEST_NAME, job_name
from tests.sources.table_history import DESCRIPTION, WATERMARKS, make_table, reader_url

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from disarray.control.connections import Connection

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres


@pytest.fixture
def project(dsn: str, tmp_path: Path, environment: dict[str, str], connection: Connection) -> Connection:
    make_table(dsn)
    environment["HISTORIAN_URL"] = reader_url(dsn)
    (tmp_path / "disarray.toml").write_text(DESCRIPTION + WATERMARKS["sequence"])
    for number in (1, 2, 3):
        connection.execute(
            "insert into public.readings (id, tool, at, watts) values (%s, 'TOOL07', '2026-03-02', 1)",
            (number,),
        )
    return connection


def ran(run: Run, *arguments: str, code: int = 0) -> str:
    ended = run("source", *arguments)
    assert ended.returncode == code, ended.stderr
    return ended.stdout + ended.stderr


def test_a_source_is_pulled_shown_paused_and_reset(run: Run, project: Connection) -> None:
    assert "No source was read yet" in ran(run, "list")
    assert "was never read" in ran(run, "show", "historian")
    assert "3 rows of historian delivered" in ran(run, "run", "historian", "--once")
    assert "Nothing is new" in ran(run, "run", "historian", "--once")
    [listed] = json.loads(ran(run, "list", "--json"))
    assert (listed["rows_taken"], listed["cursor_to"], listed["settled"]) == (3, "3", ["3"])
    assert "3 rows delivered" in ran(run, "show", "historian")
    assert "dry run" in ran(run, "pause", "historian", "--reason", "maintenance", "--dry-run")
    ran(run, "pause", "historian", "--reason", "maintenance", "--by", "alice")
    assert "is paused" in ran(run, "run", "historian", "--once", code=1)
    assert "maintenance" in ran(run, "show", "historian")
    ran(run, "resume", "historian")
    assert "expected" in ran(run, "reset", "historian", "--to", "yesterday", "--reason", "again", code=2)
    ran(run, "reset", "historian", "--to", "1", "--reason", "again", "--by", "alice")
    assert "2 rows of historian delivered" in ran(run, "run", "historian", "--once")
    [(decided,)] = project.execute(
        "select count(*) from disarray.ingest_event where event_type = 'source_reset' and metadata ->> 'by' = 'alice'"
    ).fetchall()
    assert decided == 1


def test_a_table_that_is_there_already_is_loaded_and_show_says_how_far(
    run: Run, project: Connection, environment: dict[str, str], tmp_path: Path
) -> None:
    environment["DISARRAY_WORKER_RUNNER"] = "in-process"
    with (tmp_path / "disarray.toml").open("a") as description:
        description.write('initial_load = "always"\nlimit = 2\nload_tasks = 1\n')
    told = ran(run, "run", "historian", "--once")
    assert "initial load of historian: 3 rows in 2 chunks delivered" in told
    assert "initial load of historian: done" in told
    shown = ran(run, "show", "historian")
    assert "3 rows delivered, 0 had come before" in shown
    assert "Initial load: done, 3 rows delivered in 2 chunks, " in shown
    assert "Nothing is new" in ran(run, "run", "historian", "--once")
    [listed] = json.loads(ran(run, "list", "--json"))
    assert (listed["initial_load"]["state"], listed["initial_load"]["chunks_done"]) == ("done", 2)
    ran(run, "reset", "historian", "--to", "now", "--reason", "again", "--by", "alice")
    assert "Nothing is new" in ran(run, "run", "historian", "--once")


def test_a_source_with_a_buffer_says_how_far_it_was_read_and_what_is_read_again(
    run: Run, project: Connection, tmp_path: Path
) -> None:
    (tmp_path / "disarray.toml").write_text(DESCRIPTION + WATERMARKS["buffer"])
    ran(run, "run", "historian", "--once")
    [listed] = json.loads(ran(run, "list", "--json"))
    shown = ran(run, "show", "historian")
    assert f"Read up to: {listed['cursor_to'][:10]} " in shown
    assert "reads the last 10 min before that again" in shown
    assert "Settled" not in shown


def test_a_sequence_number_of_eight_digits_is_no_date(run: Run, project: Connection) -> None:
    project.execute("select setval('public.changes', 20261117)")
    project.execute("insert into public.readings (id, tool, at, watts) values (4, 'TOOL07', '2026-03-02', 1)")
    ran(run, "run", "historian", "--once")
    assert " 20261118 " in ran(run, "show", "historian")
    assert " 20261118 " in ran(run, "list")


def test_a_name_that_is_not_known_is_answered_with_the_nearest(run: Run, project: Connection) -> None:
    assert "did you mean 'historian'?" in ran(run, "show", "historan", code=1)


def test_up_once_pulls_sources_and_tells_of_one_that_cannot_be_read(
    run: Run, project: Connection, environment: dict[str, str]
) -> None:
    environment["DISARRAY_WORKER_RUNNER"] = "in-process"
    done = run("up", "--once", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["rows"], found["processed"]) == (0, 3, 1), done.stderr
    environment["HISTORIAN_URL"] = "postgresql://someone:s3cret@127.0.0.1:1/nowhere"
    done = run("up", "--once")
    assert done.returncode == 1
    assert "source historian" in done.stdout
    assert "s3cret" not in done.stdout + done.stderr


def test_a_resync_is_planned_begun_once_and_waits_for_the_workers(run: Run, project: Connection) -> None:
    assert "was never read" in ran(run, "resync", "historian", code=1)
    ran(run, "run", "historian", "--once")
    planned = ran(run, "resync", "historian", "--dry-run")
    assert "rows      about 9" in planned, "each of three is read, compared and taken in"
    assert "job 1 waits for the workers" in ran(run, "resync", "historian", "--by", "alice")
    again = ran(run, "resync", "historian", code=1)
    assert "'resync_historian' is under way as job 1" in again
    assert "disarray backfill cancel 1" in again
    [(jobs,)] = project.execute("select count(*) from disarray.backfill_job").fetchall()
    assert jobs == 1
    assert run("backfill", "cancel", "1", "--reason", "later").returncode == 0
    assert "waits for the workers" in ran(run, "resync", "historian", "--allow-deletes")


def test_sources_whose_long_names_begin_alike_have_resyncs_of_their_own() -> None:
    assert job_name("historian") == "resync_historian"
    first, second = (
        job_name("historian_of_the_building_with_a_long_name_" * 2 + end) for end in ("one_side", "other")
    )
    assert first != second
    assert max(len(first), len(second)) <= LONGEST_NAME
