"""The one seam between our kernels and Spark: map this kernel over these tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Result = TypeVar("Result")


class Runner(Protocol):
    """Runs a module-level kernel once for each task; results come back in the order of the tasks."""

    @property
    def cores(self) -> int:
        """How many tasks run at the same time."""
        ...

    def run(self, kernel: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run the kernel over the tasks; an error of one of them is raised once the others have ended."""
        ...


@dataclass(frozen=True)
class SparkRunner:
    """Runs every task as one Spark task. What moves are descriptors; rows stay in files."""

    session: SparkSession

    @property
    def cores(self) -> int:
        """The cores of the master, or of all executors."""
        return self.session.sparkContext.defaultParallelism

    def run(self, kernel: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run the kernel over the tasks, one partition each."""
        if not tasks:
            return []

        def of_partition(partition: Iterable[Task]) -> Iterator[Result]:
            return (kernel(task) for task in partition)

        context = self.session.sparkContext
        return context.parallelize(tasks, len(tasks)).mapPartitions(of_partition).collect()


@dataclass(frozen=True)
class InProcessRunner:
    """Runs the same kernels here, one after the other: hundreds of cases in the time of one Spark job."""

    cores: int = 2

    def run(self, kernel: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run the kernel over the tasks."""
        return [kernel(task) for task in tasks]
