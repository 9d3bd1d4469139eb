"""Which processes belong to a server, told by their titles: a pid alone may have passed to somebody else."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

_CLUSTER_NAME = "cluster_name="


@dataclass(frozen=True)
class PostmasterFile:
    """What the running, or a long dead, postmaster wrote about itself."""

    pid: int
    socket_directory: Path
    is_ready: bool

    @property
    def cluster_name(self) -> str:
        return self.socket_directory.name


@dataclass(frozen=True)
class ServerProcess:
    """One process of a server."""

    pid: int
    is_postmaster: bool


def read_postmaster_file(data: Path) -> PostmasterFile | None:
    """Read postmaster.pid; None when there is none, or it is only half written."""
    try:
        lines = (data / "postmaster.pid").read_text(errors="replace").splitlines()
        # The last line comes later than the others: "starting", "ready" or "stopping".
        is_ready = len(lines) > 7 and lines[7].strip() == "ready"
        return PostmasterFile(int(lines[0]), Path(lines[4]), is_ready)
    except (OSError, ValueError, IndexError):
        return None


def server_processes(cluster_name: str, uid: int) -> tuple[ServerProcess, ...]:
    """Every living process of the named server, its postmaster among them if it lives."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return tuple(process for pid in pids if (process := _recognise(pid, cluster_name, uid)))


def is_postmaster_of_another_hand(pid: int, uid: int) -> bool:
    """Say whether a pid is a PostgreSQL that disarray did not start, and must leave alone."""
    arguments = _command_line(pid)
    return (
        _owner(pid) == uid
        and Path(arguments[0]).name == "postgres"
        and not any(argument.startswith(_CLUSTER_NAME + "disarray-") for argument in arguments)
    )


def send_signal(process: ServerProcess, number: signal.Signals, *, cluster_name: str, uid: int) -> None:
    """Signal a process of the server, and never one that got its pid in the meantime."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(process.pid)
        try:
            if _recognise(process.pid, cluster_name, uid) is not None:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def _recognise(pid: int, cluster_name: str, uid: int) -> ServerProcess | None:
    if _owner(pid) != uid:
        return None
    arguments = _command_line(pid)
    if arguments[0].startswith(f"postgres: {cluster_name}: "):
        return ServerProcess(pid, is_postmaster=False)
    if Path(arguments[0]).name == "postgres" and _CLUSTER_NAME + cluster_name in arguments:
        return ServerProcess(pid, is_postmaster=True)
    return None


def _owner(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None


def _command_line(pid: int) -> list[str]:
    """The words of a process; one empty word for a dead or a zombie one."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return [""]
