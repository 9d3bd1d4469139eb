"""Commands of the product, each a process that is forked from one that has imported everything and done nothing.

From the fork on it is the command: with a pid, a session, an environment, streams and an exit code of its own. Hundreds
of tests cannot afford a start from nothing each; what that does is tested in tests/cli/test_main.py.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from multiprocessing import forkserver, reduction
from typing import TYPE_CHECKING, Any

from disarray import failpoints

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class ForkedCommand:
    """One command, from its start to whatever ends it; named as in `subprocess.Popen` what it has in common with it."""

    def __init__(
        self,
        *arguments: str,
        project: Path,
        environment: Mapping[str, str],
        stdout: int,
        stderr: int,
        clock_ahead: float = 0,
    ) -> None:
        self.arguments = arguments
        _start_server()
        self._process = multiprocessing.get_context("forkserver").Process(
            target=_become,
            args=(arguments, str(project), dict(environment), _Open(stdout), _Open(stderr), clock_ahead),
            daemon=True,  # gone at the latest with the test process
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """How it ended; negative for a signal."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """How it ended, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """Wait until it ends by itself."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(["disarray", *self.arguments], timeout)
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Make sure that it is gone."""
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join(30)


def run_command(
    *arguments: str, project: Path, environment: Mapping[str, str], timeout: float = 240
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; it writes into files, not on a terminal."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        command = ForkedCommand(
            *arguments, project=project, environment=environment, stdout=out.fileno(), stderr=err.fileno()
        )
        try:
            code = command.wait(timeout)
        finally:
            command.kill()
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess(["disarray", *arguments], code, out.read(), err.read())


def plain_environment() -> dict[str, str]:
    """The environment of the test, less what would configure disarray."""
    return {name: value for name, value in os.environ.items() if not name.startswith("DISARRAY_")}


class _Open:
    """A file that is open here, and under another number in the process that this is sent to."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (reduction.DupFd(self.descriptor),)


def _received(duplicate: Any) -> _Open:
    return _Open(duplicate.detach())


def _become(
    arguments: Sequence[str],
    project: str,
    environment: Mapping[str, str],
    stdout: _Open,
    stderr: _Open,
    clock_ahead: float,
) -> None:
    """The child: become the command, on a host whose clock is off by so many seconds."""
    from disarray.cli.main import main

    os.setsid()
    for opened, number in ((stdout, 1), (stderr, 2)):
        os.dup2(opened.descriptor, number)
        os.close(opened.descriptor)
    # Streams as a fresh interpreter makes them: lines at once on a terminal, and errors anywhere.
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(project)
    os.environ.clear()
    os.environ.update(environment)
    failpoints._armed = failpoints.armoury_of(os.environ)
    if clock_ahead:
        right, right_ns = time.time, time.time_ns
        time.time = lambda: right() + clock_ahead
        time.time_ns = lambda: right_ns() + int(clock_ahead * 1e9)
    sys.argv = ["disarray", *arguments]
    try:
        main()
    finally:
        atexit._run_exitfuncs()  # which a forked process would leave out


def _start_server() -> None:
    """Fork from a process that has our modules, found where this one found them."""
    multiprocessing.set_forkserver_preload(["pytest", "tests.preloaded", "tests.forked"])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
