"""The embedded server under everything that can happen to it: real processes, really killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from disarray import embedded
from disarray.embedded import Condition, EmbeddedServer, account, processes
from disarray.embedded.state_folder import ServerFiles
from disarray.errors import DataVersionError, EmbeddedServerError, ServerBusyError, ServerDidNotStartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.postgres

START = "import sys; from pathlib import Path; from disarray import embedded; "
START += "print(embedded.start(Path(sys.argv[1])).pid, flush=True); "


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with a stopped server, to copy: faster than making one for each test."""
    state = tmp_path_factory.mktemp("cluster")
    embedded.start(state)
    embedded.stop(state)
    return state


@pytest.fixture
def server(cluster: Path, state_dir: Path) -> EmbeddedServer:
    """A running server in `state_dir`."""
    state_dir.parent.mkdir(parents=True)
    subprocess.run(["cp", "--archive", cluster, state_dir], check=True)
    return embedded.start(state_dir)


def ask(server: EmbeddedServer, query: str) -> object:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
        return row[0] if row else None


def remember(server: EmbeddedServer, number: int) -> None:
    with psycopg.connect(server.dsn) as connection:
        connection.execute("create table if not exists kept (number int)")
        connection.execute("insert into kept values (%s)", [number])


def processes_of(state: Path) -> tuple[processes.ServerProcess, ...]:
    files = ServerFiles.of(state)
    return processes.server_processes(files.name, files.data.stat().st_uid)


def wait_until(condition: Callable[[], bool], *, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def python(code: str, state: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, str(state)], stdout=subprocess.PIPE, text=True)


def test_first_start_makes_a_durable_server_for_its_owner_alone(state_dir: Path) -> None:
    server = embedded.start(state_dir)
    expected = {
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "data_checksums": "on",
        "timezone": "UTC",
        "jit": "off",
        "listen_addresses": "",
        "server_encoding": "UTF8",
    }
    assert {name: ask(server, f"select current_setting('{name}')") for name in expected} == expected
    assert server.data_dir == state_dir / "postgres"
    assert server.version == "18"
    assert ServerFiles.of(state_dir).socket_directory.stat().st_mode & 0o777 == 0o700
    assert state_dir.stat().st_mode & 0o777 == 0o700


def test_text_sorts_by_code_point_on_every_machine(server: EmbeddedServer) -> None:
    assert ask(server, "select string_agg(t, '' order by t) from unnest('{é,a,B,Z,z}'::text[]) t") == "BZazé"


def test_second_start_finds_the_running_server(server: EmbeddedServer, state_dir: Path) -> None:
    assert embedded.start(state_dir) == server


def test_stop_leaves_no_process_and_no_socket_and_keeps_the_data(
    server: EmbeddedServer, state_dir: Path
) -> None:
    remember(server, 7)
    assert embedded.stop(state_dir) is True
    assert processes_of(state_dir) == ()
    assert not ServerFiles.of(state_dir).socket_directory.exists()
    assert embedded.stop(state_dir) is False
    again = embedded.start(state_dir)
    assert (again.dsn, ask(again, "select number from kept")) == (server.dsn, 7)


def test_stop_does_not_wait_for_idle_clients(server: EmbeddedServer, state_dir: Path) -> None:
    with contextlib.closing(psycopg.connect(server.dsn)) as client:
        client.execute("select 1")
        began = time.monotonic()
        embedded.stop(state_dir)
        assert time.monotonic() - began < 10


def test_status_tells_what_there_is_and_starts_nothing(state_dir: Path) -> None:
    assert embedded.status(state_dir).condition is Condition.ABSENT
    assert not state_dir.exists()
    server = embedded.start(state_dir)
    assert embedded.status(state_dir) == embedded.ServerStatus(Condition.RUNNING, server)
    embedded.stop(state_dir)
    assert embedded.status(state_dir).condition is Condition.STOPPED


def test_two_first_starts_at_once_end_with_one_server(state_dir: Path) -> None:
    state_dir.mkdir(parents=True)
    starters = [python(START, state_dir) for _ in range(2)]
    told = {starter.communicate(timeout=240)[0] for starter in starters}
    assert [starter.returncode for starter in starters] == [0, 0]
    assert len(told) == 1
    assert [p.pid for p in processes_of(state_dir) if p.is_postmaster] == [int(told.pop())]


def test_server_outlives_the_kill_of_its_starter_and_is_found_again(state_dir: Path) -> None:
    with python(START + "import time; time.sleep(60)", state_dir) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        starter.kill()
    assert embedded.start(state_dir).pid == pid


def test_ctrl_c_in_the_terminal_of_the_starter_does_not_reach_the_server(state_dir: Path) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", START + "import time; time.sleep(60)", str(state_dir)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    with starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        os.killpg(starter.pid, signal.SIGINT)
    assert os.getsid(pid) != starter.pid
    assert embedded.start(state_dir).pid == pid


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.05, 0.2, 0.4, 0.6, 0.8, 1.0])
def test_starter_killed_at_any_moment_of_the_first_start_spoils_nothing(
    state_dir: Path, delay: float
) -> None:
    state_dir.mkdir(parents=True)
    with python(START, state_dir) as starter:
        wait_until(lambda: (state_dir / "postgres.alive").exists() or starter.poll() is not None)
        time.sleep(delay)
        starter.kill()
    server = embedded.start(state_dir)
    remember(server, 1)
    assert ask(server, "select number from kept") == 1
    assert list(state_dir.glob("postgres.new-*")) == []
    assert len([p for p in processes_of(state_dir) if p.is_postmaster]) == 1


def test_killed_postmaster_is_replaced_and_committed_data_is_there(
    server: EmbeddedServer, state_dir: Path
) -> None:
    remember(server, 7)
    os.kill(server.pid, signal.SIGKILL)
    again = embedded.start(state_dir)
    assert again.pid != server.pid
    assert ask(again, "select number from kept") == 7


@pytest.fixture
def orphan(server: EmbeddedServer, state_dir: Path) -> Iterator[int]:
    """The pid of a backend that is deep in a query and does not notice that its postmaster was killed."""
    busy = psycopg.connect(server.dsn, autocommit=True)

    def spin() -> None:
        with contextlib.suppress(psycopg.OperationalError):
            busy.execute("do $$ begin loop perform 1; end loop; end $$")

    spinning = threading.Thread(target=spin)
    spinning.start()
    wait_until(lambda: ask(server, "select count(*) from pg_stat_activity where query like 'do %'") == 1)
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: [process.pid for process in processes_of(state_dir)] == [busy.info.backend_pid])
    yield busy.info.backend_pid
    embedded.stop(state_dir)
    spinning.join()
    busy.close()


def test_start_ends_a_busy_orphan_before_it_takes_the_data(orphan: int, state_dir: Path) -> None:
    assert embedded.status(state_dir).condition is Condition.NOT_ANSWERING
    again = embedded.start(state_dir)
    assert orphan not in {process.pid for process in processes_of(state_dir)}
    assert ask(again, "select 1") == 1


@pytest.mark.usefixtures("orphan")
def test_stop_ends_a_busy_orphan(state_dir: Path) -> None:
    assert embedded.stop(state_dir) is True
    assert processes_of(state_dir) == ()


def test_a_frozen_server_is_reported_and_never_doubled(server: EmbeddedServer, state_dir: Path) -> None:
    # A frozen postmaster still takes connections into its backlog, so only the ping's answer can be trusted.
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(ServerBusyError, match="neither answers nor ends"):
            embedded.start(state_dir, timeout=1)
        assert [p.pid for p in processes_of(state_dir) if p.is_postmaster] == [server.pid]
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert embedded.start(state_dir) == server


def test_pid_file_that_names_a_foreign_process_does_not_stop_a_start(
    server: EmbeddedServer, state_dir: Path
) -> None:
    remember(server, 7)
    pid_file = state_dir / "postgres" / "postmaster.pid"
    written = pid_file.read_text().splitlines()
    embedded.stop(state_dir)
    owner = pid_file.parent.stat()
    foreign = subprocess.Popen(
        ["sleep", "60"], user=owner.st_uid if os.geteuid() == 0 else None, stdout=subprocess.DEVNULL
    )
    try:
        pid_file.write_text("\n".join([str(foreign.pid), *written[1:]]) + "\n")
        os.chown(pid_file, owner.st_uid, owner.st_gid)
        assert embedded.stop(state_dir) is False
        assert ask(embedded.start(state_dir), "select number from kept") == 7
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()


def test_socket_files_of_a_dead_server_do_not_stop_a_start(server: EmbeddedServer, state_dir: Path) -> None:
    sockets = ServerFiles.of(state_dir).socket_directory
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: processes_of(state_dir) == ())
    assert (sockets / ".s.PGSQL.5432.lock").exists()
    (sockets / ".s.PGSQL.5432.lock").write_text(f"{os.getpid()}\n")
    assert ask(embedded.start(state_dir), "select 1") == 1


def test_half_made_data_directory_of_a_killed_starter_is_cleared_away(state_dir: Path) -> None:
    (state_dir / "postgres.new-abc" / "base").mkdir(parents=True)
    (state_dir / "postgres.new-abc" / "PG_VERSION").write_text("18\n")
    assert ask(embedded.start(state_dir), "select 1") == 1
    assert list(state_dir.glob("postgres.new-*")) == []


def test_data_of_another_major_version_is_refused_and_untouched(
    server: EmbeddedServer, state_dir: Path
) -> None:
    embedded.stop(state_dir)
    version = state_dir / "postgres" / "PG_VERSION"
    version.write_text("17\n")
    with pytest.raises(DataVersionError, match="written by PostgreSQL 17") as refusal:
        embedded.start(state_dir)
    assert (refusal.value.found, refusal.value.expected) == ("17", "18")
    assert embedded.status(state_dir).condition is Condition.STOPPED
    version.write_text("18\n")
    assert embedded.start(state_dir).dsn == server.dsn


def test_folder_that_is_no_cluster_is_left_as_it_is(state_dir: Path) -> None:
    (state_dir / "postgres").mkdir(parents=True)
    (state_dir / "postgres" / "thesis.txt").write_text("years of work")
    with pytest.raises(EmbeddedServerError, match="no PostgreSQL data directory"):
        embedded.start(state_dir)
    assert [path.name for path in (state_dir / "postgres").iterdir()] == ["thesis.txt"]


def test_failed_start_shows_the_last_words_of_the_log(server: EmbeddedServer, state_dir: Path) -> None:
    embedded.stop(state_dir)
    (state_dir / "postgres" / "postgresql.auto.conf").write_text("nonsense = on\n")
    with pytest.raises(ServerDidNotStartError, match="ended while it was starting") as failure:
        embedded.start(state_dir)
    assert 'unrecognized configuration parameter "nonsense"' in failure.value.log_tail
    assert processes_of(state_dir) == ()
    (state_dir / "postgres" / "postgresql.auto.conf").write_text("")
    assert embedded.start(state_dir).dsn == server.dsn


def test_large_log_is_set_aside_at_the_next_start(server: EmbeddedServer, state_dir: Path) -> None:
    embedded.stop(state_dir)
    log = state_dir / "postgres.log"
    with log.open("a") as file:
        file.truncate(11 * 1024 * 1024)
    embedded.start(state_dir)
    assert log.stat().st_size < 1024 * 1024
    assert (state_dir / "postgres.log.1").stat().st_size == 11 * 1024 * 1024


def test_project_path_of_any_length_and_spelling_works(tmp_path: Path) -> None:
    state = tmp_path / ("long " * 30) / "with 'quotes' \"and\" $dollars; ünïcode" / ".disarray"
    try:
        server = embedded.start(state)
        assert ask(server, "select 1") == 1
        assert len(os.fsencode(ServerFiles.of(state).socket_directory / ".s.PGSQL.5432.lock")) < 108
        assert len(os.fsencode(state)) > 200
    finally:
        embedded.stop(state)


def test_state_folder_reached_through_a_link_has_the_same_server(
    server: EmbeddedServer, state_dir: Path
) -> None:
    link = state_dir.parent / "link"
    link.symlink_to(state_dir)
    assert embedded.start(link) == server


def test_server_is_found_after_its_project_was_moved(
    server: EmbeddedServer, state_dir: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    (state_dir.parent).rename(moved)
    try:
        found = embedded.start(moved / ".disarray")
        assert (found.pid, found.dsn) == (server.pid, server.dsn)
    finally:
        embedded.stop(moved / ".disarray")


def test_copied_state_folder_gets_a_server_of_its_own(
    server: EmbeddedServer, state_dir: Path, tmp_path: Path
) -> None:
    remember(server, 7)
    embedded.stop(state_dir)
    subprocess.run(["cp", "--archive", state_dir, tmp_path / "copy"], check=True)
    original = embedded.start(state_dir)
    shutil.copy(state_dir / "postgres" / "postmaster.pid", tmp_path / "copy" / "postgres")
    try:
        copy = embedded.start(tmp_path / "copy")
        assert (copy.pid, copy.dsn) != (original.pid, original.dsn)
        assert ask(copy, "select number from kept") == ask(original, "select number from kept") == 7
    finally:
        embedded.stop(tmp_path / "copy")


def test_stop_of_a_copied_state_folder_leaves_the_original_alone(
    server: EmbeddedServer, state_dir: Path, tmp_path: Path
) -> None:
    subprocess.run(["cp", "--archive", state_dir, tmp_path / "copy"], check=True)
    assert embedded.stop(tmp_path / "copy") is False
    assert ask(server, "select 1") == 1


def test_server_that_somebody_started_by_hand_is_left_alone(server: EmbeddedServer, state_dir: Path) -> None:
    embedded.stop(state_dir)
    owner = account.account_for(server.data_dir)
    programs = account.find_programs(owner)

    def pg_ctl(*arguments: str) -> None:
        with account.reach(server.data_dir) as (path, descriptor):
            command = [str(programs / "pg_ctl"), "--silent", "--wait", "--pgdata", path, *arguments]
            assert owner.run(command, output=subprocess.DEVNULL, descriptors=[descriptor]).returncode == 0

    pg_ctl("start", "--options", "-c listen_addresses= -c unix_socket_directories=.")
    try:
        by_hand = (server.data_dir / "postmaster.pid").read_text()
        with pytest.raises(EmbeddedServerError, match="that disarray did not start"):
            embedded.start(state_dir)
        assert (server.data_dir / "postmaster.pid").read_text() == by_hand
    finally:
        pg_ctl("stop")


def test_removed_state_folder_gives_way_to_a_fresh_one(server: EmbeddedServer, state_dir: Path) -> None:
    remember(server, 7)
    shutil.rmtree(state_dir)
    fresh = embedded.start(state_dir)
    assert fresh.pid != server.pid
    assert ask(fresh, "select to_regclass('kept')") is None
    assert [p.pid for p in processes_of(state_dir) if p.is_postmaster] == [fresh.pid]


def test_socket_folder_that_somebody_else_made_is_refused(state_dir: Path) -> None:
    sockets = ServerFiles.of(state_dir).socket_directory
    sockets.symlink_to("/etc")
    try:
        with pytest.raises(EmbeddedServerError, match="somebody else made it"):
            embedded.start(state_dir)
    finally:
        sockets.unlink()


def test_full_disk_is_told_with_the_log_and_leaves_nothing_half_made(small_disk: Path) -> None:
    state = small_disk / ".disarray"
    with pytest.raises(EmbeddedServerError, match=r"No space left on device|Check free disk space"):
        embedded.start(state)
    assert not (state / "postgres").exists()
    assert list(state.glob("postgres.new-*")) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 20 MB, too small for a database."""
    disk = tmp_path / "small"
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", disk], check=False)
    if mounted.returncode != 0:
        pytest.skip("this machine does not let root mount a small file system")
    yield disk
    subprocess.run(["umount", disk], check=True)
