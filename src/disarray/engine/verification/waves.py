"""Tasks in waves: between two of them a long job tells how far it is, gives way to others, and can be broken off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disarray.engine.runner import Runner

Task = TypeVar("Task")
Result = TypeVar("Result")

TASKS_A_CORE = 4


@dataclass(frozen=True, slots=True)
class Waves:
    """Runs kernels over tasks, some for each core at a time.

    With `give_way` a wave is one task for each core but one, so that what comes meanwhile finds a core free; it is
    called before each wave, and returns when the others may be used, or raises.
    """

    runner: Runner
    give_way: Callable[[], None] | None = None

    def run(
        self,
        kernel: Callable[[Task], Result],
        tasks: Sequence[Task],
        on_wave: Callable[[Sequence[Task]], None] = lambda _: None,
    ) -> list[Result]:
        """The results in the order of the tasks; `on_wave` hears which have ended."""
        found: list[Result] = []
        cores = self.runner.cores
        size = TASKS_A_CORE * cores if self.give_way is None else max(1, cores - 1)
        for start in range(0, len(tasks), size):
            if self.give_way is not None:
                self.give_way()
            some = tasks[start : start + size]
            found += self.runner.run(kernel, some)
            on_wave(some)
        return found
