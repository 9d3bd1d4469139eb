"""Targets that are not what they are believed to be: loaded by a history that is lost, dropped, or somebody else's."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from disarray.control import destinations
from disarray.control.destinations import (
    decide_destination,
    list_destination_subjects,
    list_destinations,
    list_unasked_subjects,
)
from disarray.errors import (
    DestinationConflictError,
    DestinationMisfitError,
    DestinationUnavailableError,
)
from disarray.model.description.destination import DeltaTarget
from disarray.sinks.destination_delta import DeltaLoader
from disarray.sinks.destination_delta_log import trim_log
from disarray.sinks.destination_delta_store import open_store
from tests.reading_lines import HEADER
from tests.sinks.destination_history import LINE
from tests.sinks.destination_plant import URL, DestinationPlant
from tests.sinks.test_destination_faults import OTHER, SAME
from tests.worker.deliveries import deliveries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from disarray.control.connections import Connection
    from tests.databases import Databases

TARGETS = {
    "same_upsert": SAME.format(name="a", load="upsert"),
    "other_upsert": OTHER.format(name="b", load="upsert"),
    "other_append": OTHER.format(name="c", load="append"),
    "other_replace": OTHER.format(name="d", load="replace"),
    "delta": 'delta = "published"',
}
QUARTER = 'rollup = "line.quarter"'


def described(*names: str, what: str = QUARTER) -> str:
    return LINE + "".join(
        f'[[destination]]\nname = "{name}"\n{what}\n{TARGETS[name]}\n' for name in names or TARGETS
    )


@pytest.fixture
def build(tmp_path: Path, dsn: str, target_dsn: str) -> Iterator[Callable[..., DestinationPlant]]:
    built: list[DestinationPlant] = []

    def make(description: str, *, database: str = dsn) -> DestinationPlant:
        built.append(DestinationPlant(tmp_path, database, description=description, target_dsn=target_dsn))
        return built[-1]

    yield make
    for plant in built:
        plant.pool.close()


def lines(seed: int) -> str:
    return deliveries(seed)[0].text.removeprefix(HEADER)


def take(plant: DestinationPlant, name: str, seed: int) -> None:
    plant.ingest(plant.write(name, HEADER + lines(seed)))
    plant.load()


def republish(plant: DestinationPlant) -> None:
    with plant.pool.connection() as connection:
        for name in plant.loaders:
            decide_destination(connection, name, "republished", reason="it is not right", by="ada")
    plant.load()


def test_a_database_from_a_backup_brings_its_targets_back_to_what_it_knows(
    build: Callable[..., DestinationPlant], databases: Databases, dsn: str
) -> None:
    plant = build(described())
    take(plant, "L1/1.csv", 1)
    take(plant, "L2/1.csv", 2)
    plant.pool.close()
    backup = databases.create(template=str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]))
    lost = build(described())
    for seed, subject in enumerate(["L1", "L1", "L2", "L3"], start=3):
        take(lost, f"{subject}/{seed}.csv", seed)
    assert lost.differences() == {}
    lost.pool.close()
    restored = build(described(), database=databases.dsn(backup))
    assert set(restored.differences()) == set(TARGETS) - {"same_upsert"}
    # A commit alone is enough for its subject: the target was last loaded by nobody that this database knows.
    restored.ingest(restored.write("L1/again.csv", HEADER + lines(7)))
    assert {report.is_whole for report in restored.load() if report.destination != "same_upsert"} == {True}
    left = {subject for more, less in restored.differences().values() for subject, *_ in more | less}
    assert left == {"L2", "L3"}
    republish(restored)
    assert restored.differences() == {}
    # Commits that the lost history had numbers for are loaded as any other.
    for number, seed in enumerate((8, 9)):
        take(restored, f"L2/{number}.again.csv", seed)
        assert restored.differences() == {}
    assert not any(report.is_whole for report in restored.load())
    databases.discard(backup)


def test_what_a_target_has_under_commits_that_are_yet_to_come_is_put_right(
    build: Callable[..., DestinationPlant], dsn: str, target_dsn: str
) -> None:
    plant = build(described("same_upsert", "other_upsert", "other_append"))
    take(plant, "L1/1.csv", 1)
    for database, table in (dsn, "a"), (target_dsn, "b"), (target_dsn, "c"):
        with psycopg.connect(database, autocommit=True) as connection:
            name = f"published.{table}"
            connection.execute(f"update {name} set commit_seq = 1000, good = good + 1".encode())
            # Of an instant, and of a subject, that nobody asks for.
            others = "select 'L1', channel, 'infinity', bucket_end, label, good, total, 1000"
            more = ", now(), false" if table == "c" else ""
            for of in others, others.replace("L1", "L9"):
                connection.execute(f"insert into {name} {of}{more} from {name} limit 1".encode())
    if_loaded_by_us = "insert into published.disarray_position values (%s, 'L9', 1, 1, now())"
    with psycopg.connect(target_dsn, autocommit=True) as connection:
        for name in "other_upsert", "other_append":
            connection.execute(if_loaded_by_us, (name,))
    republish(plant)
    assert plant.differences() == {}
    take(plant, "L1/2.csv", 2)
    assert plant.differences() == {}


def test_rows_that_were_appended_by_a_clock_that_was_set_back_are_put_right(
    build: Callable[..., DestinationPlant], target_dsn: str
) -> None:
    plant = build(described("other_append"))
    take(plant, "L1/1.csv", 1)
    with psycopg.connect(target_dsn, autocommit=True) as connection:
        connection.execute("update published.c set loaded_at = now() + interval '1 hour', good = good + 1")
    republish(plant)
    assert plant.differences() == {}
    take(plant, "L1/2.csv", 2)
    assert plant.differences() == {}


def test_a_target_that_is_back_is_well_although_nothing_has_to_be_loaded(
    build: Callable[..., DestinationPlant], monkeypatch: pytest.MonkeyPatch, target_dsn: str
) -> None:
    plant = build(described("other_append"))
    take(plant, "L1/1.csv", 1)
    [loader] = plant.loaders.values()

    def state() -> str:
        with plant.pool.connection() as connection:
            return list_destinations(connection)[0].state

    monkeypatch.setenv(URL, "postgresql://nobody@127.0.0.1:1/nowhere")
    with pytest.raises(DestinationUnavailableError):
        loader.vacuum()
    assert state() == "failing"
    monkeypatch.setenv(URL, target_dsn)
    loader.vacuum()
    assert state() == "current"


def test_housekeeping_that_comes_second_to_a_load_says_nothing_against_the_target(
    build: Callable[..., DestinationPlant], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = build(described("delta"))
    take(plant, "L1/1.csv", 1)
    [loader] = plant.loaders.values()

    def come_second(_: object) -> int:
        raise DestinationConflictError("written by somebody else at the same moment. Nothing was changed")

    monkeypatch.setattr(DeltaLoader, "vacuum", come_second)
    assert loader.vacuum() == 0
    with plant.pool.connection() as connection:
        assert [each.state for each in list_destinations(connection)] == ["current"]


def test_a_position_from_before_loads_were_remembered_goes_on_where_it_is(
    build: Callable[..., DestinationPlant],
) -> None:
    plant = build(described("other_upsert"))
    take(plant, "L1/1.csv", 1)
    plant.rows("update disarray.destination_position set known_fences = null returning 1")
    for number in 2, 3:
        plant.ingest(plant.write(f"L1/{number}.csv", HEADER + lines(number)))
        [report] = plant.load()
        assert not report.is_whole
        assert plant.differences() == {}


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_that_was_dropped_and_is_made_anew_is_loaded_whole(
    build: Callable[..., DestinationPlant], tmp_path: Path, name: str
) -> None:
    plant = build(described(name))
    take(plant, "L1/1.csv", 1)
    take(plant, "L2/1.csv", 2)
    if name == "delta":
        (tmp_path / "published").rename(tmp_path / "thrown_away")
    else:
        table = {"same_upsert": "a", "other_upsert": "b", "other_append": "c", "other_replace": "d"}[name]
        with psycopg.connect(plant.dsn if table == "a" else plant.target_dsn, autocommit=True) as connection:
            connection.execute(f"drop table published.{table} cascade".encode())
    # One subject that is behind is enough to find out, in our own database about all of them.
    subjects = ["L1"] if name == "same_upsert" else ["L1", "L2"]
    for subject in subjects:
        take(plant, f"{subject}/2.csv", 5)
    assert plant.differences() == {}


def test_a_refusal_by_the_target_is_told_of_and_the_next_attempt_loads_everything(
    build: Callable[..., DestinationPlant], target_dsn: str
) -> None:
    plant = build(described("other_upsert"))
    take(plant, "L1/1.csv", 1)
    with psycopg.connect(target_dsn, autocommit=True) as connection:
        connection.execute("update published.disarray_position set fence = fence + 86400000000")
        connection.execute("update published.b set good = good + 1")
    plant.ingest(plant.write("L1/2.csv", HEADER + lines(2)))
    assert plant.load() == []
    with plant.pool.connection() as connection:
        [state] = list_destinations(connection)
        [subject] = list_destination_subjects(connection, "other_upsert")
    assert state.state == "failing"
    assert state.subjects_failing == 1
    assert "knows a later load of L1 than this one" in (subject.last_error or "")
    with plant.pool.connection() as connection:
        decide_destination(connection, "other_upsert", "resumed", reason="the clock is right", by="ada")
    [report] = plant.load()
    assert report.is_whole
    assert plant.differences() == {}
    with plant.pool.connection() as connection:
        assert [each.state for each in list_destinations(connection)] == ["current"]


def test_a_table_of_this_database_whose_code_is_somebody_elses_is_not_loaded(
    build: Callable[..., DestinationPlant], dsn: str
) -> None:
    plant = build(described("same_upsert"))
    take(plant, "L1/1.csv", 1)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("drop role if exists disarray_test_guest")
        connection.execute("create role disarray_test_guest")
        try:
            connection.execute(
                "create function published.note() returns trigger language plpgsql as 'begin return new; end'"
            )
            connection.execute(
                "create trigger note before insert or update on published.a "
                "for each row execute function published.note()"
            )
            take(plant, "L1/2.csv", 2)
            assert plant.differences() == {}  # code of the worker's own role is run
            connection.execute("alter function published.note() owner to disarray_test_guest")
            plant.ingest(plant.write("L1/3.csv", HEADER + lines(3)))
            with pytest.raises(
                DestinationMisfitError, match=r"calls published.note\(\) of disarray_test_guest"
            ):
                plant.load()
            connection.execute("drop function published.note() cascade")
            connection.execute("alter table published.a owner to disarray_test_guest")
            with pytest.raises(
                DestinationMisfitError, match=r"published.a belongs to disarray_test_guest.*load it by url"
            ):
                plant.load()
            connection.execute("alter table published.a owner to current_user")
            plant.load()
            assert plant.differences() == {}
        finally:
            connection.execute("drop owned by disarray_test_guest cascade")
            connection.execute("drop role disarray_test_guest")


def test_a_destination_that_is_pointed_at_another_dataset_has_nothing_of_the_former_one(
    build: Callable[..., DestinationPlant],
) -> None:
    plant = build(described())
    for number in range(3):
        take(plant, f"L1/{number}.csv", number)
    take(plant, "L2/0.csv", 4)
    other = LINE.replace('name = "line"', 'name = "press"').replace(
        'roots = ["inbox"]', 'roots = ["presses"]'
    )
    both = LINE + other + described(what='rollup = "press.quarter"').removeprefix(LINE)
    plant.redefine(both)
    plant.loaders = plant.make_loaders()
    path = plant.root / "presses" / "L1" / "0.csv"
    path.parent.mkdir(parents=True)
    path.write_text(HEADER + lines(6))
    plant.ingest(path)
    plant.load()
    assert plant.differences() == {}


def test_the_log_of_a_delta_table_is_kept_short_and_its_last_versions_can_be_read(tmp_path: Path) -> None:
    rows = pa.table({"number": [0]})
    for number in range(12):
        write_deltalake(tmp_path, rows.set_column(0, "number", [[number]]), mode="overwrite")
        if number % 3 == 2:
            DeltaTable(tmp_path).create_checkpoint()
    assert trim_log(open_store(DeltaTarget(str(tmp_path))), keep=4) > 0
    assert DeltaTable(tmp_path).to_pyarrow_table().column("number").to_pylist() == [11]
    for version in range(7, 12):
        table = DeltaTable(tmp_path, version=version)
        assert table.to_pyarrow_table().column("number").to_pylist() == [version]
    left = sorted(path.name[:20] for path in (tmp_path / "_delta_log").glob("*.json"))
    assert left[0] == f"{5:020d}"
    write_deltalake(tmp_path, rows, mode="append")
    assert trim_log(open_store(DeltaTarget(str(tmp_path))), keep=100) == 0


def test_files_that_no_version_of_the_last_week_names_are_deleted_and_nobody_elses(
    build: Callable[..., DestinationPlant],
) -> None:
    plant = build(described("delta"))
    take(plant, "L1/1.csv", 1)
    folder = plant.root / "published"
    former = DeltaTable(str(folder)).version()
    take(plant, "L1/2.csv", 2)
    [first, *_] = folder.glob("dataset=*/*/*.parquet")
    of_a_killed_load = first.with_name("part-00000-of-a-load-that-was-killed.zstd.parquet")
    shutil.copy(first, of_a_killed_load)
    somebody_elses = [folder / "notes.parquet", folder / "inner/dataset=x/month=2026-09/part-0.parquet"]
    for path in somebody_elses:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(first, path)
    for path in folder.rglob("*.parquet"):
        os.utime(path, (0, 0))
    assert plant.loaders["delta"].vacuum() == 1
    assert not of_a_killed_load.exists()
    assert DeltaTable(str(folder), version=former).to_pyarrow_table().num_rows
    # A week later, and a checkpoint that knows nothing any more of what was replaced.
    table = DeltaTable(str(folder))
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    table.create_checkpoint()
    assert plant.loaders["delta"].vacuum() > 0
    table.update_incremental()
    assert len(list(folder.glob("dataset=*/*/*.parquet"))) == len(table.file_uris())
    assert all(path.exists() for path in somebody_elses)
    assert plant.differences() == {}


@pytest.mark.parametrize("name", ["same_upsert", "other_upsert", "delta"])
def test_a_subject_that_is_asked_for_again_while_others_are_swept_keeps_its_rows(
    build: Callable[..., DestinationPlant], name: str
) -> None:
    plant = build(described(name))
    take(plant, "L1/1.csv", 1)
    take(plant, "L2/1.csv", 2)
    plant.redefine(described(name, what=f'{QUARTER}\nsubjects = ["L1"]'))
    [sweeper] = plant.make_loaders().values()
    with plant.pool.connection() as connection:
        decide_destination(connection, name, "republished", reason="it is not right", by="ada")
    turn = sweeper._claim()
    assert turn is not None
    assert turn.is_sweep_due
    asked: list[Sequence[str]] = []

    def list_unasked(found: Sequence[str]) -> Sequence[str]:
        with plant.pool.connection() as connection:
            unasked = list_unasked_subjects(connection, name, found)
        asked.append(unasked)
        if len(asked) == 1:
            # Another worker, before the first of them is deleted.
            plant.redefine(described(name))
            plant.loaders = plant.make_loaders()
            assert [report.subject_key for report in plant.load()] == ["L2"]
        return unasked

    with sweeper.open_checked() as target:
        target.sweep(turn.fence, list_unasked)
    assert asked[0] == ["L2"]
    assert {subject for subject, *_ in plant.target_rows(sweeper.destination)} == {"L1", "L2"}
    take(plant, "L2/2.csv", 3)
    assert plant.differences() == {}


def test_a_destination_that_is_paused_loses_nothing_more_to_a_sweep(
    build: Callable[..., DestinationPlant], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = build(described("same_upsert"))
    for subject in "L1", "L2", "L3":
        take(plant, f"{subject}/1.csv", 1)
    plant.redefine(described("same_upsert", what=f'{QUARTER}\nsubjects = ["L1"]'))
    plant.loaders = plant.make_loaders()
    [loader] = plant.loaders.values()
    with plant.pool.connection() as connection:
        decide_destination(connection, "same_upsert", "republished", reason="it is not right", by="ada")
    calls: list[Sequence[str]] = []

    def pausing(connection: Connection, destination: str, found: Sequence[str]) -> list[str]:
        calls.append(found)
        if len(calls) == 1:
            decide_destination(connection, destination, "paused", reason="not that", by="ada")
        return list_unasked_subjects(connection, destination, found)

    monkeypatch.setattr(destinations, "list_unasked_subjects", pausing)
    assert list(loader.load_due()) == []
    assert calls
    assert {subject for subject, *_ in plant.target_rows(loader.destination)} == {"L1", "L2", "L3"}
    with plant.pool.connection() as connection:
        decide_destination(connection, "same_upsert", "resumed", reason="it was right", by="ada")
    assert [report.subject_key for report in loader.load_due()] == ["L1"]
    assert {subject for subject, *_ in plant.target_rows(loader.destination)} == {"L1"}


def test_a_target_whose_destination_is_paused_or_described_otherwise_is_not_vacuumed(
    build: Callable[..., DestinationPlant], dsn: str
) -> None:
    plant = build(described("same_upsert"))
    take(plant, "L1/1.csv", 1)
    [loader] = plant.loaders.values()

    def is_there() -> bool:
        [[found]] = plant.rows("select to_regclass('published.a') is not null")
        return bool(found)

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("drop table published.a cascade")
    with plant.pool.connection() as connection:
        decide_destination(connection, "same_upsert", "paused", reason="the table is moved", by="ada")
    assert loader.vacuum() == 0
    assert not is_there()
    with plant.pool.connection() as connection:
        decide_destination(connection, "same_upsert", "resumed", reason="it is moved", by="ada")
    plant.redefine(described("same_upsert").replace("published.a", "published.moved"))
    plant.make_loaders()
    assert loader.vacuum() == 0  # by a worker that was not started again
    assert not is_there()
