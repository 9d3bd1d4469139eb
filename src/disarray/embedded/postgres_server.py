"""Start, find, stop: the one server of a state folder, whatever was killed before."""

from __future__ import annotations

import contextlib
import enum
import os
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.embedded.account import account_for, find_programs
from disarray.embedded.cluster import DATABASE, SUPERUSER, Launcher, data_version
from disarray.embedded.processes import (
    is_postmaster_of_another_hand,
    read_postmaster_file,
    send_signal,
    server_processes,
)
from disarray.embedded.state_folder import ServerFiles, remove_sockets
from disarray.errors import EmbeddedServerError, ServerBusyError, ServerDidNotStartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_POLL_SECONDS = 0.05
# Backends leave by themselves when their postmaster is gone, unless they are deep in a query.
_ORPHAN_GRACE_SECONDS = 2.0
_FAST_STOP_SECONDS = 30.0


@dataclass(frozen=True)
class EmbeddedServer:
    """A running server: connect with `dsn`."""

    dsn: str
    data_dir: Path
    pid: int
    version: str


class Condition(enum.Enum):
    """What there is behind a state folder."""

    ABSENT = "absent"
    STOPPED = "stopped"
    NOT_ANSWERING = "not answering"
    RUNNING = "running"


@dataclass(frozen=True)
class ServerStatus:
    """The condition of the embedded server, and the server itself if it is running."""

    condition: Condition
    server: EmbeddedServer | None = None


def start(state_dir: Path, *, timeout: float = 120.0) -> EmbeddedServer:
    """Return the running server of a state folder, after making its data directory or starting it if need be.

    Safe to call from several processes at once, and after any of them, the postmaster or the machine was
    killed. The server outlives the caller; `stop` ends it.
    """
    if sys.platform != "linux":
        raise EmbeddedServerError(
            "The embedded PostgreSQL runs on Linux only. Use a server of your own: set DISARRAY_DSN."
        )
    files = ServerFiles.of(state_dir)
    deadline = time.monotonic() + timeout
    with _explained(files):
        files.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        with files.turn(deadline=deadline):
            alive_lock = _find_or_outwait(files, deadline)
            if isinstance(alive_lock, EmbeddedServer):
                return alive_lock
            try:
                _launch(files, alive_lock, deadline)
            finally:
                os.close(alive_lock)
            return _await_answer(files, deadline)


def stop(state_dir: Path, *, timeout: float = 90.0) -> bool:
    """End the server and wait until its last process is gone; False when there was none."""
    files = ServerFiles.of(state_dir)
    if not files.state.is_dir():
        return False
    deadline = time.monotonic() + timeout
    with _explained(files), files.turn(deadline=deadline):
        was_alive = files.is_alive()
        cluster_name, uid = _identity(files)
        _end_server(files, (cluster_name, uid), files.is_alive, deadline=deadline)
        # The pid file of a copied folder names the original, whose socket is not ours to remove.
        name = cluster_name if was_alive else files.name
        if not server_processes(name, uid):
            remove_sockets(name, with_folder=True)
        return was_alive


def status(state_dir: Path) -> ServerStatus:
    """Say what there is, and start nothing."""
    files = ServerFiles.of(state_dir)
    with _explained(files):
        if files.is_alive():
            server = _running_server(files)
            return ServerStatus(Condition.RUNNING if server else Condition.NOT_ANSWERING, server)
        return ServerStatus(Condition.ABSENT if data_version(files) is None else Condition.STOPPED)


def _find_or_outwait(files: ServerFiles, deadline: float) -> EmbeddedServer | int:
    """Return the server that answers or, once nothing of it lives any more, the lock that proves it."""
    seen_without_postmaster: float | None = None
    while (alive_lock := files.hold_alive_lock()) is None:
        if server := _running_server(files):
            return server
        cluster_name, uid = _identity(files)
        processes = server_processes(cluster_name, uid)
        if not processes or any(process.is_postmaster for process in processes):
            seen_without_postmaster = None
        else:
            seen_without_postmaster = seen_without_postmaster or time.monotonic()
            if time.monotonic() - seen_without_postmaster > _ORPHAN_GRACE_SECONDS:
                # They block every successor; ending them is what a crash restart does as well.
                for process in processes:
                    send_signal(process, signal.SIGKILL, cluster_name=cluster_name, uid=uid)
        _check(deadline, files, "neither answers nor ends")
        time.sleep(_POLL_SECONDS)
    return alive_lock


def _launch(files: ServerFiles, alive_lock: int, deadline: float) -> None:
    account = account_for(files.data if files.data.exists() else files.state)
    launcher = Launcher(files, account, find_programs(account), alive_lock)
    written = read_postmaster_file(files.data)
    if written is not None and is_postmaster_of_another_hand(written.pid, account.uid):
        raise EmbeddedServerError(
            f"{files.data} may be in use by a PostgreSQL that disarray did not start (pid {written.pid}). "
            f"It was left alone. Stop it first: pg_ctl -D {files.data} stop"
        )
    # A server of this name that does not hold this lock lost its folder, which was removed or moved away.
    _end_server(
        files,
        (files.name, account.uid),
        lambda: bool(server_processes(files.name, account.uid)),
        deadline=deadline,
    )
    # The lock proves that nobody lives here. PostgreSQL sees only the pids in these files, and would refuse
    # to start for as long as some other process happens to bear one.
    (files.data / "postmaster.pid").unlink(missing_ok=True)
    remove_sockets(files.name)
    if not files.data.exists() or not any(files.data.iterdir()):
        launcher.initialise()
    launcher.check_data()
    launcher.launch()


def _await_answer(files: ServerFiles, deadline: float) -> EmbeddedServer:
    """Wait for as long as it recovers, and not a moment longer than it lives."""
    while (server := _running_server(files)) is None:
        if not files.is_alive():
            raise ServerDidNotStartError(
                "PostgreSQL ended while it was starting. What was committed before is safe on disk. "
                f"Mend what {files.log} says and try again; its last lines:",
                log_tail=files.log_tail(),
            )
        _check(deadline, files, "is still starting; try again later")
        time.sleep(_POLL_SECONDS)
    return server


def _end_server(
    files: ServerFiles, identity: tuple[str, int], is_alive: Callable[[], bool], *, deadline: float
) -> None:
    """End a server, cleanly if it can be; a killed one recovers what it committed at the next start."""
    cluster_name, uid = identity
    kill_at = time.monotonic() + _FAST_STOP_SECONDS
    asked: set[int] = set()
    while is_alive():
        processes = server_processes(cluster_name, uid)
        postmaster_lives = any(process.is_postmaster for process in processes)
        for process in processes:
            if time.monotonic() > kill_at:
                send_signal(process, signal.SIGKILL, cluster_name=cluster_name, uid=uid)
            elif process.pid not in asked and (process.is_postmaster or not postmaster_lives):
                number = signal.SIGINT if process.is_postmaster else signal.SIGQUIT
                send_signal(process, number, cluster_name=cluster_name, uid=uid)
                asked.add(process.pid)
        _check(deadline, files, "does not end")
        time.sleep(_POLL_SECONDS)


def _running_server(files: ServerFiles) -> EmbeddedServer | None:
    """The server of this folder, if its postmaster lives and takes connections."""
    # Read from the server's own file: it stays true when the project was moved while the server ran.
    written = read_postmaster_file(files.data)
    # Not asked before it is ready: every question would be a line of complaint in its log.
    if written is None or not written.is_ready:
        return None
    if written.pid not in {process.pid for process in server_processes(*_identity(files))}:
        return None
    dsn = f"postgresql://{SUPERUSER}@/{DATABASE}?host={written.socket_directory}"
    from psycopg import pq

    # A frozen postmaster accepts and never answers: without a limit the question would hang with it.
    if pq.PGconn.ping(f"{dsn}&connect_timeout=2".encode()) != pq.Ping.OK:
        return None
    return EmbeddedServer(dsn, files.data, written.pid, data_version(files) or "")


def _identity(files: ServerFiles) -> tuple[str, int]:
    """The name in the titles of this folder's processes, and the user id they run as."""
    written = read_postmaster_file(files.data)
    owned = files.data if files.data.exists() else files.state
    return (written.cluster_name if written else files.name), owned.stat().st_uid


def _check(deadline: float, files: ServerFiles, complaint: str) -> None:
    if time.monotonic() > deadline:
        raise ServerBusyError(
            f"The server of {files.state} {complaint}. Its data is safe on disk. Processes that hold it: "
            f"fuser -v {files.state / 'postgres.alive'}. Its log: {files.log}\n\n{files.log_tail()}"
        )


@contextlib.contextmanager
def _explained(files: ServerFiles) -> Iterator[None]:
    """Turn what the operating system refuses into an error that says what to do."""
    try:
        yield
    except PermissionError as refusal:
        raise EmbeddedServerError(
            f"No permission for {refusal.filename or files.state}. Nothing was changed. The state folder "
            f"{files.state} belongs to another user: run disarray as that user, or choose a --state-dir."
        ) from refusal
    except OSError as refusal:
        raise EmbeddedServerError(
            f"The state folder {files.state} cannot be used: {refusal}. What was committed before is safe. "
            "Make room or mend the disk, then try again."
        ) from refusal
