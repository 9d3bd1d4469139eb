"""Lives of real `disarray` processes: started armed, killed, started again.

A process is forked from one that has imported everything and done nothing, because a hundred cases cannot afford
a start from nothing each. From there on it is the command of the product, with a pid of its own to be killed by.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from multiprocessing import forkserver
from typing import TYPE_CHECKING

from disarray import failpoints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_PRELOADED = [
    "pytest",
    "disarray.cli.main",
    "disarray.cli.commands.worker",
    "disarray.worker.process.local",
    "disarray.worker.process.intake",
    "disarray.worker.process.duties",
    "disarray.worker.process.store_copy",
    "disarray.engine.runner",
    "disarray.engine.jobs.compact_job",
    "disarray.agent.agent",
    "disarray.broker.publisher",
    "tests.faults.lives",
    "typer._adapters",  # what typer imports when it first reads an option: a third of a start
]


def _live(
    arguments: Sequence[str], project: str, environment: Mapping[str, str], log: str, clock_ahead: float
) -> None:
    """The child: become the command, on a host whose clock is off by so many seconds."""
    from disarray.cli.main import main

    os.setsid()
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.chdir(project)
    for name in [name for name in os.environ if name.startswith("DISARRAY_")]:
        del os.environ[name]
    os.environ.update(environment)
    failpoints._armed = failpoints.armoury_of(os.environ)
    if clock_ahead:
        right, right_ns = time.time, time.time_ns
        time.time = lambda: right() + clock_ahead
        time.time_ns = lambda: right_ns() + int(clock_ahead * 1e9)
    sys.argv = ["disarray", *arguments]
    main()


class Life:
    """One command, from its start to whatever ends it."""

    def __init__(
        self, *arguments: str, project: Path, armed: str = "", number: int = 0, clock_ahead: float = 0
    ) -> None:
        self.armed = armed
        self._log = project / f"life-{number}.log"
        self._hits = project / f"life-{number}.hits"
        environment = {"DISARRAY_FAILPOINTS": armed, "DISARRAY_FAILPOINT_LOG": str(self._hits)}
        context = multiprocessing.get_context("forkserver")
        _start_server()
        self._process = context.Process(
            target=_live,
            args=(arguments, str(project), environment, str(self._log), clock_ahead),
            daemon=True,
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    @property
    def strikes(self) -> list[tuple[str, str]]:
        """The points at which something struck, and what."""
        return [(name, what) for name, what in self._told() if what != "hit"]

    @property
    def hits(self) -> set[str]:
        """The points that it came to."""
        return {name for name, _ in self._told()}

    @property
    def is_over(self) -> bool:
        return not self._process.is_alive()

    @property
    def code(self) -> int | None:
        """How it ended; negative for a signal."""
        return self._process.exitcode

    def await_end(self, *, seconds: float = 240) -> int:
        """Wait until it ends by itself."""
        self._process.join(seconds)
        assert self._process.exitcode is not None, f"it did not end in time\n{self.log}"
        return self._process.exitcode

    def end(self) -> int:
        """Tell it to end."""
        self.send(signal.SIGTERM)
        return self.await_end()

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def await_(self, condition: Callable[[], object], *, seconds: float = 240) -> None:
        """Wait until something is so, while it lives."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert not self.is_over, f"it ended with {self.code}\n{self.log}"
            assert time.monotonic() < deadline, f"it did not come about in time\n{self.log}"
            time.sleep(0.02)

    def is_frozen(self) -> bool:
        """Whether SIGSTOP has taken hold."""
        with open(f"/proc/{self.pid}/stat") as file:  # noqa: PTH123 - a file of the kernel
            return file.read().rpartition(")")[2].split()[0] == "T"

    def kill(self) -> None:
        """Make sure that it is gone."""
        if not self.is_over:
            self._process.kill()
            self._process.join(30)
        self._process.close()

    def _told(self) -> list[tuple[str, str]]:
        if not self._hits.exists():
            return []
        lines = [line.split() for line in self._hits.read_text().splitlines()]
        return [(line[2], line[3]) for line in lines]


def _start_server() -> None:
    """Fork from a process that has our modules, found where this one found them."""
    multiprocessing.set_forkserver_preload(_PRELOADED)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
