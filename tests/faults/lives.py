"""Lives of real `disarray` processes: started armed, killed, started again."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import TYPE_CHECKING

from tests.forked import ForkedCommand, plain_environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Life:
    """One command, from its start to whatever ends it."""

    def __init__(
        self, *arguments: str, project: Path, armed: str = "", number: int = 0, clock_ahead: float = 0
    ) -> None:
        self.armed = armed
        self._log = project / f"life-{number}.log"
        self._hits = project / f"life-{number}.hits"
        armoury = {"DISARRAY_FAILPOINTS": armed, "DISARRAY_FAILPOINT_LOG": str(self._hits)}
        with self._log.open("a") as log:
            self._process = ForkedCommand(
                *arguments,
                project=project,
                environment=plain_environment() | armoury,
                stdout=log.fileno(),
                stderr=log.fileno(),
                clock_ahead=clock_ahead,
            )

    @property
    def pid(self) -> int:
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
        return self._process.poll() is not None

    @property
    def code(self) -> int | None:
        """How it ended; negative for a signal."""
        return self._process.returncode

    def await_end(self, *, seconds: float = 240) -> int:
        """Wait until it ends by itself."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end in time\n{self.log}") from None

    def end(self) -> int:
        """Tell it to end."""
        self.send(signal.SIGTERM)
        return self.await_end()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

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
        self._process.kill()

    def _told(self) -> list[tuple[str, str]]:
        if not self._hits.exists():
            return []
        lines = [line.split() for line in self._hits.read_text().splitlines()]
        return [(line[2], line[3]) for line in lines]
