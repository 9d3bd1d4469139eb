"""Tasks in waves: between two of them a long job tells how far it is, and can be broken off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from disarray.errors import HandedBackError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disarray.engine.runner import Runner

Task = TypeVar("Task")
Result = TypeVar("Result")

TASKS_A_CORE = 4


@dataclass(frozen=True, slots=True)
class Waves:
    """Runs kernels over tasks, some for each core at a time."""

    runner: Runner
    must_stop: Callable[[], bool] = lambda: False

    def run(
        self,
        kernel: Callable[[Task], Result],
        tasks: Sequence[Task],
        on_wave: Callable[[Sequence[Task]], None] = lambda _: None,
    ) -> list[Result]:
        """The results in the order of the tasks; `on_wave` hears which have ended."""
        found: list[Result] = []
        size = TASKS_A_CORE * self.runner.cores
        for start in range(0, len(tasks), size):
            if self.must_stop():
                raise HandedBackError(
                    "the verification was broken off; what it had found out is written down"
                )
            some = tasks[start : start + size]
            found += self.runner.run(kernel, some)
            on_wave(some)
        return found
