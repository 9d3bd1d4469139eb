"""A plant whose table source is resynced, by workers that serve the job and do its orders."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from disarray.backfill.job_file import parse_spec
from disarray.backfill.serving_jobs import JobServer
from disarray.backfill.starting import start_backfill
from disarray.config import default_config
from disarray.control import backfills, instances
from disarray.queries.backfills import show_backfill
from disarray.queries.readings import readings
from disarray.worker.process.backfill_kinds import WorkerKinds
from tests.sources.table_plant import TablePlant

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from disarray.backfill.kind import KindOpener
    from disarray.queries.backfills import BackfillDetails

# Subject, id, event time, watts.
Answered: TypeAlias = "tuple[str, int, datetime, float]"

NOON = "2026-03-02 12:00+00"
RESYNC: dict[str, Any] = {
    "name": "resync_historian",
    "kind": "resync",
    "resync": {"source": "historian", "deletes": "allow"},
    "processing": {
        "min_batch_size": 1,
        "max_batch_size": 7,
        "retry_policy": {"max_attempts": 2, "backoff": "0 s"},
    },
}


class ResyncedPlant(TablePlant):
    """Rows of three tools, an hour apart each, two of which share a segment."""

    def __init__(self, root: Path, dsn: str, *, watermark: str = "timestamp", limit: int = 5) -> None:
        super().__init__(root, dsn, watermark=watermark, limit=limit)
        self.is_over: Callable[[], bool] = lambda: False

    @property
    def kinds(self) -> KindOpener:
        """What a worker opens the job with."""
        return WorkerKinds(self.place, self.dsn, lambda: self.is_over())

    def fill(self, rows: int) -> None:
        """Rows that were there for long."""
        self.execute(
            f"""
            insert into public.readings (id, tool, at, watts, updated_at)
            select n, 'TOOL0' || n % 3, timestamptz '{NOON}' + n * interval '30 min', n, now() - interval '1 h'
            from generate_series(1, {rows}) as n;
            select setval('public.ids', 1000);
            """
        )

    def start(self, **resync: object) -> int:
        """Begin a resync; nothing is done yet."""
        document = {**RESYNC, "resync": {**RESYNC["resync"], **resync}}
        spec = parse_spec(document, shown="job.toml", config=default_config())
        return start_backfill(self.dsn, spec, reason="test", by="ada", open_kind=self.kinds)

    def server(self, name: str) -> JobServer:
        with self.pool.connection() as connection:
            holder = instances.register_instance(connection, name)
        return JobServer(dsn=self.dsn, holder=holder, lease_seconds=60, open_kind=self.kinds)

    def serve(self, job_id: int, *, threads: int = 1, name: str = "Backfiller") -> BackfillDetails:
        """Work on the job until it has ended or stopped, while a worker does the orders."""
        server = self.server(name)
        self.beside(lambda: server.run_job(job_id, threading.Event(), threads=threads))
        return self.job(job_id)

    def beside(self, *works: Callable[[], Any], between: Callable[[], Any] = lambda: None) -> None:
        """Do the orders of the queue while something goes on."""
        failures: list[BaseException] = []

        def guarded(work: Callable[[], Any]) -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            between()
            self.drain()
            threads[0].join(0.02)
        self.drain()
        if failures:
            raise failures[0]

    def revive(self) -> None:
        """The worker is started again under its name."""
        with self.pool.connection() as connection:
            holder = instances.register_instance(connection, "Worker01")
        self.place = replace(self.place, holder=holder)

    def job(self, job_id: int) -> BackfillDetails:
        with self.pool.connection() as connection:
            return show_backfill(connection, job_id=job_id)

    def decide(self, job_id: int, decision: backfills.BackfillDecision) -> None:
        with self.pool.connection() as connection:
            backfills.decide_backfill(connection, job_id, decision, reason="test", by="ada")

    def numbers(self) -> list[Answered]:
        """What is answered, a row twice where it counts twice."""
        subjects = self.rows("select distinct subject_key from disarray.segment order by 1")
        with self.pool.connection() as connection:
            return sorted(
                (str(subject), row["id"], row["event_time"], row["watts"])
                for (subject,) in subjects
                for part in readings(
                    connection,
                    self.place.lake,
                    dataset=self.datasets["historian"],
                    subject_key=str(subject),
                )
                for row in part.to_pylist()
            )

    def table(self) -> list[Answered]:
        """What the table says."""
        found = self.rows("select tool, id, at, watts from public.readings where tool <> ''")
        return sorted(found)  # type: ignore[arg-type]

    def everything(self) -> dict[str, list[tuple[object, ...]]]:
        """All that a resync which changes nothing leaves as it is."""
        return {
            **self.derived(),
            "fragments": self.rows(
                "select source_uri, segment_us, state from disarray.fragment order by 1, 2"
            ),
            "deliveries": self.rows("select source_uri, superseded_at from disarray.delivery order by 1"),
            "files": self.rows("select source_uri, status from disarray.file_info order by 1"),
        }
