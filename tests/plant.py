"""A whole plant on a real database: an inbox, a lake, and a worker whose kernels run in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control import connections, files, instances
from disarray.control.files import Notification, Reason
from disarray.engine.runner import InProcessRunner
from disarray.formats.loader import load_datasets
from disarray.model.matching import match_file
from disarray.store.lake import Lake
from disarray.store.registering import register_all
from disarray.worker.process.scheduler import Scheduler
from disarray.worker.upkeep.housekeeping import keep_house
from disarray.worker.workplace import Workplace

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.model.description.dataset import Dataset
    from disarray.worker.passes.report import PassReport


class Plant:
    """An inbox, a lake, a database and one worker."""

    def __init__(self, root: Path, dsn: str, *, description: str) -> None:
        self.inbox = root / "inbox"
        self.inbox.mkdir(exist_ok=True)
        self.description = root / "disarray.toml"
        self.datasets: dict[str, Dataset] = {}
        self.pool = connections.open_pool(dsn)
        self.redefine(description)
        with self.pool.connection() as connection:
            holder = instances.register_instance(connection, "Worker01")
        self.place = Workplace(self.pool, InProcessRunner(), Lake(root / "lake"), self.datasets, holder)

    def redefine(self, description: str, *, is_on_purpose: bool = False) -> None:
        """The worker is started with another description."""
        self.description.write_text(description)
        described = load_datasets(self.description)
        with self.pool.connection() as connection:
            register_all(connection, described, is_on_purpose=is_on_purpose)
        self.datasets.clear()
        self.datasets.update({dataset.name: dataset for dataset in described})

    def write(self, name: str, text: str) -> Path:
        """Put a file into the inbox."""
        path = self.inbox / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def notify(self, *paths: Path, reason: Reason = Reason.FILE_NOTIFICATION) -> None:
        """Say that files are there."""
        notifications = []
        for path in paths:
            match = match_file(str(path), list(self.datasets.values()))
            assert match is not None
            assert match.subject is not None
            notifications.append(
                Notification(str(path), match.subject, reason, {"dataset": match.dataset.name})
            )
        with self.pool.connection() as connection:
            files.enqueue_files(connection, notifications)

    def notify_as(
        self, path: Path, subject: str, *, reason: Reason = Reason.FILE_NOTIFICATION, **metadata: str
    ) -> None:
        """Say that a file is there, for whatever subject somebody believes it to be about."""
        with self.pool.connection() as connection:
            files.enqueue_files(connection, [Notification(str(path), subject, reason, {**metadata})])

    def drain(self) -> list[PassReport]:
        """Let the worker do all there is to do."""
        return list(Scheduler(self.place).drain())

    def ingest(self, *paths: Path, reason: Reason = Reason.FILE_NOTIFICATION) -> list[PassReport]:
        """Notify and drain."""
        self.notify(*paths, reason=reason)
        return self.drain()

    def keep_house(self) -> list[PassReport]:
        """Queue what housekeeping can do, and let the worker do it."""
        assert keep_house(self.place) is not None
        return self.drain()

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Look into a table."""
        with self.pool.connection() as connection:
            return connection.execute(query.encode()).fetchall()

    def forget_everything(self) -> None:
        """As if no file had ever been seen."""
        with self.pool.connection() as connection:
            connection.execute(
                """
                truncate disarray.ingest_queue, disarray.file_info, disarray.file_blacklist, disarray.fragment,
                    disarray.segment, disarray.segment_summary, disarray.metric_block,
                    disarray.rollup_block, disarray.file_fingerprint,
                    disarray.rejected_row, disarray.lake_file, disarray.run, disarray.dirty_range,
                    disarray.restatement, disarray.subject, disarray.subject_lock, disarray.subject_version,
                    disarray.moving_file, disarray.unmatched_file, disarray.subject_commit, disarray.commit_follower,
                    disarray.destination_position, disarray.view_position, disarray.file_part, disarray.part_delivery,
                    disarray.conflict, disarray.side_effect, disarray.verification, disarray.subject_verification
                """
            )
            for table in self.tables():
                connection.execute(f"truncate telemetry.{table}".encode())

    def tables(self) -> list[str]:
        """The tables of readings that there are."""
        found = self.rows(
            "select definition ->> 'table' from disarray.dataset_store where definition is not null"
        )
        return [str(name) for (name,) in found]

    def derived(self) -> dict[str, list[tuple[object, ...]]]:
        """Everything that must not depend on how the files arrived."""
        return {
            "segments": self.rows(
                "select dataset, subject_key, segment_us, readings, digest from disarray.segment order by 1, 2, 3"
            ),
            "metrics": self.rows(
                """
                select dataset, subject_key, metric, channel, segment_us, piece, points, total_float, total_int,
                    base_float, base_int, before_float, before_int
                from disarray.segment_metric order by 1, 2, 3, 4, 5, 6
                """
            ),
            "rollups": self.rows("select * from disarray.rollup order by 1, 2, 3, 4, 5, 6, 7"),
        } | {
            table: self.rows(
                f"select * from telemetry.{table}_running order by subject_key, event_at, ordinal"
            )
            for table in self.tables()
        }
