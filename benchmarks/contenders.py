"""The three queues behind one face: each through its own Python API, on one connection, at the level of its worker.

The rivals run at their fastest: autocommit, no check of the connection before each call, no lock and no
deduplication key, their history kept as they keep it by default. Ours does all that it always does.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol

import procrastinate
import psycopg
import psycopg_pool
from pgqueuer.domain.types import QueueEntrypoint, QueueManagerId
from pgqueuer.ports.repository import EntrypointExecutionParameter
from pgqueuer.queries import Queries
from procrastinate.jobs import Job as ProcrastinateJob
from procrastinate.jobs import Status

from disarray.control import claim_ends, claims, connections, files, instances, migrations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgqueuer.models import Job as PgQueuerJob

TASK = "ingest"


@dataclass(frozen=True)
class Job:
    """One file notification; what it says is the same bytes for all."""

    source_uri: str
    subject_key: str
    metadata: dict[str, Any]

    @property
    def payload(self) -> dict[str, Any]:
        """All of it as one object, for queues that know neither uris nor subjects."""
        return {"source_uri": self.source_uri, "subject_key": self.subject_key, **self.metadata}


class Contender(Protocol):
    """A queue under test; ``claim`` hands out what ``complete`` takes."""

    name: str
    version: str
    backend_pid: int  # of the one connection

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Queue the jobs in as few calls as the library allows."""

    async def claim(self, limit: int) -> list[Any]:
        """Take up to ``limit`` jobs, payload decoded."""

    async def complete(self, claimed: list[Any]) -> None:
        """End them as done."""

    async def close(self) -> None:
        """Let the connection go."""


class Disarray:
    """Ours: files, subjects, leases and the event log included."""

    name = "disarray"

    def __init__(self, dsn: str, *, items_per_subject: int) -> None:
        self.version = version("disarray-pipeline")
        self._items_per_subject = items_per_subject
        self._connection = connections.connect(dsn)
        self.backend_pid = self._connection.info.backend_pid
        migrations.migrate(self._connection)
        self._holder = instances.register_instance(self._connection, "Bench")

    @classmethod
    async def open(cls, dsn: str) -> Disarray:
        """With batches that take a hundred files of each subject."""
        return cls(dsn, items_per_subject=100)

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """One round trip for the batch."""
        files.enqueue_files(
            self._connection,
            [files.Notification(job.source_uri, job.subject_key, metadata=job.metadata) for job in jobs],
        )

    async def claim(self, limit: int) -> list[Any]:
        """One round trip for the batch."""
        policy = claims.FetchPolicy(limit=limit, max_subjects=max(1, limit // self._items_per_subject))
        return list(claims.fetch_items(self._connection, self._holder, policy))

    async def complete(self, claimed: list[Any]) -> None:
        """One round trip for the batch."""
        claim_ends.complete_items(self._connection, [item.queue_id for item in claimed], self._holder)

    async def close(self) -> None:
        """Close the one connection."""
        self._connection.close()


class Procrastinate:
    """Batches on the way in; its worker fetches and finishes jobs one by one."""

    name = "procrastinate"

    def __init__(
        self,
        app: procrastinate.App,
        pool: psycopg_pool.AsyncConnectionPool[Any],
        worker_id: int,
        backend_pid: int,
    ) -> None:
        self.version = version("procrastinate")
        self._app = app
        self._pool = pool
        self._worker_id = worker_id
        self.backend_pid = backend_pid

    @classmethod
    async def open(cls, dsn: str) -> Procrastinate:
        """Install the schema and register a worker, as its own worker does when it starts."""
        pool: psycopg_pool.AsyncConnectionPool[Any] = psycopg_pool.AsyncConnectionPool(
            dsn, min_size=1, max_size=1, open=False, kwargs={"autocommit": True}
        )
        await pool.open(wait=True)
        app = procrastinate.App(connector=procrastinate.PsycopgConnector())
        await app.open_async(pool)
        await app.schema_manager.apply_schema_async()
        async with pool.connection() as connection:
            backend_pid = connection.info.backend_pid
        return cls(app, pool, await app.job_manager.register_worker(), backend_pid)

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """One round trip for the batch."""
        await self._app.job_manager.batch_defer_jobs_async(
            [
                ProcrastinateJob(
                    queue="default", lock=None, queueing_lock=None, task_name=TASK, task_kwargs=job.payload
                )
                for job in jobs
            ]
        )

    async def claim(self, limit: int) -> list[Any]:
        """A round trip for each job: there is no other way."""
        claimed: list[ProcrastinateJob] = []
        while len(claimed) < limit:
            job = await self._app.job_manager.fetch_job(queues=None, worker_id=self._worker_id)
            if job is None:
                break
            claimed.append(job)
        return claimed

    async def complete(self, claimed: list[Any]) -> None:
        """A round trip for each job: there is no other way."""
        for job in claimed:
            await self._app.job_manager.finish_job(job, Status.SUCCEEDED, delete_job=False)

    async def close(self) -> None:
        """Close the pool of one."""
        await self._pool.close()


class PgQueuer:
    """Batches all the way, of any size."""

    name = "PgQueuer"

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self.version = version("pgqueuer")
        self._connection = connection
        self.backend_pid = connection.info.backend_pid
        self._queries = Queries.from_psycopg_connection(connection)
        self._manager_id = QueueManagerId(uuid.uuid4())
        self._entrypoints = {QueueEntrypoint(TASK): EntrypointExecutionParameter(concurrency_limit=0)}

    @classmethod
    async def open(cls, dsn: str) -> PgQueuer:
        """Install the schema, all tables durable as is its default, with the autovacuum settings that it recommends."""
        contender = cls(await psycopg.AsyncConnection.connect(dsn, autocommit=True))
        await contender._queries.install()
        await contender._queries.optimize_autovacuum()
        return contender

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """One round trip for the batch."""
        await self._queries.enqueue(
            [TASK] * len(jobs), [json.dumps(job.payload).encode() for job in jobs], [0] * len(jobs)
        )

    async def claim(self, limit: int) -> list[Any]:
        """One round trip for the batch."""
        claimed: list[PgQueuerJob] = await self._queries.dequeue(
            batch_size=limit,
            entrypoints=self._entrypoints,
            queue_manager_id=self._manager_id,
            global_concurrency_limit=None,
            heartbeat_timeout=timedelta(seconds=30),
        )
        return [(job, json.loads(job.payload or b"null")) for job in claimed]

    async def complete(self, claimed: list[Any]) -> None:
        """One round trip for the batch."""
        await self._queries.log_jobs([(job, "successful", None) for job, _ in claimed])

    async def close(self) -> None:
        """Close the one connection."""
        await self._connection.close()
