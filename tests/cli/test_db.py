"""`disarray db migrate` and `disarray db status`, as a person meets them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from disarray.control.migrations import known_migrations
from tests.forked import run_command

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from disarray.control.connections import Connection
    from tests.databases import Databases

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres

NEWEST = known_migrations()[-1]


@pytest.fixture
def empty_dsn(databases: Databases) -> Iterator[str]:
    name = databases.create()
    yield databases.dsn(name)
    databases.discard(name)


def test_a_database_goes_from_nothing_to_the_newest_schema(run: Run, empty_dsn: str) -> None:
    before = run("db", "status", on=empty_dsn)
    assert (before.returncode, before.stderr) == (0, "")
    assert "schema   none" in before.stdout
    assert "run: disarray db migrate" in before.stdout

    migrated = run("db", "migrate", on=empty_dsn)
    assert (migrated.returncode, migrated.stderr) == (0, "")
    assert f"applied {NEWEST.version:04} {NEWEST.name}" in migrated.stdout
    assert f"at version {NEWEST.version}, as it was" in run("db", "migrate", on=empty_dsn).stdout

    after = run("db", "status", on=empty_dsn)
    assert f"schema   version {NEWEST.version}" in after.stdout
    assert "pending  nothing\n" in after.stdout


@pytest.mark.parametrize("look", [("status",), ("status", "--watch"), ("queue", "list")])
def test_without_a_schema_a_command_says_how_to_get_one(
    run: Run, empty_dsn: str, look: tuple[str, ...]
) -> None:
    ended = run(*look, on=empty_dsn)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("disarray: ")
    assert "Run: disarray db migrate" in ended.stderr


def test_status_for_programs_names_what_is_known_applied_and_pending(run: Run) -> None:
    told = json.loads(run("db", "status", "--json").stdout)
    assert told["known_version"] == told["applied_version"] == NEWEST.version
    assert (told["pending"], told["unknown"]) == ([], [])
    assert int(told["server_version"].split(".")[0]) >= 15


def test_a_schema_of_a_newer_program_is_told_and_left_alone(run: Run, connection: Connection) -> None:
    connection.execute("insert into disarray.schema_migration values (9999, 'later', 'x', false)")
    assert "newer than this program" in run("db", "status").stdout
    assert run("status").returncode == 0
    refused = run("db", "migrate")
    assert refused.returncode == 1
    assert "Nothing was changed" in refused.stderr
    connection.execute("update disarray.schema_migration set is_breaking = true where version = 9999")
    assert "Install the newer disarray" in run("status").stderr


def test_a_look_starts_and_creates_nothing(
    environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    project = tmp_path_factory.mktemp("project")
    for command in (["status"], ["queue", "list"], ["db", "status"]):
        ended = run_command(*command, project=project, environment=environment)
        assert ended.returncode == 1
        assert "Run: disarray db migrate" in ended.stderr
    assert list(project.iterdir()) == []
