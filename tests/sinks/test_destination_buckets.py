"""Delta tables in a bucket of a real S3 server: as right as those in a folder, and what goes wrong is told."""

from __future__ import annotations

import signal
import socket
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from disarray.control import destinations, instances
from disarray.errors import DestinationMisfitError, DestinationUnavailableError
from disarray.model.description.destination import BucketAccess, DeltaTarget
from disarray.model.description.secret import SecretSource
from disarray.sinks import destination_bucket_probe, destination_delta
from disarray.sinks.destination_delta_log import trim_log
from disarray.sinks.destination_delta_store import open_store
from disarray.sinks.destination_shape import shape_of
from tests.sinks.careless_store import Silence, careless_store, silence
from tests.sinks.destination_history import LINE, Definition, DestinationHistory
from tests.sinks.destination_plant import DestinationPlant
from tests.sinks.object_store import ACCESS, KEYS, SECRET, ObjectStore
from tests.sinks.test_destination_faults import LOADERS, load_once
from tests.worker.deliveries import deliveries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from disarray.sinks.destination_delta_store import DeltaStore

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
        (
            ("LOADERKEYID", "some-wrong-secret"),
            "plant",
            "refuses the keys of the environment variable .*SignatureDoes",
        ),
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


def careless_target(endpoint: str) -> str:
    return (
        f'delta = "s3://plant/{uuid4()}"\nendpoint = "{endpoint}"\n'
        f'access_key = {{ env = "{ACCESS}" }}\nsecret_key = {{ env = "{SECRET}" }}'
    )


def load_together(plant: DestinationPlant) -> None:
    """Two loaders, each with a subject of its own, commit the same version of the table at the same moment."""
    for number in range(2):
        plant.ingest(plant.write(f"L{number}/all.csv", deliveries(3)[0].text))
    threads = []
    for name in "Loader01", "Loader02":
        with plant.pool.connection() as connection:
            holder = instances.register_instance(connection, name)
        loader = plant.make_loaders()["quarter"]
        object.__setattr__(loader, "holder", holder)
        threads.append(threading.Thread(target=lambda each=loader: next(each.load_due(), None)))
    with loader.open_checked():
        pass  # the table is there
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with plant.pool.connection() as connection:
        connection.execute("update disarray.test_clock set ahead = ahead + interval '1 hour'")
    plant.load()
    assert plant.load() == []


def test_of_two_loaders_that_commit_one_version_none_loses_its_rows(
    build: Callable[[str], DestinationPlant], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ACCESS, SECRET:
        monkeypatch.setenv(variable, "any")
    with careless_store(is_careful=True) as endpoint:
        plant = build(LINE + QUARTER + careless_target(endpoint))
        load_together(plant)
        assert plant.differences() == {}


def test_a_server_that_ignores_conditions_is_refused_before_anything_is_loaded(
    build: Callable[[str], DestinationPlant], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ACCESS, SECRET:
        monkeypatch.setenv(variable, "any")
    with careless_store() as endpoint:
        plant = build(LINE + QUARTER + careless_target(endpoint))
        plant.ingest(plant.write("L0/all.csv", deliveries(3)[0].text))
        with pytest.raises(DestinationMisfitError, match=r"ignores If-None-Match.* Nothing was loaded"):
            plant.load()
        with plant.pool.connection() as connection:
            [state] = destinations.list_destinations(connection)
        assert (state.state, state.lag_commits) == ("failing", 1)
        # What it is refused for: without the question rows are lost, and every position says that they are there.
        monkeypatch.setattr(destination_delta, "refuse_careless_server", lambda _: None)
        load_together(plant)
        [(more, less)] = plant.differences().values()
        assert not more
        assert len({row[0] for row in less}) == 1


def test_a_server_that_does_not_say_whether_it_is_careful_is_asked_again_before_anything_is_loaded(
    build: Callable[[str], DestinationPlant], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ACCESS, SECRET:
        monkeypatch.setenv(variable, "any")
    with careless_store(is_careful=True, is_alone=True) as endpoint:
        plant = build(LINE + QUARTER + careless_target(endpoint))
        plant.ingest(plant.write("L0/all.csv", deliveries(3)[0].text))
        silence(endpoint, Silence.CUT, 2)
        with pytest.raises(DestinationUnavailableError, match=r"answer was none. Nothing was loaded"):
            plant.load()
        plant.load()
        assert plant.differences() == {}


def test_a_careless_server_behind_a_proxy_is_refused_as_well(
    build: Callable[[str], DestinationPlant], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ACCESS, SECRET:
        monkeypatch.setenv(variable, "any")
    for variable in "NO_PROXY", "no_proxy":
        monkeypatch.delenv(variable, raising=False)
    with careless_store(is_alone=True) as proxy:
        monkeypatch.setenv("http_proxy", proxy)  # to it, any name is one of its own
        plant = build(LINE + QUARTER + careless_target("http://s3.plant.invalid"))
        plant.ingest(plant.write("L0/all.csv", deliveries(3)[0].text))
        with pytest.raises(DestinationMisfitError, match=r"ignores If-None-Match"):
            plant.load()


def test_a_server_is_asked_once_and_nothing_of_that_is_left(
    build: Callable[[str], DestinationPlant], object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    ask = destination_bucket_probe._request

    def counting(store: DeltaStore, method: str, key: str) -> int:
        asked.append(method)
        return ask(store, method, key)

    monkeypatch.setattr(destination_bucket_probe, "_request", counting)
    path = str(uuid4())
    plant = build(LINE + QUARTER + object_store.target(path))
    for seed in 3, 4:
        plant.ingest(plant.write(f"L1/{seed}.csv", deliveries(seed)[0].text))
        plant.load()
    assert asked == ["PUT", "PUT", "DELETE"]
    assert not [name for name in object_store.names(path) if "probe" in name]


STRAY = {
    "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "AWS_ENDPOINT": "http://127.0.0.1:9",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
    "AWS_SKIP_SIGNATURE": "true",
    "AWS_S3_EXPRESS": "true",
    "AWS_REGION": "nowhere-1",
    "AWS_BUCKET": "other",
    "AWS_ACCESS_KEY_ID": KEYS["reader"][0],
    "AWS_SECRET_ACCESS_KEY": KEYS["reader"][1],
    "AWS_PROFILE": "nobody",
    "AWS_ROLE_ARN": "arn:aws:iam::1:role/nobody",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "/nowhere",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:9/",
    "AWS_S3_LOCKING_PROVIDER": "dynamodb",
    "AWS_CONDITIONAL_PUT": "disabled",
}


def test_variables_of_the_environment_change_neither_where_nor_as_whom_is_written(
    build: Callable[[str], DestinationPlant], object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = build(LINE + QUARTER + object_store.target(str(uuid4())))
    plant.ingest(plant.write("L1/all.csv", deliveries(3)[0].text))
    for name, value in STRAY.items():
        monkeypatch.setenv(name, value)
    plant.load()
    assert plant.differences() == {}


@pytest.mark.parametrize("name", ["AWS_SESSION_TOKEN", "TOKEN", "AWS_COPY_IF_NOT_EXISTS", "PROXY_URL"])
def test_a_variable_that_would_be_sent_along_is_told_and_its_value_is_not(
    build: Callable[[str], DestinationPlant],
    object_store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    plant = build(LINE + QUARTER + object_store.target(str(uuid4())))
    plant.ingest(plant.write("L1/all.csv", deliveries(3)[0].text))
    monkeypatch.setenv(name, "http://some-stray-value")
    with pytest.raises(DestinationMisfitError, match=f"also take {name} from the environment") as refused:
        plant.load()
    assert "stray-value" not in str(refused.value)
    monkeypatch.delenv(name)
    plant.load()
    assert plant.differences() == {}


def test_keys_may_lie_in_files(
    build: Callable[[str], DestinationPlant], object_store: ObjectStore, tmp_path: Path
) -> None:
    target = object_store.target(str(uuid4()))
    for variable, value in zip((ACCESS, SECRET), KEYS["loader"], strict=True):
        (tmp_path / variable).write_text(f"{value}\n")
        target = target.replace(f'env = "{variable}"', f'file = "{variable}"')
    plant = build(LINE + QUARTER + target)
    plant.ingest(plant.write("L1/all.csv", deliveries(3)[0].text))
    plant.load()
    assert plant.differences() == {}
    (tmp_path / SECRET).unlink()
    plant.ingest(plant.write("L1/more.csv", deliveries(4)[0].text))
    with pytest.raises(DestinationMisfitError, match=f"{SECRET} cannot be read"):
        plant.load()


def test_the_log_in_a_bucket_is_kept_short(object_store: ObjectStore, tmp_path: Path) -> None:
    access = BucketAccess(
        endpoint=object_store.endpoint,
        region="us-east-1",
        access_key=SecretSource(env=ACCESS),
        secret_key=SecretSource(env=SECRET),
    )
    store = open_store(DeltaTarget(f"s3://plant/{uuid4()}", access))
    table = store.create(pa.schema([("number", pa.int64())]), partition_by=[])
    for number in range(12):
        write_deltalake(table, pa.table({"number": [number]}), mode="overwrite")
        if number % 3 == 2:
            table.create_checkpoint()
    assert trim_log(store, keep=4) > 0
    assert store.open().to_pyarrow_table().column("number").to_pylist() == [11]
    left = sorted(name[:20] for name in store.log_names() if name.endswith(".json"))
    assert 6 <= len(left) < 13
    assert int(left[0]) + len(left) == 13  # without a gap
    write_deltalake(store.open(), pa.table({"number": [12]}), mode="append")
    assert trim_log(store, keep=100) == 0


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(each, marks=() if each == "destination.committed" else pytest.mark.long)
        for each in LOADERS
    ],
)
def test_a_loader_that_is_killed_leaves_a_bucket_that_the_next_life_puts_right(
    build: Callable[[str], DestinationPlant], object_store: ObjectStore, tmp_path: Path, point: str
) -> None:
    plant = build(LINE + QUARTER + object_store.target(str(uuid4())))
    first, *others = deliveries(4)
    plant.ingest(plant.write(first.name, first.text))
    assert plant.load()
    for each in others:
        plant.ingest(plant.write(each.name, each.text))
    log = tmp_path / "points.log"
    keys = dict(zip((ACCESS, SECRET), KEYS["loader"], strict=True))
    code = load_once(plant, DISARRAY_FAILPOINTS=f"{point}=kill", DISARRAY_FAILPOINT_LOG=str(log), **keys)
    assert code == -signal.SIGKILL
    assert f"{point} kill" in log.read_text()
    with plant.pool.connection() as connection:
        plant.place = replace(plant.place, holder=instances.register_instance(connection, "Loader"))
    plant.loaders = plant.make_loaders()
    plant.load()
    assert plant.differences() == {}


def test_a_server_that_hangs_holds_up_no_other_thread_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """What trims the log holds the interpreter while it waits for the server."""
    for variable in ACCESS, SECRET:
        monkeypatch.setenv(variable, "any")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        access = BucketAccess(
            endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}",
            region="us-east-1",
            access_key=SecretSource(env=ACCESS),
            secret_key=SecretSource(env=SECRET),
        )
        store = open_store(DeltaTarget("s3://plant/hourly", access))
        began = time.monotonic()
        with pytest.raises(OSError, match="list"):
            store.log_names()
        # Half a minute less than the table itself is waited for, which holds up nobody.
        assert time.monotonic() - began < 30
