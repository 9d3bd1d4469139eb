"""Loaders that die, sleep or find their target gone or altered: the target is right in the end, and nobody waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from deltalake import DeltaTable

from disarray.control import destinations, instances
from disarray.errors import DestinationMisfitError, DestinationUnavailableError
from disarray.sinks import destination_loader
from tests.crashes import striking
from tests.sinks.destination_history import LINE, WHERE
from tests.sinks.destination_plant import URL, DestinationPlant
from tests.worker.deliveries import deliveries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


def live(plant: DestinationPlant, **armed: str) -> int:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DISARRAY_")}
    return subprocess.run(
        [sys.executable, "-m", "tests.sinks.loading_process", plant.dsn, str(plant.root)],
        cwd=Path(__file__).parents[2],
        env={**inherited, **armed, URL: plant.target_dsn, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    ).returncode


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
    code = live(plant, DISARRAY_FAILPOINTS=f"{point}=kill", DISARRAY_FAILPOINT_LOG=str(log))
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
