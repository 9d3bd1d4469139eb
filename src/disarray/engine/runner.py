"""The one seam between our kernels and Spark: map this kernel over these tasks."""

from __future__ import annotations

import re
import subprocess
import threading
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from disarray.errors import EngineLostError, FragmentWriteError, HandedBackError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Result = TypeVar("Result")

_LAST_BREATH_SECONDS = 2.0
_FULL_LAKE = re.compile(rf"{FragmentWriteError.__module__}\.{FragmentWriteError.__name__}: (?P<message>.+)")


class Runner(Protocol):
    """Runs a module-level kernel once for each task; results come back in the order of the tasks."""

    @property
    def cores(self) -> int:
        """How many tasks run at the same time."""
        ...

    def run(self, kernel: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run the kernel over the tasks; an error of one of them is raised once the others have ended."""
        ...

    def beside(self, pool: str) -> Runner:
        """The same, for work that shares the cores with that of others in place of going before or after it."""
        ...

    def pulse(self) -> object:
        """Something that is different whenever a task of this runner has ended since: what gets on is not stalled.

        What others do beside it is not in it: they may get on while this one hangs.
        """
        ...

    def keep_warm(self) -> None:
        """Do next to nothing, so that the next job finds everything started. Called when there is nothing to do."""
        ...

    def cancel(self) -> None:
        """Break off what runs; `run` raises. From any thread."""
        ...


@dataclass(frozen=True)
class SparkRunner:
    """Runs every task as one Spark task. What moves are descriptors; rows stay in files."""

    session: SparkSession
    pool: str = "default"
    _groups: set[str] = field(default_factory=set, repr=False, compare=False)  # of jobs that run

    @property
    def cores(self) -> int:
        """The cores of the master, or of all executors."""
        with self._noticed_loss():
            return self.session.sparkContext.defaultParallelism

    def run(self, kernel: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run the kernel over the tasks, one partition each."""
        if not tasks:
            return []

        def of_partition(partition: Iterable[Task]) -> Iterator[Result]:
            return (kernel(task) for task in partition)

        with self._noticed_loss():
            context = self.session.sparkContext
            group = f"{self.pool} {uuid.uuid4()}"
            # Of this thread alone.
            context.setLocalProperty("spark.scheduler.pool", self.pool)
            context.setLocalProperty("spark.jobGroup.id", group)
            self._groups.add(group)
            try:
                return context.parallelize(tasks, len(tasks)).mapPartitions(of_partition).collect()
            finally:
                self._groups.discard(group)

    def beside(self, pool: str) -> SparkRunner:
        """The same in another pool of Spark's scheduler."""
        return SparkRunner(self.session, pool)

    def pulse(self) -> object:
        """Which stages of its jobs run, and how many of their tasks have ended."""
        tracker = self.session.sparkContext.statusTracker()
        jobs = [
            tracker.getJobInfo(job)
            for group in self._groups.copy()
            for job in tracker.getJobIdsForGroup(group)
        ]
        stages = {
            stage: tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds
        }
        return {stage: info.numCompletedTasks for stage, info in stages.items() if info is not None}

    def keep_warm(self) -> None:
        """Run a task on every core: Spark ends all its Python processes after a minute in which none had work."""
        self.run(_import_kernels, range(self.cores))

    def cancel(self) -> None:
        """Break off all jobs."""
        self.session.sparkContext.cancelAllJobs()

    @contextmanager
    def _noticed_loss(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self._is_lost():
                raise EngineLostError(
                    "Spark's JVM ended while it was needed. Nothing of the batch is committed; it goes back to the "
                    "queue. Start this process again (a supervisor does); spark.log in the state folder may say why, "
                    "and [spark] driver.memory in disarray.toml is the usual cure"
                ) from error
            # Spark tells of an error in a task by its traceback alone.
            if (found := _FULL_LAKE.search(str(error))) is not None:
                raise FragmentWriteError(found["message"]) from error
            raise

    def _is_lost(self) -> bool:
        context: Any = self.session.sparkContext
        process = getattr(context._gateway, "proc", None)
        try:
            # A JVM that was killed a moment ago is not gone yet.
            if process is not None and process.poll() is None and not _answers(context):
                process.wait(_LAST_BREATH_SECONDS)
        except subprocess.TimeoutExpired:
            return True
        return (process is not None and process.poll() is not None) or not _answers(context)


@dataclass
class InProcessRunner:
    """Runs the same kernels here, one after the other: hundreds of cases in the time of one Spark job."""

    cores: int = 2
    _ended: int = 0
    _cancelled: threading.Event = field(default_factory=threading.Event)

    def run(self, kernel: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run the kernel over the tasks."""
        results = []
        for task in tasks:
            if self._cancelled.is_set():
                raise HandedBackError("the tasks that are left were not begun: the worker ends")
            results.append(kernel(task))
            self._ended += 1
        return results

    def beside(self, pool: str) -> InProcessRunner:
        """The same; what it does is not counted here."""
        return replace(self, _ended=0)

    def pulse(self) -> object:
        """How many tasks have ended."""
        return self._ended

    def keep_warm(self) -> None:
        """Nothing: there is nothing that could cool down."""

    def cancel(self) -> None:
        """Begin no further task, in this job or another."""
        self._cancelled.set()


def _import_kernels(_: int) -> None:
    """What every process pays for at its first task, paid before somebody waits for it."""
    import disarray.engine.jobs.read_job
    import disarray.engine.jobs.scan_job  # noqa: F401


def _answers(context: Any) -> bool:
    try:
        return not context._jsc.sc().isStopped()
    except Exception:
        # Whatever py4j raises: a JVM that does not even tell its state is of no use.
        return False
