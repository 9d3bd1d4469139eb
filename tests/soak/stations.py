"""The processes of the plant: each station is staffed by one process at a time, and staffed again when it ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import disarray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LOOK_SECONDS = 0.2
_RESTART_SECONDS = 0.5
_SOURCE = Path(disarray.__file__).parents[1]


def environment_of(extra: Mapping[str, str]) -> dict[str, str]:
    """What a command of this very source runs in: nothing of the caller's own settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DISARRAY_")}
    return {**inherited, "PYTHONPATH": str(_SOURCE), **extra}


def command(*arguments: str) -> list[str]:
    """A `disarray` command as a process of this interpreter."""
    return [sys.executable, "-m", "disarray", *arguments]


class Station:
    """A command that shall always run, under a name of its own."""

    def __init__(self, name: str, *arguments: str, folder: Path) -> None:
        self.name = name
        self.lives = 0
        self.is_spark = False
        self.exits: Counter[int] = Counter()
        self._arguments = arguments
        self._folder = folder
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._former: list[subprocess.Popen[bytes]] = []
        self._next: dict[str, str] = {}
        self._began_at = 0.0
        self._log_began = 0
        self._guard = threading.RLock()

    def staff(self) -> None:
        """Start a process where there is none, a moment after the last was begun."""
        with self._guard:
            if self._process is not None:
                code = self._process.poll()
                if code is None:
                    return
                self.exits[code] += 1
                self._process = None
            if time.monotonic() < self._began_at + _RESTART_SECONDS:
                return
            self._began_at = time.monotonic()
            self._log_began = self._log.stat().st_size if self._log.exists() else 0
            self.is_spark = self._next.get("DISARRAY_WORKER_RUNNER") == "spark"
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    command(*self._arguments),
                    cwd=self._folder,
                    env=environment_of(self._next),
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            self._next = {}
            self.lives += 1

    def prepare(self, **environment: str) -> None:
        """What the next life, and that one alone, gets told by its environment."""
        with self._guard:
            self._next = environment

    def kill(self) -> bool:
        """SIGKILL to all that the command started; whether it was alive."""
        with self._guard:
            process = self._process
            if process is None or process.poll() is not None:
                return False
            _kill_group(process)
            return True

    def suspend(self) -> subprocess.Popen[bytes] | None:
        """SIGSTOP; `resume` lets it go on."""
        with self._guard:
            process = self._process
            if process is None or process.poll() is not None:
                return None
            process.send_signal(signal.SIGSTOP)
            return process

    def leave_to_a_successor(self) -> None:
        """Staff the station anew while its process, suspended, still believes in it."""
        with self._guard:
            if self._process is not None:
                self._former.append(self._process)
                self._process = None

    def end(self, *, seconds: float = 60.0) -> int | None:
        """SIGTERM, and wait; what it ended with, None where it had to be killed."""
        with self._guard:
            for former in self._former:
                _kill_group(former)
            process = self._process
        if process is None:
            return 0
        process.terminate()
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            _kill_group(process)
            return None

    def destroy(self) -> None:
        """Make sure that nothing of it is left."""
        for process in (*self._former, *([self._process] if self._process else [])):
            _kill_group(process)

    def says(self, text: str) -> bool:
        """Whether this life has told something."""
        if not self._log.exists():
            return False
        with self._log.open("rb") as log:
            log.seek(self._log_began)
            return text.encode() in log.read()


def resume(process: subprocess.Popen[bytes]) -> None:
    """SIGCONT."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGCONT)


class Supervisor:
    """Staffs stations until it is told to stop."""

    def __init__(self, stations: Sequence[Station]) -> None:
        self._stations = stations
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Staff nothing any more; what runs goes on."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            for station in self._stations:
                station.staff()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
