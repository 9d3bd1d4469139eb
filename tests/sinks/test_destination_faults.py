"""Loaders that die, sleep or find their target gone or altered: the target is right in the end, and nobody waits."""

from __future__ import annotations

import signal
import threading
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import polars
import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from disarray.control import destinations, instances
from disarray.errors import DestinationMisfitError, DestinationUnavailableError
from disarray.sinks import destination_loader
from tests.crashes import striking
from tests.forked import live
from tests.sinks.destination_history import LINE, WHERE
from tests.sinks.destination_plant import URL, DestinationPlant
from tests.sinks.loading_process import load_all
from tests.worker.deliveries import deliveries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from disarray.sinks.destination_loader import DestinationLoader

LOADERS = (
    "destination.claimed",
    "destination.staged",
    "destination.merged",
    "destination.committed",
    "destination.advanced",
)
SAME = 'database = "same"\ntable = "published.{name}"\nload = "{load}"\ncreate = true'
OTHER = f'url = {{{{ env = "{URL}" }}}}\ntable = "published.{{name}}"\nload = "{{load}}"\ncreate = true'
TARGETS = {
    "same_upsert": SAME.format(name="a", load="upsert"),
    "other_replace": OTHER.format(name="b", load="replace"),
    "other_append": OTHER.format(name="c", load="append"),
    "delta": 'delta = "published"',
}


def described(*names: str, what: str = 'metric = "line.energy"\nevery = "1 h"') -> str:
    return LINE + "".join(
        f'[[destination]]\nname = "{name}"\n{what}\n{TARGETS[name]}\n' for name in names or TARGETS
    )


@pytest.fixture
def build(tmp_path: Path, dsn: str, target_dsn: str) -> Iterator[Callable[[str], DestinationPlant]]:
    built: list[DestinationPlant] = []

    def make(description: str) -> DestinationPlant:
        built.append(DestinationPlant(tmp_path, dsn, description=description, target_dsn=target_dsn))
        return built[-1]

    yield make
    for plant in built:
        plant.pool.close()


def pass_time(plant: DestinationPlant, by: timedelta) -> None:
    with plant.pool.connection() as connection:
        connection.execute("update disarray.test_clock set ahead = ahead + %s", (by,))


def everything_in(plant: DestinationPlant) -> dict[str, Any]:
    """All rows with the commits that made them."""
    found: dict[str, Any] = {}
    for name, loader in plant.loaders.items():
        found[name] = plant.target_rows(loader.destination)
    found["version"] = DeltaTable(str(plant.root / "published")).version()
    with psycopg.connect(plant.dsn) as connection:
        found["a"] = sorted(connection.execute("select * from published.a").fetchall(), key=repr)
    with psycopg.connect(plant.target_dsn) as connection:
        for table in "b", "c":
            query = f"select * from published.{table}".encode()
            found[table] = sorted(connection.execute(query).fetchall(), key=repr)
    return found


def load_once(plant: DestinationPlant, **armed: str) -> int:
    return live(load_all, plant.dsn, plant.root, **armed, **{URL: plant.target_dsn})


# Each step once, each target at least once; all of them together take long.
ONCE = list(zip(LOADERS, [*TARGETS, "same_upsert"], strict=True))
OTHERS = [(point, name) for point in LOADERS for name in TARGETS if (point, name) not in ONCE]


@pytest.mark.parametrize(
    ("point", "name"), [*ONCE, *(pytest.param(*each, marks=pytest.mark.long) for each in OTHERS)]
)
def test_a_loader_that_is_killed_leaves_what_the_next_life_puts_right(
    build: Callable[[str], DestinationPlant], tmp_path: Path, point: str, name: str
) -> None:
    plant = build(described(name))
    first, *others = deliveries(4)
    plant.ingest(plant.write(first.name, first.text))
    assert plant.load()
    for each in others:
        plant.ingest(plant.write(each.name, each.text))
    log = tmp_path / "points.log"
    code = load_once(plant, DISARRAY_FAILPOINTS=f"{point}=kill", DISARRAY_FAILPOINT_LOG=str(log))
    assert code == -signal.SIGKILL
    assert f"{point} kill" in log.read_text()
    with plant.pool.connection() as connection:
        plant.place = replace(plant.place, holder=instances.register_instance(connection, "Loader"))
    plant.loaders = plant.make_loaders()
    plant.load()
    assert plant.differences() == {}


@pytest.mark.parametrize("name", TARGETS)
def test_a_loader_that_wakes_up_after_its_lease_changes_nothing(
    build: Callable[[str], DestinationPlant], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    plant = build(described())
    first, second, *_ = deliveries(4)
    plant.ingest(plant.write(first.name, first.text))
    plant.load()
    plant.ingest(plant.write(second.name, second.text))
    late = plant.loaders[name]
    after_the_other: list[dict[str, Any]] = []

    def sleep(point: str, *_: object, **__: object) -> None:
        """The loader is frozen with its turn in hand, and another one does more than its work."""
        if point != "destination.claimed" or after_the_other:
            return
        after_the_other.append({})
        [pass_report] = plant.ingest(plant.write(f"{second.name}.more.csv", deliveries(9)[0].text))
        assert pass_report.committed
        pass_time(plant, timedelta(hours=1))
        with plant.pool.connection() as connection:
            holder = instances.register_instance(connection, "Worker02")
        former = plant.place
        plant.place = replace(former, holder=holder)
        plant.loaders = plant.make_loaders()
        plant.load()
        plant.place = former
        assert plant.differences() == {}
        after_the_other[0] |= everything_in(plant)

    monkeypatch.setattr(destination_loader, "failpoint", sleep)
    reports = list(late.load_due())
    assert after_the_other
    assert reports == []
    assert everything_in(plant) == after_the_other[0]


def test_a_loader_of_a_former_definition_that_wakes_up_at_the_same_commit_changes_nothing(
    build: Callable[[str], DestinationPlant],
) -> None:
    hourly = 'metric = "line.energy"\nevery = "{every}"'
    plant = build(described("delta", what=hourly.format(every="1 h")))
    plant.ingest(plant.write("L1/0.csv", deliveries(4)[0].text))
    sleeper = plant.loaders["delta"]

    def others_go_on() -> None:
        plant.redefine(described("delta", what=hourly.format(every="30 min")))
        plant.loaders = plant.make_loaders()
        plant.load()
        assert plant.differences() == {}

    with striking("destination.claimed", others_go_on) as strike:
        assert list(sleeper.load_due()) == []
    assert strike.has_struck
    assert plant.differences() == {}


def test_a_load_that_comes_second_at_the_same_moment_is_tried_again_and_blames_nobody(
    build: Callable[[str], DestinationPlant],
) -> None:
    plant = build(described("delta"))
    first, second, *_ = (each for each in deliveries(4) if each.name.startswith("L1/"))
    plant.ingest(plant.write(first.name, first.text))
    plant.load()
    plant.ingest(plant.write(second.name, second.text))

    def others_load_all_of_it() -> None:
        with plant.pool.connection() as connection:
            destinations.decide_destination(connection, "delta", "republished", reason="a test", by="ada")
        pass_time(plant, timedelta(hours=1))
        plant.load()

    with striking("destination.staged", others_load_all_of_it):
        assert list(plant.make_loaders()["delta"].load_due()) == []
    with plant.pool.connection() as connection:
        [state] = destinations.list_destinations(connection)
    assert (state.state, state.last_error) == ("current", None)
    assert plant.differences() == {}


def test_a_target_that_comes_back_is_caught_up_with_in_one_load_of_each_subject(
    build: Callable[[str], DestinationPlant], target_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = build(described("other_replace", "same_upsert"))
    away, here = plant.loaders["other_replace"], plant.loaders["same_upsert"]
    made = [each for each in deliveries(4) if each.name.startswith("L1/")]
    plant.ingest(plant.write(made[0].name, made[0].text))
    plant.load()
    monkeypatch.setenv(URL, "postgresql://nobody:secret@127.0.0.1:1/nowhere")
    for each in made[1:]:
        plant.ingest(plant.write(each.name, each.text))
        with pytest.raises(DestinationUnavailableError) as refused, away.breaker.guard():
            list(away.load_due())
        assert "secret" not in str(refused.value)
        assert away.breaker.retry_in > 0
        list(here.load_due())  # nobody else is held up
    with plant.pool.connection() as connection:
        states = {each.destination: each for each in destinations.list_destinations(connection)}
    assert states["same_upsert"].state == "current"
    assert states["other_replace"].state == "failing"
    assert states["other_replace"].lag_commits == len(made) - 1 > 1
    assert "does not answer" in (states["other_replace"].last_error or "")
    assert "secret" not in (states["other_replace"].last_error or "")
    monkeypatch.setenv(URL, target_dsn)
    [report] = away.load_due()
    assert report.commits == len(made) - 1
    assert plant.differences() == {}
    with plant.pool.connection() as connection:
        assert {each.state for each in destinations.list_destinations(connection)} == {"current"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("alter table published.b rename value to amount", "column value .* is missing"),
        (
            "alter table published.b alter value type text",
            "column value is text, and has to be double precision",
        ),
        ("alter table published.b drop constraint b_pkey", r"no unique key on \(subject_key, channel, at\)"),
        ("alter table published.b add who text not null", "column who must not be null"),
        ("drop table published.b", "does not exist.*create table"),
    ],
)
def test_a_table_that_is_altered_under_way_is_told_of_and_not_loaded(
    build: Callable[[str], DestinationPlant], target_dsn: str, change: str, message: str
) -> None:
    TARGETS["strict"] = OTHER.format(name="b", load="upsert").replace("create = true", "create = false")
    try:
        plant = build(described("same_upsert", "strict"))
    finally:
        del TARGETS["strict"]
    strict = plant.loaders["strict"]
    with closing(psycopg.connect(target_dsn, autocommit=True)) as target:
        target.execute("create schema published")
        target.execute(
            "create table published.b (subject_key text, channel text, at timestamptz, value float8, "
            "reading_at timestamptz, commit_seq bigint, primary key (subject_key, channel, at))"
        )
        first, second, *_ = deliveries(4)
        plant.ingest(plant.write(first.name, first.text))
        with pytest.raises(
            DestinationMisfitError, match="disarray_position beside it is missing: create table"
        ):
            list(strict.load_due())
        target.execute(
            "create table published.disarray_position (destination text, subject_key text, fence bigint, "
            "commit_seq bigint, loaded_at timestamptz, primary key (destination, subject_key))"
        )
        plant.load()
        assert plant.differences() == {}
        target.execute("truncate published.b" if "not null" in change else "select 1")
        target.execute(change.encode())
        plant.ingest(plant.write(second.name, second.text))
        with pytest.raises(DestinationMisfitError, match=message):
            list(strict.load_due())
        assert list(plant.loaders["same_upsert"].load_due())
    with plant.pool.connection() as connection:
        states = {each.destination: each for each in destinations.list_destinations(connection)}
    assert states["strict"].state == "failing"
    assert states["same_upsert"].state == "current"


def test_what_a_delta_table_was_can_be_read_by_others(build: Callable[[str], DestinationPlant]) -> None:
    plant = build(described("delta"))
    first, second, *_ = (each for each in deliveries(4) if each.name.startswith("L1/"))
    path = str(plant.root / "published")
    told = {}
    for each in first, second:
        plant.ingest(plant.write(each.name, each.text))
        plant.load()
        told[DeltaTable(path).version()] = plant.answered_rows(plant.loaders["delta"].destination)
    former, newer = told
    assert told[former] != told[newer]
    for version, rows in told.items():
        assert polars.read_delta(path, version=version).height == len(rows)
        duck = duckdb.connect()
        duck.register("table_then", DeltaTable(path, version=version).to_pyarrow_dataset())
        assert duck.execute("select count(*) from table_then").fetchall() == [(len(rows),)]
    # No feature that a reader of today's Spark would have to know.
    protocol = DeltaTable(path).protocol()
    assert (protocol.min_reader_version, protocol.reader_features) == (1, None)


def with_another_type(path: str, rows: pa.Table) -> None:
    place = rows.schema.get_field_index("value")
    text = rows.set_column(place, "value", rows.column(place).cast(pa.string()))
    write_deltalake(path, text, mode="overwrite", schema_mode="overwrite")


def with_another_partition(path: str, rows: pa.Table) -> None:
    write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite", partition_by=["dataset"])


def with_a_column_more(path: str, rows: pa.Table) -> None:
    more = rows.append_column(pa.field("who", pa.string(), nullable=False), pa.repeat("ada", rows.num_rows))
    write_deltalake(path, more, mode="overwrite", schema_mode="overwrite", partition_by=["dataset", "month"])


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (with_another_type, "not fit. Nothing was loaded: column value is string, and has to be double"),
        (with_another_partition, "not fit. Nothing was loaded: it is not partitioned by dataset and month"),
        (
            with_a_column_more,
            "not fit. Nothing was loaded: column who must not be null, and is not loaded",
        ),
    ],
)
def test_a_delta_table_that_is_altered_under_way_is_told_of_and_not_loaded(
    build: Callable[[str], DestinationPlant], alter: Callable[[str, pa.Table], None], message: str
) -> None:
    plant = build(described("delta", "same_upsert"))
    first, second, *_ = (each for each in deliveries(4) if each.name.startswith("L1/"))
    plant.ingest(plant.write(first.name, first.text))
    plant.load()
    plant.ingest(plant.write(second.name, second.text))
    path = str(plant.root / "published")
    with striking("destination.staged", lambda: alter(path, DeltaTable(path).to_pyarrow_table())):
        assert list(plant.loaders["delta"].load_due()) == []
    altered = DeltaTable(path).version()
    pass_time(plant, timedelta(seconds=5))
    with pytest.raises(DestinationMisfitError, match=message):
        list(plant.loaders["delta"].load_due())
    assert DeltaTable(path).version() == altered
    assert list(plant.loaders["same_upsert"].load_due())
    with plant.pool.connection() as connection:
        states = {each.destination: each for each in destinations.list_destinations(connection)}
    assert (states["delta"].state, states["delta"].lag_commits) == ("failing", 1)
    assert states["same_upsert"].state == "current"


def test_a_delta_table_that_refuses_rows_of_one_subject_takes_those_of_the_others(
    build: Callable[[str], DestinationPlant],
) -> None:
    plant = build(described("delta"))
    text = deliveries(4)[0].text
    plant.ingest(plant.write("L1/0.csv", text))
    plant.load()
    table = DeltaTable(str(plant.root / "published"))
    table.alter.add_constraint({"not_that_one": "subject_key <> 'L2'"})
    for name in "L2", "L3":
        plant.ingest(plant.write(f"{name}/0.csv", text))
    assert [report.subject_key for report in plant.load()] == ["L3"]
    with plant.pool.connection() as connection:
        told = {
            each.subject_key: each.last_error
            for each in destinations.list_destination_subjects(connection, "delta")
        }
    assert told.pop("L2") == (
        f"Delta table {plant.root}/published refuses {len(plant.differences()['delta'][1])} rows: "
        "a check or a not-null of the table. Nothing of this subject was loaded"
    )
    assert set(told.values()) == {None}
    table.update_incremental()
    table.alter.drop_constraint("not_that_one")
    pass_time(plant, timedelta(minutes=2))
    assert [report.subject_key for report in plant.load()] == ["L2"]
    assert plant.differences() == {}


def test_superseded_rows_are_deleted_after_a_while_and_the_view_stays(
    build: Callable[[str], DestinationPlant], target_dsn: str
) -> None:
    TARGETS["kept"] = OTHER.format(name="c", load="append") + '\nkeep_superseded = "0 s"'
    try:
        plant = build(described("kept"))
    finally:
        del TARGETS["kept"]
    for each in deliveries(4):
        plant.ingest(plant.write(each.name, each.text))
        plant.load()
    with psycopg.connect(target_dsn) as target:
        count = "select count(*), count(*) filter (where is_deleted) from published.c"
        before = target.execute(count).fetchone()
    assert plant.loaders["kept"].vacuum() > 0
    assert plant.differences() == {}
    with psycopg.connect(target_dsn) as target:
        after = target.execute(count).fetchone()
    assert before is not None
    assert after is not None
    assert after[0] < before[0]
    assert after == (len(plant.target_rows(plant.loaders["kept"].destination)), 0)


def test_a_worker_with_the_former_definition_loads_nothing_any_more(
    tmp_path: Path, dsn: str, target_dsn: str
) -> None:
    def described(table: str) -> str:
        return (
            f'{LINE}\n[[destination]]\nname = "quarter"\nrollup = "line.quarter"\n{WHERE["other"]}\n'
            f'table = "published.{table}"\nload = "upsert"\ncreate = true\n'
        )

    plant = DestinationPlant(tmp_path, dsn, description=described("former"), target_dsn=target_dsn)
    for each in deliveries(3):
        plant.ingest(plant.write(each.name, each.text))
    plant.load()
    former = plant.loaders["quarter"]
    plant.redefine(described("newer"))
    plant.loaders = plant.make_loaders()
    assert list(former.load_due()) == []
    assert plant.load() != []
    assert all(not more and not less for more, less in plant.differences().values())
    plant.pool.close()


def test_a_dataset_that_is_defined_anew_is_loaded_anew_with_its_new_columns(
    build: Callable[[str], DestinationPlant],
) -> None:
    what = 'rollup = "line.quarter"'
    plant = build(described(what=what))
    for each in deliveries(4):
        plant.ingest(plant.write(each.name, each.text))
    plant.load()
    text = described(what=what).replace(
        'total = { function = "sum", input = "volts" }',
        'total = { function = "sum", input = "volts * 2.0" }\nmost = { function = "max", input = "part" }',
    )
    plant.redefine(text)
    plant.loaders = plant.make_loaders()
    assert plant.load() == []  # the numbers are those of the former definition: they are left alone
    plant.drain()
    pass_time(plant, timedelta(seconds=5))
    assert all(report.is_whole for report in plant.load())
    assert plant.differences() == {}
    # A column that is no longer declared stays in the table, and says nothing.
    plant.redefine(described(what=what), is_on_purpose=True)
    plant.loaders = plant.make_loaders()
    plant.drain()
    assert {report.destination for report in plant.load()} == set(TARGETS)
    assert plant.differences() == {}


def test_destinations_that_make_their_tables_in_one_schema_at_once_do_not_disturb_each_other(
    build: Callable[[str], DestinationPlant], target_dsn: str
) -> None:
    plant = build(described("other_replace", "other_append"))
    failed: list[Exception] = []
    for _ in range(12):
        together = threading.Barrier(len(plant.loaders))

        def check(loader: DestinationLoader, together: threading.Barrier = together) -> None:
            together.wait()
            try:
                with loader.open_checked():
                    pass
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=check, args=(each,)) for each in plant.loaders.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with psycopg.connect(target_dsn, autocommit=True) as target:
            target.execute("drop schema published cascade")
    assert failed == []
