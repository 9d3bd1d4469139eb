"""Commands of the product, and functions, each a process forked from one that imported everything and did nothing.

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
    from collections.abc import Callable, Mapping
    from pathlib import Path


class Forked:
    """A function in a process, from its start to whatever ends it; named as in `subprocess.Popen` what both have."""

    def __init__(
        self,
        life: Callable[..., object],
        *arguments: object,
        environment: Mapping[str, str],
        project: Path | None = None,
        stdout: int = 1,
        stderr: int = 2,
        clock_ahead: float = 0,
    ) -> None:
        self.arguments = arguments
        _start_server()
        given = (dict(environment), None if project is None else str(project), _Open(stdout), _Open(stderr))
        self._process = multiprocessing.get_context("forkserver").Process(
            target=_become,
            args=(life, arguments, *given, clock_ahead),
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
            raise subprocess.TimeoutExpired([str(each) for each in self.arguments], timeout)
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Make sure that it is gone."""
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join(30)


class ForkedCommand(Forked):
    """One command, named by its arguments."""

    def __init__(
        self,
        *arguments: str,
        project: Path,
        environment: Mapping[str, str],
        stdout: int,
        stderr: int,
        clock_ahead: float = 0,
    ) -> None:
        super().__init__(
            _run_command,
            *arguments,
            environment=environment,
            project=project,
            stdout=stdout,
            stderr=stderr,
            clock_ahead=clock_ahead,
        )


def begin_life(life: Callable[..., object], *arguments: object, **armed: str) -> Forked:
    """A process that does nothing but this function of a module, with what is armed in its environment."""
    return Forked(life, *arguments, environment={**plain_environment(), **armed})


def live(life: Callable[..., object], *arguments: object, **armed: str) -> int:
    """The same, from its start to its end: its exit code, negative for a signal."""
    process = begin_life(life, *arguments, **armed)
    try:
        return process.wait(240)
    finally:
        process.kill()


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
    life: Callable[..., object],
    arguments: tuple[object, ...],
    environment: Mapping[str, str],
    project: str | None,
    stdout: _Open,
    stderr: _Open,
    clock_ahead: float,
) -> None:
    """The child: become the function, on a host whose clock is off by so many seconds."""
    os.setsid()
    for opened, number in ((stdout, 1), (stderr, 2)):
        os.dup2(opened.descriptor, number)
        os.close(opened.descriptor)
    # Streams as a fresh interpreter makes them: lines at once on a terminal, and errors anywhere.
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    if project is not None:
        os.chdir(project)
    os.environ.clear()
    os.environ.update(environment)
    failpoints._armed = failpoints.armoury_of(os.environ)
    if clock_ahead:
        right, right_ns = time.time, time.time_ns
        time.time = lambda: right() + clock_ahead
        time.time_ns = lambda: right_ns() + int(clock_ahead * 1e9)
    try:
        life(*arguments)
    finally:
        atexit._run_exitfuncs()  # which a forked process would leave out


def _run_command(*arguments: str) -> None:
    from disarray.cli.main import main

    sys.argv = ["disarray", *arguments]
    main()


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
