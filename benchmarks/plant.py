"""A whole worker on a database of its own, and the same kernels without one."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from disarray.control import connections, events, files, instances, migrations
from disarray.control.files import Notification
from disarray.engine.jobs.read_job import read_files
from disarray.engine.jobs.scan_job import SegmentScan, scan_segments
from disarray.formats.loader import load_datasets
from disarray.kernels.reading.outcome import ReadReason, ReadRequest, ReadStatus
from disarray.model.fragments import FragmentEntry
from disarray.model.scan_units import ScanUnit
from disarray.model.uris import file_uri
from disarray.store.lake import Lake
from disarray.store.registering import register
from disarray.worker.process.scheduler import Scheduler
from disarray.worker.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from benchmarks.server import Server
    from disarray.control.connections import Connection
    from disarray.engine.runner import Runner
    from disarray.model.description.dataset import Dataset
    from disarray.worker.passes.report import PassReport

CORES = 2
ENQUEUE_BATCH = 500

Task = TypeVar("Task")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


@dataclass(frozen=True)
class Plant:
    """One worker, its inbox and its lake."""

    folder: Path
    dataset: Dataset
    place: Workplace
    dsn: str

    @property
    def lake(self) -> Lake:
        """Where fragments lie."""
        return self.place.lake

    def connect(self) -> Connection:
        """A connection of one's own, with a worker's limits."""
        return connections.connect(self.dsn)

    def ingest(self, paths: Sequence[Path]) -> list[PassReport]:
        """Announce files as an agent does, and let the worker do all there is to do; every file must come in."""
        self.announce(paths)
        reports = list(Scheduler(self.place).drain())
        failed = [text for report in reports for text in report.failed.values()]
        assert not failed, failed[:3]
        assert sum(len(report.completed) for report in reports) == len(paths)
        return reports

    def announce(self, paths: Sequence[Path]) -> None:
        """Queue files as an agent does."""
        given = [
            Notification(
                file_uri(str(path)),
                path.parent.name,
                metadata={"dataset": self.dataset.name, "size": path.stat().st_size},
            )
            for path in paths
        ]
        with self.place.pool.connection() as connection:
            for start in range(0, len(given), ENQUEUE_BATCH):
                files.enqueue_files(connection, given[start : start + ENQUEUE_BATCH])


@contextmanager
def open_plant(server: Server, folder: Path, description: str, *, runner: Runner) -> Iterator[Plant]:
    """A worker that has seen nothing yet; files go below `inbox`."""
    dataset = dataset_of(folder, description)
    with server.database("plant") as dsn:
        with connections.connect(dsn) as connection:
            migrations.migrate(connection)
        with connections.open_pool(dsn) as pool:
            with pool.connection() as connection:
                register(connection, dataset)
                events.provision_event_partitions(connection)
                holder = instances.register_instance(connection, "Bench")
            lake = Lake(folder / f"lake-{uuid.uuid4().hex[:8]}")
            yield Plant(folder, dataset, Workplace(pool, runner, lake, {dataset.name: dataset}, holder), dsn)


def dataset_of(folder: Path, description: str) -> Dataset:
    """The one dataset of a description, its inbox in the folder."""
    (folder / "inbox").mkdir(parents=True, exist_ok=True)
    (folder / "disarray.toml").write_text(description)
    [dataset] = load_datasets(folder / "disarray.toml")
    return dataset


@contextmanager
def spark_session(settings: dict[str, str] | None = None) -> Iterator[SparkSession]:
    """Spark as a worker configures it, on two cores."""
    from disarray.engine.session import start_session

    session = start_session({"spark.master": f"local[{CORES}]", **(settings or {})})
    try:
        yield session
    finally:
        session.stop()


@dataclass
class BareRunner:
    """The kernels in two processes of their own: no Spark, no database. What the work itself costs."""

    cores: int = CORES
    _pool: ProcessPoolExecutor = field(default_factory=lambda: ProcessPoolExecutor(CORES))

    def run(self, kernel: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run the kernel over the tasks."""
        return list(self._pool.map(kernel, tasks))

    def beside(self, pool: str) -> BareRunner:
        """Itself."""
        return self

    def pulse(self) -> object:
        """Nobody watches it."""
        return None

    def keep_warm(self) -> None:
        """Its processes stay."""

    def cancel(self) -> None:
        """It is never broken off."""

    def warm_up(self) -> None:
        """Start the processes and import what they need."""
        list(self._pool.map(_import_kernels, range(2 * CORES)))

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown()


def run_bare(runner: Runner, dataset: Dataset, paths: Sequence[Path], lake: Lake) -> int:
    """Read files into fragments and scan every segment once, as a worker that remembers nothing; how many readings."""
    requests = [
        ReadRequest.for_dataset(dataset, str(path), reason=ReadReason.NOTIFICATION, now_us=0, stored=None)
        for path in paths
    ]
    read = read_files(runner, requests, lake=lake, run_id=uuid.uuid4())
    segments: dict[tuple[str, int], list[FragmentEntry]] = defaultdict(list)
    for path, outcome in zip(paths, read.outcomes, strict=True):
        assert outcome.status is ReadStatus.READ, outcome.message
        for fragment in outcome.fragments:
            segments[path.parent.name, fragment.segment_us].append(
                FragmentEntry(
                    segment_us=fragment.segment_us,
                    source_uri=str(path),
                    generation=0,
                    path=lake.relative(fragment.path),
                    row_group=fragment.row_group,
                    readings=fragment.readings,
                    first_position=fragment.first_position,
                    last_position=fragment.last_position,
                    first_us=fragment.first_us,
                    last_us=fragment.last_us,
                )
            )
    scans = [
        SegmentScan(dataset, subject, ScanUnit(segment_us=start_us, revision=0, fragments=tuple(fragments)))
        for (subject, start_us), fragments in segments.items()
    ]
    scanned = scan_segments(runner, scans, lake=lake)
    return sum(result.segment["readings"] for result in scanned.values())


def timed(action: Callable[Arguments, object], *args: Arguments.args, **named: Arguments.kwargs) -> float:
    """Seconds that an action takes."""
    began = time.perf_counter()
    action(*args, **named)
    return time.perf_counter() - began


def stored_bytes(folder: Path) -> int:
    """What lies below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _import_kernels(_: int) -> None:
    import disarray.engine.jobs.read_job
    import disarray.engine.jobs.scan_job  # noqa: F401

    time.sleep(0.2)
