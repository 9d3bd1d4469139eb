"""A table that is there already comes in by chunks of its key: every row version once, whoever writes meanwhile."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from disarray.control import audit_intake, instances, sources
from disarray.engine.runner import InProcessRunner, SparkRunner
from disarray.errors import LeaseLostError, SourceLayoutError
from disarray.model.description.table_source import InitialLoad, SourceUrl, Start, UrlOrigin
from disarray.sources import load_plan
from disarray.sources.chunk_extract import extract_chunks
from disarray.sources.table_session import open_session
from disarray.worker.process.initial_loading import load_all
from disarray.worker.process.pulling import pull_all
from tests.sources.loaded_plant import NOON, BusyRunner, LoadedPlant
from tests.sources.table_history import Writers, make_table, reader_url, table_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from disarray.model.description.table_source import TableSource
    from disarray.sources.initial_load import LoadRound

STEPS = 40
EXACT = ("timestamp", "sequence", "cached sequence", "snapshot")
# One history of each way to divide a table before every pull request; the rest with `make test-all`.
SHORT = [("timestamp", 0), ("snapshot", 1)]
HISTORIES = [
    pytest.param(kind, seed, marks=() if (kind, seed) in SHORT else pytest.mark.long)
    for kind in EXACT
    for seed in range(12)
]


@pytest.fixture
def admin(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection[Any]]:
    monkeypatch.setenv("HISTORIAN_URL", reader_url(dsn))
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def make_plant(
    tmp_path: Path, dsn: str, admin: psycopg.Connection[Any]
) -> Iterator[Callable[..., LoadedPlant]]:
    made: list[LoadedPlant] = []

    def make(watermark: str = "timestamp", *, limit: int = 5) -> LoadedPlant:
        make_table(dsn, cache=5 if watermark == "cached sequence" else 1)
        made.append(LoadedPlant(tmp_path, dsn, watermark=watermark, limit=limit))
        return made[-1]

    yield make
    for plant in made:
        plant.pool.close()


@pytest.mark.parametrize(("watermark", "seed"), HISTORIES)
def test_with_writers_beside_the_load_every_version_comes_once_and_the_newest_counts(
    make_plant: Callable[..., LoadedPlant],
    dsn: str,
    admin: psycopg.Connection[Any],
    watermark: str,
    seed: int,
) -> None:
    chance = random.Random(seed)
    plant = make_plant(watermark, limit=chance.choice([3, 5, 1000]))
    plant.fill(chance.choice([1, 17, 30]))
    writers = Writers(dsn, chance)
    writers.versions = 1000.0  # no version is called like a row that was there
    for _ in range(STEPS // 3):
        writers.step()  # some of them are open when the load begins
    plant.runner.between = writers.step
    plant.pull()
    for _ in range(STEPS):
        action = chance.choices([writers.step, plant.pull, plant.load], [4, 1, 2])[0]
        action()
    writers.end()
    plant.runner.between = lambda: None
    for _ in range(3):
        plant.load_to_the_end()
        plant.pull()
    assert plant.load_record().state == "done"
    versions = plant.delivered()
    assert dict(versions) == table_rows(admin)
    assert len(versions) == len(set(versions)), "a version came twice"
    assert (plant.pull(), plant.load()) == (0, None), "nothing changed, and something came"
    assert plant.state().rows_taken == len(versions)
    writers.close()


def test_a_transaction_from_before_the_load_is_waited_for_and_its_rows_are_found_then(
    make_plant: Callable[..., LoadedPlant], dsn: str, admin: psycopg.Connection[Any]
) -> None:
    plant = make_plant(limit=5)
    plant.fill(20)
    with psycopg.connect(dsn) as late:
        late.execute(
            f"""
            insert into public.readings (id, tool, at, watts, updated_at)
            values (0, 'TOOL00', '{NOON}', 0.5, now() - interval '30 min'),
                (500, 'TOOL00', '{NOON}', 0.25, now() - interval '30 min')
            """.encode()
        )
        plant.pull()
        plant.load_to_the_end()
        record = plant.load_record()
        assert (record.state, record.rows_taken, record.open_transactions) == ("running", 20, 1)
        assert plant.pull() == 0
    assert [found.is_done for found in plant.load_to_the_end()][-1]
    assert dict(plant.delivered()) == table_rows(admin)
    assert len(plant.delivered()) == 22


def test_a_row_that_changes_without_its_cursor_before_its_chunk_is_read_is_not_lost(
    make_plant: Callable[..., LoadedPlant], admin: psycopg.Connection[Any]
) -> None:
    plant = make_plant("sequence", limit=5)
    plant.fill(20)
    plant.pull()
    plant.load()
    # Neither moves the cursor; the second writes every row of the table anew.
    plant.execute("update public.readings set watts = -1 where id = 20")
    plant.execute("alter table public.readings add filled timestamptz default clock_timestamp()")
    plant.pull()
    plant.load_to_the_end()
    assert dict(plant.delivered()) == table_rows(admin)
    assert len(plant.delivered()) == 20


def test_a_version_that_the_watermark_took_wins_over_the_older_one_of_a_chunk(
    make_plant: Callable[..., LoadedPlant],
) -> None:
    plant = make_plant(limit=1000)
    plant.fill(3)
    plant.pull()

    def change_after_the_snapshot(task: Any) -> Any:
        # The chunk has read the old version; the watermark takes and commits the new one before the chunk does.
        found = extract_chunks(task)
        plant.execute("update public.readings set watts = 99, updated_at = now() where id = 2")
        assert plant.pull() == 1
        return found

    class Late(BusyRunner):
        def run(self, kernel: Any, tasks: Any) -> list[Any]:
            return [change_after_the_snapshot(task) for task in tasks]

    plant.runner = Late()
    plant.load()
    plant.drain()
    assert plant.delivered() == [(3, 3.0), (1, 1.0), (2, 2.0), (2, 99.0)]
    assert plant.total("TOOL02") == 99


def test_a_chunk_that_came_to_hold_too_much_is_read_in_parts(
    make_plant: Callable[..., LoadedPlant], dsn: str, admin: psycopg.Connection[Any]
) -> None:
    plant = make_plant(limit=2)
    plant.fill(1)
    plant.fill(2, first=10)
    with psycopg.connect(dsn) as late:
        late.execute(
            f"""
            insert into public.readings (id, tool, at, watts, updated_at)
            select n, 'TOOL00', '{NOON}', n, now() - interval '30 min' from generate_series(2, 6) as n
            """.encode()
        )
        plant.pull()
        # Five rows more come into the first chunk, which ends at the second row, after it was cut.
        plant.runner.between = late.commit
        plant.load()
    plant.runner.between = lambda: None
    plant.load_to_the_end()
    record = plant.load_record()
    assert (record.state, record.chunks_cut) == ("done", 5)
    assert sorted(plant.delivered()) == sorted(table_rows(admin).items())


def test_two_loaders_share_the_chunks_and_one_that_lost_its_chunk_commits_nothing(
    make_plant: Callable[..., LoadedPlant],
) -> None:
    plant = make_plant(limit=5)
    plant.fill(30)
    plant.pull()
    with plant.pool.connection() as connection:
        other = instances.register_instance(connection, "Other")
    rival = replace(plant.loader, holder=other, runner=InProcessRunner())
    taken: list[LoadRound | None] = []

    def meanwhile() -> None:
        plant.runner.between = lambda: None
        taken.append(rival.load_round(rival.sources[0]))
        # The lease of the first ran out while it read, and another took over.
        plant.execute(
            "update disarray.source_chunk set lease_expires_at = disarray.clock() where state = 'claimed'"
        )
        taken.append(rival.load_round(rival.sources[0]))

    plant.runner.between = meanwhile
    with pytest.raises(LeaseLostError):
        plant.load()
    assert [found and found.rows for found in taken] == [10, 10]
    plant.execute("update disarray.source_load set next_round_at = disarray.clock()")
    plant.load_to_the_end()
    versions = plant.delivered()
    assert sorted(versions) == [(number, float(number)) for number in range(1, 31)]
    assert plant.load_record().rows_taken == 30


def test_a_reset_gives_the_load_up_and_a_pause_holds_it(make_plant: Callable[..., LoadedPlant]) -> None:
    plant = make_plant(limit=5)
    plant.fill(20)
    plant.pull()

    def decide(decision: sources.SourceDecision, watermark: dict[str, Any] | None = None) -> None:
        with plant.pool.connection() as connection:
            sources.decide_source(
                connection, "historian", "public.readings", decision, reason="t", by="t", watermark=watermark
            )

    decide(sources.SourceDecision.PAUSED)
    assert plant.load() is None
    decide(sources.SourceDecision.RESUMED)
    assert plant.load() is not None
    decide(sources.SourceDecision.RESET, {"kind": "timestamp", "at": "now"})
    assert plant.load() is None
    assert plant.load_record().state == "abandoned"
    assert plant.pull() == 0
    decide(sources.SourceDecision.RESET, {"kind": "timestamp", "at": "beginning"})
    plant.pull()
    plant.load_to_the_end()
    assert set(plant.delivered()) == {(number, float(number)) for number in range(1, 21)}


def test_a_column_that_vanishes_stops_the_load_and_what_was_delivered_stays(
    make_plant: Callable[..., LoadedPlant],
) -> None:
    plant = make_plant(limit=5)
    plant.fill(20)
    plant.pull()
    plant.load()
    plant.execute("alter table public.readings alter watts type numeric")
    with pytest.raises(SourceLayoutError, match="watts was of type float8 and is of type numeric"):
        plant.load()
    record = plant.load_record()
    assert (record.rows_taken, record.failure_count) == (10, 1)
    assert plant.load() is None, "it is due again later"
    plant.execute("alter table public.readings alter watts type float8")
    plant.execute("update disarray.source_load set next_round_at = disarray.clock()")
    plant.load_to_the_end()
    assert sorted(plant.delivered()) == [(number, float(number)) for number in range(1, 21)]


def test_up_once_takes_a_table_in_by_its_load_and_what_came_since_by_its_watermark(
    make_plant: Callable[..., LoadedPlant],
) -> None:
    plant = make_plant("buffer", limit=7)
    plant.fill(30)
    plant.execute("update public.readings set updated_at = now() where id > 25")
    stop = threading.Event()
    assert pull_all(plant.puller, stop) == (5, {})
    assert load_all(plant.loader, stop) == (25, {})
    plant.drain()
    assert sum(plant.total(f"TOOL0{number}") for number in range(3)) == sum(range(1, 31))
    assert (plant.pull(), plant.load()) == (0, None)


def test_by_itself_only_a_large_table_whose_key_has_an_index_is_loaded(
    make_plant: Callable[..., LoadedPlant], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = make_plant(limit=5)
    plant.fill(3000)
    plant.execute("analyze public.readings")
    [dataset] = plant.datasets.values()
    source = replace(plant.place.sources[0], initial_load=InitialLoad.AUTO)
    with open_session(source.url, source_name="historian", timeout_us=source.timeout_us) as session:

        def is_loaded(described: TableSource, watermark: dict[str, Any] | None = None) -> bool:
            return load_plan.plan_load(session, described, dataset, watermark) is not None

        assert not is_loaded(source), "it is small"
        monkeypatch.setattr(load_plan, "FEWEST_ROWS", 2000)
        assert is_loaded(source)
        assert is_loaded(source, {"kind": "timestamp", "at": "beginning"}), "it was reset"
        assert not is_loaded(source, {"kind": "timestamp", "settled": None}), "it is under way"
        assert not is_loaded(replace(source, key=("watts",)))
        assert not is_loaded(replace(source, at=Start.NOW))
        assert not is_loaded(replace(source, initial_load=InitialLoad.NEVER))


def test_an_audit_adds_up_batches_of_a_load_and_finds_a_chunk_that_is_gone(
    make_plant: Callable[..., LoadedPlant],
) -> None:
    plant = make_plant(limit=5)
    plant.fill(20)
    plant.pull()
    plant.load_to_the_end()
    with plant.pool.connection() as connection:
        assert [found.rule for found in audit_intake.audit_deliveries(connection, limit=10)] == []
        connection.execute("delete from disarray.source_chunk where chunk_no = 2")
        [found] = audit_intake.audit_deliveries(connection, limit=10)
    assert found.detail == "20 rows counted, 15 in its chunks; 1 chunks begin where none ends"


@pytest.mark.spark
def test_chunks_are_read_by_tasks_of_spark_and_their_deliveries_wait_behind_live_work(
    make_plant: Callable[..., LoadedPlant], dsn: str, tmp_path: Path, spark_session: SparkSession
) -> None:
    plant = make_plant(limit=5)
    plant.fill(20)
    plant.pull()
    # The processes of Spark began before this test, and have their own environment.
    secret = tmp_path / "url"
    secret.write_text(reader_url(dsn))
    [source] = plant.place.sources
    source = replace(source, url=SourceUrl(UrlOrigin.FILE, str(secret)))
    loader = replace(plant.loader, runner=SparkRunner(spark_session), chunks_of_a_task=2)
    rounds = [loader.load_round(source) for _ in range(2)]
    assert [found and (found.chunks, found.rows) for found in rounds] == [(4, 20), (0, 0)]
    assert sorted(plant.delivered()) == [(number, float(number)) for number in range(1, 21)]
    lanes = plant.rows("select lane::text, count(*) from disarray.ingest_queue group by lane")
    assert [lane for lane, _ in lanes] == ["backfill"]
    plant.drain()
    assert sum(plant.total(f"TOOL0{number}") for number in range(3)) == sum(range(1, 21))
