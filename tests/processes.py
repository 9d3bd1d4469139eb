"""Commands as processes that run until they are told to end."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from tests.forked import ForkedCommand, plain_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


def eventually(condition: Callable[[], object], *, seconds: float = 240) -> None:
    """Wait until something is so; fails the test when it is not so in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.05)


class Running:
    """A command in a project folder; what it tells goes into a file there."""

    def __init__(
        self,
        *arguments: str,
        project: Path,
        log: str = "process.log",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._log = project / log
        with self._log.open("a") as log_file:
            self.process = ForkedCommand(
                *arguments,
                project=project,
                environment={**plain_environment(), **(environment or {})},
                stdout=log_file.fileno(),
                stderr=log_file.fileno(),
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def wait_for(self, text: str, *, seconds: float = 240) -> None:
        """Wait until it tells something."""
        deadline = time.monotonic() + seconds
        while text not in self.log:
            assert self.process.poll() is None, f"it ended with {self.process.poll()}:\n{self.log}"
            assert time.monotonic() < deadline, f"it never said {text!r}:\n{self.log}"
            time.sleep(0.05)

    def end(self, *signals: signal.Signals, seconds: float = 240) -> int:
        """Send signals, wait, and say how it ended."""
        for number in signals:
            self.process.send_signal(number)
            time.sleep(0.1)
        return self.process.wait(timeout=seconds)

    def interrupt_group(self) -> None:
        """What a terminal does at Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)

    def kill(self) -> None:
        """Make sure that it is gone."""
        self.process.kill()
