"""A control database that knows next to nothing deletes nothing of a target without somebody having said so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from disarray.backfill.republish import _own_errors
from disarray.cli.commands.up_once import Summary
from disarray.control import destinations
from disarray.control.blacklist import blacklist_file
from disarray.control.destinations import (
    decide_destination,
    list_destinations,
    list_unasked_subjects,
    register_destination,
)
from disarray.errors import BackfillTargetError, ControlError
from disarray.sinks import destination_survivors
from disarray.sinks.destination_shape import shape_of
from disarray.sinks.destination_targets import definition_of
from tests.reading_lines import HEADER
from tests.sinks.destination_plant import URL, DestinationPlant, Rows
from tests.sinks.test_destination_repairs import QUARTER, TARGETS, described, lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from disarray.control.connections import Connection
    from tests.databases import Databases

SUBJECTS = ["L1", "L2", "L3"]
ELSEWHERE = [name for name in TARGETS if not name.startswith("same")]


@pytest.fixture
def build(tmp_path: Path, dsn: str, target_dsn: str) -> Iterator[Callable[..., DestinationPlant]]:
    built: list[DestinationPlant] = []

    def make(description: str, *, database: str = dsn) -> DestinationPlant:
        plant = DestinationPlant(tmp_path, database, description=description, target_dsn=target_dsn)
        plant.loaders = plant.make_loaders(most_deleted_percent=10)
        built.append(plant)
        return plant

    yield make
    for plant in built:
        plant.pool.close()


@pytest.fixture
def empty(databases: Databases, template_database: str) -> Iterator[str]:
    """A control database that knows nothing."""
    name = databases.create(template=template_database)
    yield databases.dsn(name)
    databases.discard(name)


def take(plant: DestinationPlant, name: str, seed: int) -> None:
    plant.ingest(plant.write(name, HEADER + lines(seed)))


def fill(plant: DestinationPlant) -> None:
    """Three subjects with two files each, loaded."""
    for subject in SUBJECTS:
        for seed in 1, 2:
            take(plant, f"{subject}/{seed}.csv", seed)
    plant.load()
    assert plant.differences() == {}


def rows_of(plant: DestinationPlant, name: str) -> Rows:
    return plant.target_rows(plant.loaders[name].destination)


def decide(
    plant: DestinationPlant,
    name: str,
    what: str,
    *,
    subject: str | None = None,
    allows_deletes: bool = False,
) -> None:
    with plant.pool.connection() as connection:
        decide_destination(
            connection,
            name,
            what,
            reason="a test",
            by="ada",
            subject_key=subject,
            allows_deletes=allows_deletes,
        )


def held_back(plant: DestinationPlant) -> dict[str, str | None]:
    with plant.pool.connection() as connection:
        return {
            each.destination: each.pause_reason if each.is_held_back else None
            for each in list_destinations(connection)
        }


@pytest.mark.parametrize("name", ELSEWHERE)
def test_an_empty_database_deletes_nothing_of_a_target_that_it_does_not_know(
    build: Callable[..., DestinationPlant], empty: str, name: str
) -> None:
    full = build(described(name))
    fill(full)
    has = rows_of(full, name)
    plant = build(described(name), database=empty)
    # A file of a subject that the target has much more of.
    take(plant, "L1/1.csv", 1)
    assert plant.load() == []
    [reason] = held_back(plant).values()
    assert reason is not None
    assert "rows of L1 that were loaded by another history" in reason
    assert "Nothing was deleted. If this database is empty" in reason
    assert f"disarray sink republish {name} --allow-deletes" in reason
    assert rows_of(plant, name) == has
    # Going on is no permission.
    decide(plant, name, "resumed")
    assert plant.load() == []
    assert rows_of(plant, name) == has
    # The right database goes on as if nothing had been.
    take(full, "L2/3.csv", 3)
    assert [report.subject_key for report in full.load()] == ["L2"]
    assert full.differences() == {}


def test_a_clock_that_was_set_back_is_no_permission_either(
    build: Callable[..., DestinationPlant], empty: str, target_dsn: str
) -> None:
    full = build(described("other_upsert"))
    fill(full)
    with psycopg.connect(target_dsn, autocommit=True) as connection:
        connection.execute("update published.disarray_position set fence = fence + 86400000000")
    has = rows_of(full, "other_upsert")
    plant = build(described("other_upsert"), database=empty)
    take(plant, "L1/1.csv", 1)
    assert plant.load() == []  # refused by the fence
    assert held_back(plant) == {"other_upsert": None}
    decide(plant, "other_upsert", "resumed")
    assert plant.load() == []
    assert held_back(plant)["other_upsert"]
    assert rows_of(plant, "other_upsert") == has
    decide(plant, "other_upsert", "republished", allows_deletes=True)
    [report] = plant.load()
    assert report.is_whole
    assert plant.differences() == {}


def a_year_earlier(seed: int) -> str:
    """As many readings at other instants."""
    return lines(seed).replace("2026-", "2025-")


@pytest.mark.parametrize("name", [*ELSEWHERE, "pieces"])
def test_rows_that_go_are_not_made_up_for_by_as_many_others(
    build: Callable[..., DestinationPlant], empty: str, name: str
) -> None:
    text = described("other_upsert", what='readings = "line"') if name == "pieces" else described(name)
    full = build(text)
    fill(full)
    [known] = full.loaders
    has = rows_of(full, known)
    plant = build(text, database=empty)
    plant.loaders = plant.make_loaders(most_deleted_percent=10, cut_readings=1)
    for seed in 1, 2, 3:
        plant.ingest(plant.write(f"L1/{seed}.earlier.csv", HEADER + a_year_earlier(seed)))
    assert plant.load() == []
    reason = held_back(plant)[known]
    rows = len([row for row in has if row[0] == "L1"])
    assert reason is not None
    assert f"has {rows} rows of L1" in reason
    assert f"and {rows} of them would go" in reason
    assert rows_of(plant, known) == has
    decide(plant, known, "republished", allows_deletes=True)
    plant.load()
    assert plant.differences() == {}


@pytest.mark.parametrize("name", [*ELSEWHERE, "pieces"])
def test_rows_that_are_loaded_again_among_others_are_not_taken_away(
    build: Callable[..., DestinationPlant], empty: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(destination_survivors, "_KEYS_AT_ONCE", 1)  # looked up as often as can be
    what = 'readings = "line"' if name in ("pieces", "delta") else QUARTER
    text = described("other_upsert" if name == "pieces" else name, what=what)
    full = build(text)
    fill(full)
    plant = build(text, database=empty)
    plant.loaders = plant.make_loaders(most_deleted_percent=0, cut_readings=1)
    for seed in 1, 2:
        take(plant, f"L1/{seed}.csv", seed)
        plant.ingest(plant.write(f"L1/{seed}.earlier.csv", HEADER + a_year_earlier(seed)))
    assert [report.is_whole for report in plant.load()] == [True]
    assert plant.differences().keys() == full.differences().keys()
    [(known, loader)] = plant.loaders.items()
    has = {row for row in rows_of(plant, known) if row[0] == "L1"}
    assert has == plant.answered_rows(loader.destination)


def test_of_rows_that_look_alike_as_many_survive_as_are_loaded(
    build: Callable[..., DestinationPlant], empty: str, target_dsn: str
) -> None:
    # Without the channel, several rows have the same key.
    columns = '\ncolumns = { subject_key = "subject_key", bucket_start = "bucket_start", good = "good" }'
    text = described("other_replace", what=QUARTER + columns)
    full = build(text)
    take(full, "L1/1.csv", 1)
    full.load()
    with psycopg.connect(target_dsn, autocommit=True) as connection:
        connection.execute("alter table published.d drop constraint d_pkey")
        connection.execute("insert into published.d select * from published.d")
        count = connection.execute("select count(*) from published.d").fetchone()
    plant = build(text, database=empty)
    take(plant, "L1/1.csv", 1)
    assert plant.load() == []
    assert held_back(plant)["other_replace"]
    with psycopg.connect(target_dsn) as connection:
        assert connection.execute("select count(*) from published.d").fetchone() == count


@pytest.mark.parametrize("name", TARGETS)
def test_a_republish_that_would_clear_much_of_the_target_is_held_back_until_it_is_allowed(
    build: Callable[..., DestinationPlant], name: str
) -> None:
    plant = build(described(name))
    fill(plant)
    has = rows_of(plant, name)
    plant.redefine(described(name, what=f'{QUARTER}\nsubjects = ["L1"]'))
    plant.loaders = plant.make_loaders(most_deleted_percent=10)
    decide(plant, name, "republished")
    assert plant.load() == []
    [reason] = held_back(plant).values()
    rows = len([row for row in has if row[0] != "L1"])
    assert reason is not None
    if name != "other_append":  # its table has superseded rows as well
        assert (
            f"has 2 of 3 subjects with {rows} of {len(has)} rows that this database does not ask for"
            in reason
        )
    assert rows_of(plant, name) == has
    # Nobody else is held up, and a pause of a person is no permission.
    decide(plant, name, "paused")
    assert held_back(plant) == {name: None}
    decide(plant, name, "resumed")
    assert plant.load() == []
    assert rows_of(plant, name) == has
    decide(plant, name, "republished", allows_deletes=True)
    assert [report.subject_key for report in plant.load()] == ["L1"]
    assert rows_of(plant, name) == {row for row in has if row[0] == "L1"}
    assert held_back(plant) == {name: None}
    # What was allowed is done: it holds for nothing that comes later.
    assert plant.rows("select are_deletes_allowed from disarray.destination") == [(False,)]


def test_deletes_cannot_be_allowed_for_one_subject_alone(build: Callable[..., DestinationPlant]) -> None:
    plant = build(described("other_upsert"))
    fill(plant)
    has = rows_of(plant, "other_upsert")
    plant.redefine(described("other_upsert", what=f'{QUARTER}\nsubjects = ["L1"]'))
    plant.loaders = plant.make_loaders(most_deleted_percent=10)
    decide(plant, "other_upsert", "republished")
    assert plant.load() == []
    with pytest.raises(ControlError, match="not for its subject 'L1' alone: others would lose rows"):
        decide(plant, "other_upsert", "republished", subject="L1", allows_deletes=True)
    assert held_back(plant)["other_upsert"]
    # To load it anew is no permission.
    decide(plant, "other_upsert", "republished", subject="L1")
    decide(plant, "other_upsert", "resumed")
    assert plant.load() == []
    assert rows_of(plant, "other_upsert") == has


@pytest.mark.parametrize("name", TARGETS)
def test_a_small_share_goes_by_itself(build: Callable[..., DestinationPlant], name: str) -> None:
    plant = build(described(name))
    fill(plant)
    plant.redefine(described(name, what=f'{QUARTER}\nsubjects = ["L1", "L2"]'))
    plant.loaders = plant.make_loaders(most_deleted_percent=34)
    decide(plant, name, "republished")
    plant.load()
    assert {row[0] for row in rows_of(plant, name)} == {"L1", "L2"}
    assert held_back(plant) == {name: None}


SWEEP = "select is_sweep_due, are_deletes_allowed from disarray.destination"


@pytest.mark.parametrize("name", TARGETS)
def test_a_destination_without_subjects_is_cleared_by_itself_once_that_is_allowed(
    build: Callable[..., DestinationPlant], name: str
) -> None:
    plant = build(described(name))
    fill(plant)
    has = rows_of(plant, name)
    plant.redefine(described(name, what=f'{QUARTER}\nsubjects = ["NOBODY"]'))
    plant.loaders = plant.make_loaders(most_deleted_percent=10)
    decide(plant, name, "republished")
    assert plant.load() == []
    reason = held_back(plant)[name]
    assert reason is not None
    assert "has 3 of 3 subjects" in reason
    # Going on is no permission.
    decide(plant, name, "resumed")
    assert plant.load() == []
    assert held_back(plant)[name]
    assert rows_of(plant, name) == has
    decide(plant, name, "republished", allows_deletes=True)
    assert plant.load() == []
    assert rows_of(plant, name) == set()
    assert held_back(plant) == {name: None}
    assert plant.rows(SWEEP) == [(False, False)]
    # Asked for again, all of it comes back.
    plant.redefine(described(name))
    plant.loaders = plant.make_loaders(most_deleted_percent=10)
    plant.load()
    assert rows_of(plant, name) == has


def test_a_sweep_that_a_backfill_of_all_subjects_left_is_done_by_itself(
    build: Callable[..., DestinationPlant],
) -> None:
    plant = build(described("other_upsert"))
    fill(plant)
    plant.redefine(described("other_upsert", what=f'{QUARTER}\nsubjects = ["L1"]'))
    plant.loaders = plant.make_loaders(most_deleted_percent=10)
    decide(plant, "other_upsert", "republished", allows_deletes=True)
    plant.loaders["other_upsert"].load_whole("L1")
    assert plant.rows(SWEEP) == [(True, True)]
    assert plant.load() == []
    assert {row[0] for row in rows_of(plant, "other_upsert")} == {"L1"}
    assert plant.rows(SWEEP) == [(False, False)]


def test_a_destination_without_subjects_that_is_paused_loses_nothing_more(
    build: Callable[..., DestinationPlant], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = build(described("other_upsert"))
    fill(plant)
    has = rows_of(plant, "other_upsert")
    plant.redefine(described("other_upsert", what=f'{QUARTER}\nsubjects = ["NOBODY"]'))
    plant.loaders = plant.make_loaders(most_deleted_percent=10)
    decide(plant, "other_upsert", "republished", allows_deletes=True)

    def pausing(connection: Connection, destination: str, found: Sequence[str]) -> list[str]:
        decide_destination(connection, destination, "paused", reason="not that", by="ada")
        return list_unasked_subjects(connection, destination, found)

    monkeypatch.setattr(destinations, "list_unasked_subjects", pausing)
    assert plant.load() == []
    assert rows_of(plant, "other_upsert") == has


def test_others_go_on_while_one_is_held_back(build: Callable[..., DestinationPlant]) -> None:
    plant = build(described("other_upsert", "delta"))
    fill(plant)
    plant.redefine(described("other_upsert", "delta", what=f'{QUARTER}\nsubjects = ["L1"]'))
    plant.loaders = plant.make_loaders(most_deleted_percent=10)
    decide(plant, "delta", "republished")
    take(plant, "L1/3.csv", 3)
    assert [report.destination for report in plant.load()] == ["other_upsert"]


def test_rows_of_a_table_in_our_database_that_we_never_loaded_are_somebody_elses(
    build: Callable[..., DestinationPlant], dsn: str
) -> None:
    plant = build(described("same_upsert"))
    fill(plant)
    with plant.pool.connection() as connection:
        from disarray.control.destinations import forget_destination

        forget_destination(connection, "same_upsert", reason="a test", by="ada")
    with psycopg.connect(dsn, autocommit=True) as connection:
        for number in range(40):
            connection.execute(
                "insert into published.a select subject_key, channel, bucket_start - make_interval(days => 400 + %s), "
                "bucket_end, label, good, total, commit_seq from published.a where subject_key = 'L1' limit 1",
                (number,),
            )
    has = rows_of(plant, "same_upsert")
    plant.loaders = plant.make_loaders(most_deleted_percent=10)
    assert "L1" not in {report.subject_key for report in plant.load()}
    assert held_back(plant)["same_upsert"]
    assert rows_of(plant, "same_upsert") == has


@pytest.mark.parametrize("name", ["other_upsert", "other_append", "delta"])
def test_rows_of_a_subject_that_were_there_before_our_first_load_are_somebody_elses(
    build: Callable[..., DestinationPlant], empty: str, name: str
) -> None:
    full = build(described(name))
    fill(full)
    has = rows_of(full, name)
    # The same table under another name, for a database that knows nothing.
    plant = build(described(name).replace(f'name = "{name}"', 'name = "renamed"'), database=empty)
    take(plant, "L1/1.csv", 1)
    assert plant.load() == []
    assert held_back(plant)["renamed"]
    assert rows_of(plant, "renamed") == has


ELSEWHERE_NOW = {
    "same_upsert": ('"published.a"', '"published.theirs"'),
    "other_upsert": ('"published.b"', '"published.theirs"'),  # beside the same positions
    "delta": ('"published"', '"theirs"'),
}


@pytest.mark.parametrize("name", ELSEWHERE_NOW)
def test_a_destination_that_is_pointed_at_another_target_takes_nothing_of_what_is_there(
    build: Callable[..., DestinationPlant], name: str
) -> None:
    former, newer = ELSEWHERE_NOW[name]
    pointed = described(name).replace(former, newer)
    plant = build(pointed.replace(f'name = "{name}"', 'name = "theirs"'))
    for seed in 1, 2, 3:
        take(plant, f"L1/{seed}.csv", seed)
    plant.load()
    has = rows_of(plant, "theirs")
    # Of those rows only a part is asked for by now.
    for seed in 2, 3:
        with plant.pool.connection() as connection:
            blacklist_file(connection, str(plant.inbox / f"L1/{seed}.csv"), "L1", reason="a test", by="ada")
    plant.redefine(described(name))
    plant.drain()
    plant.loaders = plant.make_loaders(most_deleted_percent=10)
    assert [report.subject_key for report in plant.load()] == ["L1"]
    plant.redefine(pointed)
    plant.loaders = plant.make_loaders(most_deleted_percent=10)
    assert plant.load() == []
    assert held_back(plant)[name]
    assert rows_of(plant, name) == has
    decide(plant, name, "republished", allows_deletes=True)
    assert [report.is_whole for report in plant.load()] == [True]
    assert plant.differences() == {}


def test_a_permission_to_delete_is_none_for_another_target(build: Callable[..., DestinationPlant]) -> None:
    former = described("other_upsert")
    newer = former.replace(*ELSEWHERE_NOW["other_upsert"])
    plant = build(newer.replace('"other_upsert"', '"theirs"'))
    fill(plant)
    has = rows_of(plant, "theirs")
    with plant.pool.connection() as connection:
        blacklist_file(connection, str(plant.inbox / "L1/2.csv"), "L1", reason="a test", by="ada")
    plant.redefine(former)
    plant.drain()
    plant.loaders = plant.make_loaders(most_deleted_percent=10)
    plant.load()
    # Before it is loaded anew, it is pointed elsewhere.
    decide(plant, "other_upsert", "republished", allows_deletes=True)
    plant.redefine(newer)
    plant.loaders = plant.make_loaders(most_deleted_percent=10)
    plant.load()
    assert held_back(plant)["other_upsert"]
    assert rows_of(plant, "other_upsert") == has


def test_a_permission_to_delete_is_none_for_other_subjects(build: Callable[..., DestinationPlant]) -> None:
    plant = build(described("other_upsert"))
    fill(plant)
    has = rows_of(plant, "other_upsert")
    decide(plant, "other_upsert", "republished", allows_deletes=True)
    plant.redefine(described("other_upsert", what=f'{QUARTER}\nsubjects = ["L1"]'))
    plant.loaders = plant.make_loaders(most_deleted_percent=10)
    assert plant.load() == []
    assert held_back(plant)["other_upsert"]
    assert rows_of(plant, "other_upsert") == has


def test_a_permission_to_delete_is_none_for_another_dataset(build: Callable[..., DestinationPlant]) -> None:
    plant = build(described("other_upsert"))
    decide(plant, "other_upsert", "republished", allows_deletes=True)
    [loader] = plant.loaders.values()
    with plant.pool.connection() as connection:
        register_destination(
            connection,
            "other_upsert",
            dataset="another",
            definition=definition_of(loader.destination, shape_of(loader.destination)),
            subject_patterns=["*"],
        )
    assert plant.rows("select is_sweep_due, are_deletes_allowed from disarray.destination") == [(True, False)]


def test_another_database_behind_the_same_variable_keeps_what_it_has(
    build: Callable[..., DestinationPlant], empty: str, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = build(described("other_upsert"))
    take(plant, "L1/1.csv", 1)
    plant.load()
    other = databases.dsn(databases.create())
    theirs = build(described("other_upsert"), database=empty)
    theirs.target_dsn = other
    monkeypatch.setenv(URL, other)
    for seed in 1, 2, 3:
        take(theirs, f"L1/{seed}.csv", seed)
    theirs.load()
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute("drop table published.disarray_position")  # nobody knows who loaded it
    has = rows_of(theirs, "other_upsert")
    take(plant, "L1/4.csv", 4)
    assert plant.load() == []
    assert held_back(plant)["other_upsert"]
    assert rows_of(theirs, "other_upsert") == has


def test_a_large_load_is_refused_before_its_first_piece(
    build: Callable[..., DestinationPlant], empty: str
) -> None:
    text = described("other_upsert", what='readings = "line"')
    full = build(text)
    fill(full)
    has = rows_of(full, "other_upsert")
    plant = build(text, database=empty)
    plant.loaders = plant.make_loaders(most_deleted_percent=10, cut_readings=1)
    take(plant, "L1/1.csv", 1)
    assert plant.load() == []
    assert held_back(plant)["other_upsert"]
    assert rows_of(plant, "other_upsert") == has
    # By a backfill as well.
    decide(plant, "other_upsert", "resumed")
    with pytest.raises(BackfillTargetError, match="Nothing was deleted"), _own_errors():
        plant.loaders["other_upsert"].load_whole("L1")
    assert rows_of(plant, "other_upsert") == has


def test_what_would_go_is_counted_without_changing_anything(
    build: Callable[..., DestinationPlant], empty: str
) -> None:
    full = build(described("other_upsert", "delta"))
    fill(full)
    plant = build(described("other_upsert", "delta"), database=empty)

    for name, loader in plant.loaders.items():

        def list_unasked(found: list[str], name: str = name) -> list[str]:
            with plant.pool.connection() as connection:
                return list_unasked_subjects(connection, name, found)

        with loader.open_checked() as target:
            deletes = target.count_deletes(list_unasked)  # type: ignore[arg-type]
        rows = len(rows_of(full, name))
        assert (deletes.subjects, deletes.of_subjects, deletes.rows, deletes.of_rows) == (3, 3, rows, rows)
    assert full.differences() == {}


def test_a_plain_run_does_not_end_well_while_a_worker_waits_for_a_decision() -> None:
    def summary(*, held_back: bool) -> Summary:
        return Summary(sinks=[{"state": "paused", "held_back": held_back}])

    assert summary(held_back=False).is_all_well
    assert not summary(held_back=True).is_all_well
