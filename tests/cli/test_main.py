"""The command line as a person meets it: as a process, with its exit code."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from disarray.cli.main import COMMANDS, make_app

if TYPE_CHECKING:
    from pathlib import Path


def disarray(
    *arguments: str, project: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DISARRAY_")}
    return subprocess.run(
        [sys.executable, "-m", "disarray", *arguments],
        cwd=project,
        env=inherited | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_answers_at_once_and_imports_nothing_heavy(tmp_path: Path) -> None:
    # Of the processor: how long it takes is up to whoever else uses the machine.
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert disarray("--help", project=tmp_path).returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.5
    code = "import sys, disarray.cli.main; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"pyspark", "psycopg", "pyarrow", "numpy", "rich"} & set(loaded)


def test_a_call_imports_the_command_that_it_names_and_no_other() -> None:
    code = "import sys; from disarray.cli.main import make_app; make_app(sys.argv[1:]); print(*sys.modules)"
    call = [sys.executable, "-c", code, "--dsn", "x", "value", "TOOL07", "energy"]
    loaded = subprocess.run(call, capture_output=True, text=True, check=True).stdout.split()
    commands = {name for name in loaded if name.startswith(("disarray.cli.commands.", "disarray.demo"))}
    assert commands == {"disarray.cli.commands.value"}


@pytest.mark.parametrize(
    "words", [[], ["--help"], ["-h", "value"], ["no-such-command"], ["--state-dir", "x"]]
)
def test_all_commands_are_there_where_none_is_named(words: list[str]) -> None:
    assert len(make_app(words).registered_commands) + len(make_app(words).registered_groups) == len(COMMANDS)


@pytest.mark.parametrize("group", [(), ("backfill",), ("source",)])
def test_help_lists_each_command_with_a_whole_clause_on_a_narrow_terminal(
    group: tuple[str, ...], tmp_path: Path
) -> None:
    shown = disarray(*group, "--help", project=tmp_path, environment={"COLUMNS": "80"}).stdout
    listed = shown.partition("\nCommands:\n")[2].partition("\n\n")[0].splitlines()
    assert len(listed) > 5
    assert [line for line in listed if len(line) > 80 or line.endswith("...")] == []


def test_a_folder_named_like_a_command_does_not_hide_the_command() -> None:
    names = {each.name for each in make_app(["--state-dir", "value", "status"]).registered_commands}
    assert names == {"value", "status"}


def test_help_works_beside_a_broken_configuration(tmp_path: Path) -> None:
    (tmp_path / "disarray.toml").write_text("[broken")
    assert disarray("db", "--help", project=tmp_path).returncode == 0


def test_an_error_on_purpose_is_one_message_without_traceback(tmp_path: Path) -> None:
    (tmp_path / "disarray.toml").write_text("[broken")
    ended = disarray("config", "show", project=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.startswith("disarray: ")
    assert "Traceback" not in ended.stderr


def test_a_wrong_call_ends_with_code_2(tmp_path: Path) -> None:
    assert disarray("db", "nonsense", project=tmp_path).returncode == 2


def test_config_show_names_each_origin_and_hides_the_password(tmp_path: Path) -> None:
    (tmp_path / "disarray.toml").write_text('[state]\ndir = "kept"\n')
    environment = {"DISARRAY_DSN": "postgresql://alice:s3cret@db/lab"}
    as_text = disarray("config", "show", project=tmp_path, environment=environment)
    as_json = disarray("config", "show", "--json", project=tmp_path, environment=environment)
    assert json.loads(as_json.stdout)[:2] == [
        {
            "name": "state.dir",
            "value": str(tmp_path / "kept"),
            "origin": f"file {tmp_path / 'disarray.toml'}",
        },
        {
            "name": "database.dsn",
            "value": "postgresql://alice:********@db/lab",
            "origin": "environment DISARRAY_DSN",
        },
    ]
    assert "s3cret" not in as_text.stdout + as_json.stdout
    assert "environment DISARRAY_DSN" in as_text.stdout


def test_db_url_of_an_own_server_is_that_servers_dsn(tmp_path: Path) -> None:
    dsn = "postgresql://alice:s3cret@db/lab"
    assert disarray("--dsn", dsn, "db", "url", project=tmp_path).stdout == f"{dsn}\n"
    assert "neither starts nor stops" in disarray("--dsn", dsn, "db", "stop", project=tmp_path).stdout
    assert not (tmp_path / ".disarray").exists()


@pytest.mark.postgres
def test_db_url_starts_the_server_and_prints_what_psql_takes(state_dir: Path) -> None:
    from disarray.embedded import account

    project = state_dir.parent
    project.mkdir()
    url = disarray("db", "url", project=project).stdout.strip()
    psql = account.find_programs(account.account_for(state_dir)) / "psql"
    told = subprocess.run(
        [psql, url, "-Atc", "select current_database()"], capture_output=True, text=True, check=True
    )
    assert told.stdout == "disarray\n"
    assert "is running" in disarray("db", "start", project=project).stdout
    assert disarray("db", "stop", project=project).stdout == "PostgreSQL is stopped\n"
    assert disarray("db", "stop", project=project).stdout == "PostgreSQL was not running\n"


@pytest.mark.postgres
def test_doctor_names_the_fix_of_each_failing_line(state_dir: Path) -> None:
    project = state_dir.parent
    project.mkdir()
    ended = disarray("doctor", "--json", project=project, environment={"JAVA_HOME": "/nowhere"})
    failed = {
        check["name"]: check["fix"] for check in json.loads(ended.stdout) if check["verdict"] == "failed"
    }
    assert ended.returncode == 1
    assert failed["postgresql"] == "disarray db start"
    assert "openjdk-17-jre-headless" in failed["java"]
    assert not state_dir.exists()
