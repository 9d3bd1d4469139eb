"""The kind `republish`: a destination is loaded anew in chunks of subjects, and compared with what is answered."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from deltalake import DeltaTable

from disarray.backfill.chunk_worker import ChunkWorker
from disarray.backfill.job_file import parse_spec
from disarray.backfill.job_session import open_job
from disarray.backfill.serving_jobs import JobServer
from disarray.backfill.starting import plan_backfill, start_backfill
from disarray.config import default_config
from disarray.control import backfill_chunks, backfills, destinations
from disarray.engine.runner import InProcessRunner
from disarray.sinks import destination_pieces
from disarray.sinks.destination_loader import LoaderSettings
from disarray.sinks.destination_shape import shape_of
from disarray.sinks.destination_targets import definition_of
from disarray.worker.process.backfill_kinds import WorkerKinds
from tests.backfill.test_killed_backfills import live
from tests.sinks.destination_history import LINE
from tests.sinks.destination_plant import URL, DestinationPlant
from tests.worker.deliveries import deliveries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from disarray.backfill.description import BackfillSpec
    from disarray.control.backfills import BackfillRecord

pytestmark = pytest.mark.postgres

OTHER = f'url = {{ env = "{URL}" }}'
DESTINATIONS = f"""
[[destination]]
name = "shift"
rollup = "line.shift"
database = "same"
table = "published.shift"
load = "upsert"
create = true

[[destination]]
name = "energy"
metric = "line.energy"
every = "1 h"
{OTHER}
table = "published.energy"
load = "replace"
create = true

[[destination]]
name = "newest"
newest = "line"
{OTHER}
table = "published.newest"
load = "append"
create = true

[[destination]]
name = "lines"
readings = "line"
delta = "published"

[[destination]]
name = "other_lines"
readings = "line"
{OTHER}
table = "published.lines"
load = "replace"
create = true
"""
SUBJECTS = ["L1", "L2", "L3"]
# What somebody does to the rows of L2 in each target.
TAMPER = {
    "shift": "update published.shift set readings = readings + 1 where subject_key = 'L2'",
    "energy": "delete from published.energy where subject_key = 'L2'",
    "other_lines": "delete from published.lines where subject_key = 'L2' and ordinal = 0",
    "newest": "update published.newest set at = at + interval '1 s' where subject_key = 'L2'",
}


class RepublishPlant(DestinationPlant):
    """Three lines with the same readings, published into four targets."""

    def kinds(self) -> WorkerKinds:
        found = tuple(loader.destination for loader in self.loaders.values())
        return WorkerKinds(replace(self.place, destinations=found), self.dsn)

    def start(self, destination: str, **processing: object) -> int:
        spec = republish_of(destination, **processing)
        return start_backfill(self.dsn, spec, reason="test", by="ada", open_kind=self.kinds())

    def run(self, job_id: int) -> BackfillRecord:
        server = JobServer(dsn=self.dsn, holder=self.place.holder, lease_seconds=60, open_kind=self.kinds())
        server.run_job(job_id, threading.Event(), threads=2)
        return self.job(job_id)

    def verify(self, job_id: int) -> BackfillRecord:
        job = self.job(job_id)
        with open_job(
            self.dsn,
            job_id,
            job_key=job.job_key,
            kind=job.kind,
            description=job.description,
            lease_seconds=60,
            open_kind=self.kinds(),
        ) as session:
            assert ChunkWorker(session, self.place.holder, lease_seconds=60).verify(is_asked_for=True)
        return self.job(job_id)

    def job(self, job_id: int) -> BackfillRecord:
        with self.pool.connection() as connection:
            [job] = backfills.list_backfills(connection, job_id=job_id)
        return job

    def tamper(self, destination: str) -> None:
        if destination == "lines":
            DeltaTable(str(self.root / "published")).delete("subject_key = 'L2' and ordinal = 0")
            return
        dsn = self.dsn if destination == "shift" else self.target_dsn
        with psycopg.connect(dsn, autocommit=True) as connection:
            assert connection.execute(TAMPER[destination].encode()).rowcount > 0


class Counting(InProcessRunner):
    """Runs kernels here, and counts their tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: Counter[str] = Counter()

    def run(self, kernel: Any, tasks: Sequence[Any]) -> list[Any]:
        self.kernels[kernel.__name__] += len(tasks)
        return super().run(kernel, tasks)

    def beside(self, pool: str) -> Counting:
        return self


class Broken(InProcessRunner):
    """Fails as Spark does when its jobs are cancelled."""

    def run(self, kernel: Any, tasks: Sequence[Any]) -> list[Any]:
        raise RuntimeError("Job 3 cancelled as part of cancellation of all jobs")

    def beside(self, pool: str) -> Broken:
        return self


def republish_of(destination: str, **processing: object) -> BackfillSpec:
    document = {
        "name": f"again_{destination}",
        "kind": "republish",
        "republish": {"destination": destination},
        "processing": processing,
    }
    return parse_spec(document, shown="job.toml", config=default_config())


@pytest.fixture
def plant(tmp_path: Path, dsn: str, target_dsn: str) -> Iterator[RepublishPlant]:
    built = RepublishPlant(tmp_path, dsn, description=LINE + DESTINATIONS, target_dsn=target_dsn)
    text = deliveries(3)[0].text
    built.ingest(*(built.write(f"{subject}/a.csv", text) for subject in SUBJECTS))
    built.load()
    yield built
    built.pool.close()


def test_what_somebody_changed_in_any_target_is_put_right_and_found_when_it_comes_again(
    plant: RepublishPlant,
) -> None:
    for name in plant.loaders:
        plant.tamper(name)
    assert set(plant.differences()) == set(plant.loaders)
    ended: dict[str, int] = {}
    for name in plant.loaders:
        job = plant.run(plant.start(name, max_batch_size=1))
        ended[name] = job.job_id
        assert (job.verdict, job.rows_done, job.chunks_done) == ("verified", 3, 3), job.verdict_details
    assert plant.differences() == {}
    for name in plant.loaders:
        plant.tamper(name)
        job = plant.verify(ended[name])
        assert job.verdict == "failed", name
        assert job.verdict_details is not None
        [sentence] = job.verdict_details["failed"]
        assert "chunk 2: subject L2: the target has" in sentence


def test_many_readings_are_compared_by_tasks_and_what_somebody_changed_is_found(
    plant: RepublishPlant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(destination_pieces, "PIECE_READINGS", 5)
    tasks = Counting()
    plant.place = replace(plant.place, runner=tasks, loader_settings=LoaderSettings(cut_readings=1))
    job = plant.run(plant.start("lines"))
    assert (job.verdict, tasks.kernels["sum_piece"] > len(SUBJECTS)) == ("verified", True)
    plant.tamper("lines")
    job = plant.verify(job.job_id)
    assert job.verdict_details is not None
    [sentence] = job.verdict_details["failed"]
    assert "subject L2: the target has" in sentence


@pytest.mark.parametrize("is_over", [True, False])
def test_tasks_that_are_broken_off_cost_an_attempt_only_where_the_process_goes_on(
    plant: RepublishPlant, is_over: bool
) -> None:
    plant.place = replace(plant.place, runner=Broken(), loader_settings=LoaderSettings(cut_readings=1))
    job_id = plant.start("other_lines", retry_policy={"backoff": "0 s"})
    job = plant.job(job_id)
    with open_job(
        plant.dsn,
        job_id,
        job_key=job.job_key,
        kind=job.kind,
        description=job.description,
        lease_seconds=60,
        open_kind=replace(plant.kinds(), is_over=lambda: is_over),
    ) as session:
        ChunkWorker(session, plant.place.holder, lease_seconds=60).step()
    with plant.pool.connection() as connection:
        [chunk, *_] = backfill_chunks.list_backfill_chunks(connection, job_id)
    assert (chunk.state, chunk.attempts) == ("waiting", 0 if is_over else 1)


def test_a_plan_counts_subjects_and_loads_nothing(plant: RepublishPlant) -> None:
    plant.tamper("energy")
    plan = plan_backfill(plant.dsn, republish_of("energy"), open_kind=plant.kinds())
    assert (plan.rows, plan.chunks, plan.sample, plan.target) == (3, 3, None, "destination energy")
    assert set(plant.differences()) == {"energy"}


def test_a_destination_that_is_paused_stops_the_job_and_says_how_to_go_on(plant: RepublishPlant) -> None:
    with plant.pool.connection() as connection:
        destinations.decide_destination(connection, "energy", "paused", reason="it moves", by="ada")
    job_id = plant.start("energy")
    job = plant.run(job_id)
    assert (job.state, job.chunks_done) == ("stopped", 0)
    assert "destination 'energy' is paused. Nothing was claimed. disarray sink resume energy" in str(
        job.state_reason
    )
    with plant.pool.connection() as connection:
        destinations.decide_destination(connection, "energy", "resumed", reason="moved", by="ada")
        backfills.decide_backfill(
            connection, job_id, backfills.BackfillDecision.RESUMED, reason="moved", by="ada"
        )
    assert plant.run(job_id).verdict == "verified"


def test_a_subject_that_another_loads_now_is_waited_for_and_costs_no_attempt(plant: RepublishPlant) -> None:
    loader = plant.loaders["energy"]
    with plant.pool.connection() as connection:
        turn = destinations.claim_destination_subject(
            connection,
            "energy",
            "L1",
            plant.place.holder,
            lease_seconds=60,
            definition=definition_of(loader.destination, shape_of(loader.destination)),
        )
    assert turn is not None
    job_id = plant.start("energy", retry_policy={"backoff": "0 s"})
    job = plant.job(job_id)
    with open_job(
        plant.dsn,
        job_id,
        job_key=job.job_key,
        kind=job.kind,
        description=job.description,
        lease_seconds=60,
        open_kind=plant.kinds(),
    ) as session:
        ChunkWorker(session, plant.place.holder, lease_seconds=60).step()
    with plant.pool.connection() as connection:
        [chunk, *_] = backfill_chunks.list_backfill_chunks(connection, job_id)
        assert (chunk.state, chunk.attempts) == ("waiting", 0)
        assert "is being loaded by another" in str(chunk.last_error)
        destinations.advance_destination(connection, turn, rows_loaded=0, rows_deleted=0, seconds=0.1)
    assert plant.run(job_id).verdict == "verified"


def test_a_process_killed_between_a_load_and_its_end_loads_it_again_and_ends_verified(
    plant: RepublishPlant,
) -> None:
    plant.tamper("energy")
    job_id = plant.start("energy", max_batch_size=1, max_concurrency=1, retry_policy={"backoff": "0 s"})
    for hit in (2, 1):
        armed = f"backfill.republished=kill@{hit}"
        more = {URL: plant.target_dsn, "DISARRAY_LAKE_ROOT": str(plant.root / "lake")}
        assert live(plant.dsn, plant.root, job_id, armed=armed, **more) == -signal.SIGKILL
    assert live(plant.dsn, plant.root, job_id, **more) == 0
    assert (plant.job(job_id).verdict, plant.differences()) == ("verified", {})
