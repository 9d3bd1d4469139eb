"""Delta tables in a bucket of a real S3 server: as right as those in a folder, and what goes wrong is told."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from uuid import uuid4

import duckdb
import pytest

from disarray.control import destinations, instances
from disarray.errors import DestinationMisfitError, DestinationUnavailableError
from disarray.sinks.destination_delta_store import open_store
from disarray.sinks.destination_shape import shape_of
from tests.sinks.destination_history import LINE, Definition, DestinationHistory
from tests.sinks.destination_plant import DestinationPlant
from tests.sinks.object_store import ACCESS, KEYS, SECRET, ObjectStore
from tests.worker.deliveries import deliveries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

QUARTER = '\n[[destination]]\nname = "quarter"\nrollup = "line.quarter"\n'


@pytest.fixture
def build(tmp_path: Path, dsn: str, target_dsn: str) -> Iterator[Callable[[str], DestinationPlant]]:
    built: list[DestinationPlant] = []

    def make(description: str) -> DestinationPlant:
        built.append(DestinationPlant(tmp_path, dsn, description=description, target_dsn=target_dsn))
        return built[-1]

    yield make
    for plant in built:
        plant.pool.close()


@pytest.mark.parametrize("seed", [11, 4])
def test_whatever_arrives_the_table_in_the_bucket_is_what_is_answered(
    build: Callable[[str], DestinationPlant], object_store: ObjectStore, seed: int
) -> None:
    definition = Definition("delta", "replace", bucket=object_store.target(f"{uuid4()}/<path>"))
    DestinationHistory(build(definition.text()), definition, seed).run()


def test_two_loaders_at_once_lose_no_commit(
    build: Callable[[str], DestinationPlant], object_store: ObjectStore
) -> None:
    plant = build(LINE + QUARTER + object_store.target(str(uuid4())))
    text = deliveries(3)[0].text
    for number in range(8):
        plant.ingest(plant.write(f"L{number}/all.csv", text))
    loaders = []
    for name in "Loader01", "Loader02":
        with plant.pool.connection() as connection:
            holder = instances.register_instance(connection, name)
        loaders.append(plant.make_loaders()["quarter"])
        object.__setattr__(loaders[-1], "holder", holder)
    threads = [threading.Thread(target=lambda each=each: list(each.load_due())) for each in loaders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with plant.pool.connection() as connection:
        connection.execute("update disarray.test_clock set ahead = ahead + interval '1 hour'")
    plant.load()
    assert plant.differences() == {}
    assert len({row[0] for row in plant.target_rows(plant.loaders["quarter"].destination)}) == 8


def test_duckdb_reads_from_the_bucket_what_is_answered(
    build: Callable[[str], DestinationPlant], object_store: ObjectStore
) -> None:
    plant = build(LINE + QUARTER + object_store.target(str(uuid4())))
    for each in deliveries(3):
        plant.ingest(plant.write(each.name, each.text))
    plant.load()
    plant.loaders["quarter"].vacuum()
    destination = plant.loaders["quarter"].destination
    table = open_store(destination.target).open().to_pyarrow_dataset()  # type: ignore[arg-type]
    with duckdb.connect() as database:
        database.register("quarter", table)
        [(rows, total)] = database.execute("select count(*), sum(total) from quarter").fetchall()
    at = shape_of(destination).schema.names.index("total")
    answered = plant.answered_rows(destination)
    assert rows == len(answered) > 0
    assert total == pytest.approx(sum(float(str(row[at])) for row in answered if row[at] is not None))


@pytest.mark.parametrize(
    ("keys", "bucket", "message"),
    [
        (("LOADERKEYID", "some-wrong-secret"), "plant", "refuses the keys of environment .*SignatureDoes"),
        (("UNKNOWNKEYID", "some-wrong-secret"), "plant", "refuses the keys .*InvalidAccessKeyId"),
        (KEYS["reader"], "plant", "refuses the keys .*AccessDenied"),
        (KEYS["loader"], "missing", "there is no bucket missing .* Nothing was loaded. Create the bucket"),
    ],
)
def test_what_the_server_refuses_is_told_without_the_keys(
    build: Callable[[str], DestinationPlant],
    object_store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    keys: tuple[str, str],
    bucket: str,
    message: str,
) -> None:
    plant = build(LINE + QUARTER + object_store.target(str(uuid4()), bucket))
    plant.ingest(plant.write("L1/all.csv", deliveries(3)[0].text))
    for variable, value in zip((ACCESS, SECRET), keys, strict=True):
        monkeypatch.setenv(variable, value)
    with pytest.raises(DestinationMisfitError, match=message):
        plant.load()
    with plant.pool.connection() as connection:
        [state] = destinations.list_destinations(connection)
    assert (state.state, state.lag_commits) == ("failing", 1)
    for secret in keys:
        assert secret not in repr(state)


def test_a_server_that_is_killed_and_comes_back_is_caught_up_with(
    build: Callable[[str], DestinationPlant], object_store: ObjectStore
) -> None:
    plant = build(LINE + QUARTER + object_store.target(str(uuid4())))
    first, second, *_ = (each for each in deliveries(4) if each.name.startswith("L1/"))
    plant.ingest(plant.write(first.name, first.text))
    plant.load()
    loader = plant.loaders["quarter"]
    object_store.kill()
    try:
        plant.ingest(plant.write(second.name, second.text))
        with pytest.raises(DestinationUnavailableError, match="does not answer"), loader.breaker.guard():
            list(loader.load_due())
        assert loader.breaker.retry_in > 0
        with plant.pool.connection() as connection:
            [state] = destinations.list_destinations(connection)
        assert (state.state, state.lag_commits) == ("failing", 1)
    finally:
        object_store.start()
    [report] = loader.load_due()
    assert report.commits == 1
    assert plant.differences() == {}
