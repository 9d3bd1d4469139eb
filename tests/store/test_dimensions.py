"""Dimensions: values live once, rows name them by number, and nobody who reads sees the difference."""

from __future__ import annotations

import itertools
import random
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from disarray.control import connections, dimensions, readings, verification
from disarray.engine.verification.tables import table_differences
from disarray.errors import DimensionChangedError, InvalidRequestError
from disarray.failpoints import failpoint
from disarray.model.duration import HOUR
from disarray.store import staged_facts, timescale
from disarray.store.audit.audit import AuditSettings, Outcome, audit
from tests.plant import Plant
from tests.store.agreement import assert_stores_agree
from tests.store.conftest import DATASET, in_store, with_dimensions
from tests.store.test_tables import shown, told
from tests.store.test_values import START_US, rows_of, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.postgres

IN_TABLE = in_store(DATASET, "timescale")
WITH_DIMENSIONS = with_dimensions(IN_TABLE)


@pytest.fixture
def dimension_plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A plant in whose table the channel's column and one with NULLs hold numbers."""
    built = Plant(tmp_path, dsn, description=WITH_DIMENSIONS)
    yield built
    built.pool.close()


def filled(plant: Plant) -> Plant:
    rows = rows_of(3, hours=(0, 1, 2, 24 * 40))
    plant.ingest(write(plant, "C1/0.csv", [replace(row, job="") if row.good < 0 else row for row in rows]))
    plant.ingest(write(plant, "C2/0.csv", rows_of(4, hours=(0, 1))))
    return plant


def broken(plant: Plant, *, is_deep: bool = True) -> dict[str, list[str]]:
    with plant.pool.connection() as connection:
        verdicts = audit(connection, plant.place.lake, AuditSettings(is_deep=is_deep))
    return {
        verdict.rule.name: [finding.detail for finding in verdict.findings]
        for verdict in verdicts
        if verdict.outcome is Outcome.BROKEN
    }


def verified(plant: Plant) -> set[tuple[str, str]]:
    with plant.pool.connection() as connection:
        return {
            (each.subject_key, each.what)
            for subject in ("C1", "C2")
            for each in table_differences(
                connection,
                plant.datasets["cells"],
                verification.load_subject(connection, subject).segments["cells"],
            )
        }


def test_values_live_once_and_views_and_readers_tell_what_a_table_without_dimensions_tells(
    dimension_plant: Plant, tmp_path: Path
) -> None:
    plant = filled(dimension_plant)
    for name in ("slot", "job"):
        values = plant.rows(f"select count(*), count(distinct value) from telemetry.cells_{name}")
        [(kept,)] = plant.rows(f"select count(distinct {name}) from telemetry.cells_running")
        assert values == [(kept, kept)]
        assert plant.rows(f"select distinct pg_typeof({name})::text from telemetry.cells") == [("integer",)]
    for subject in ("C1", "C2"):
        assert_stores_agree(plant, plant.datasets["cells"], subject)
    with_numbers, told_by_numbers = shown(plant), told(plant)
    assert any(row["job"] is None for row in told_by_numbers)
    plant.redefine(IN_TABLE)
    plant.drain()
    assert shown(plant) == with_numbers
    assert repr(told(plant)) == repr(told_by_numbers)
    assert plant.rows("select distinct pg_typeof(slot)::text from telemetry.cells") == [("text",)]


def test_turning_dimensions_on_and_off_copies_every_subject_and_changes_no_number(
    tmp_path: Path, dsn: str
) -> None:
    plant = filled(Plant(tmp_path, dsn, description=IN_TABLE))
    before = plant.derived()
    for description in (WITH_DIMENSIONS, IN_TABLE, WITH_DIMENSIONS):
        plant.redefine(description)
        # Until they are copied, readers take the lake.
        assert plant.rows("select count(*) from disarray.segment where table_digest is not null") == [(0,)]
        assert len(told(plant)) == 200
        plant.drain()
        assert plant.derived() == before
        assert plant.rows("select count(*) from disarray.segment where table_digest is null") == [(0,)]
        assert verified(plant) == set()
    plant.pool.close()


def test_a_late_file_with_new_values_adds_them_and_an_append_adds_none(dimension_plant: Plant) -> None:
    rows = rows_of(5, hours=(0, 1))
    path = write(dimension_plant, "C1/0.csv", rows[:70])
    dimension_plant.ingest(path)
    before = dimension_plant.rows("select id, value from telemetry.cells_job order by id")
    write(dimension_plant, "C1/0.csv", rows)
    dimension_plant.ingest(path)
    assert (
        dimension_plant.rows("select id, value from telemetry.cells_job order by id")[: len(before)] == before
    )
    late = [replace(row, job="brand new ä😀") for row in rows_of(6, hours=(3,))]
    dimension_plant.ingest(write(dimension_plant, "C1/late.csv", late))
    assert dimension_plant.rows(
        "select count(*) from telemetry.cells_running where job = 'brand new ä😀'"
    ) == [(len(late),)]
    with dimension_plant.pool.connection() as connection:
        connection.execute(
            "select disarray.blacklist_file(%s, 'C1', 'test', 'tester')",
            (str(dimension_plant.inbox / "C1/late.csv"),),
        )
    dimension_plant.drain()
    assert len(told(dimension_plant)) == len(rows)
    assert verified_one(dimension_plant) == []


def verified_one(plant: Plant) -> list[Any]:
    with plant.pool.connection() as connection:
        rows = verification.load_subject(connection, "C1").segments["cells"]
        return list(table_differences(connection, plant.datasets["cells"], rows))


def test_values_of_any_length_and_kind_survive(dimension_plant: Plant) -> None:
    # An index takes no text beyond some 2,700 bytes; these differ only in their last letter.
    awkward = ["x" * 9_000 + "a", "x" * 9_000 + "b", "null", "\\N", " spaced ", "Ω😀", "a'b", "%I", "A", "a"]
    rows = rows_of(7, hours=(0,), slots="a")[: len(awkward)]
    named = [replace(row, job=job) for row, job in zip(rows, awkward, strict=True)]
    dimension_plant.ingest(write(dimension_plant, "C1/0.csv", named))
    found = [row["job"] for row in told(dimension_plant)]
    assert sorted(map(str, found)) == sorted(each.strip() for each in awkward)
    assert_stores_agree(dimension_plant, dimension_plant.datasets["cells"], "C1")


def test_two_commits_with_the_same_new_values_wait_for_each_other_and_never_both(
    dimension_plant: Plant, dsn: str
) -> None:
    names = [f"J{number:03}" for number in range(200)]
    failures: list[BaseException] = []
    given: list[dict[str, int]] = []
    together = threading.Barrier(4)

    def commit(order: int) -> None:
        chance = random.Random(order)
        try:
            with connections.connect(dsn) as connection:
                for number in range(8):
                    together.wait()
                    asked = sorted(names[number * 25 :][:25])
                    with connections.transaction(connection):
                        numbers: dict[str, int] = {}
                        # Cut elsewhere by each; within a call the database orders them.
                        cut = [0, 3 + order * 5, 25]
                        for start, end in itertools.pairwise(cut):
                            part = chance.sample(asked[start:end], k=end - start)
                            found = dimensions.number_values(connection, "cells", "job", part)
                            numbers |= dict(zip(part, found, strict=True))
                        other = dimensions.number_values(connection, "cells", "slot", asked)
                        given.append(numbers)
                    assert len(set(other)) == 25
        except BaseException as error:
            failures.append(error)
            together.abort()

    threads = [threading.Thread(target=commit, args=(order,)) for order in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for table in ("cells_job", "cells_slot"):
        assert dimension_plant.rows(f"select count(*), count(distinct value) from telemetry.{table}") == [
            (200, 200)
        ]
    stored = {
        str(value): number
        for value, number in dimension_plant.rows("select value, id from telemetry.cells_job")
    }
    for numbers in given:
        assert numbers == {value: stored[value] for value in numbers}


def test_a_commit_that_fails_leaves_no_value_behind(
    dimension_plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strike(name: str, *_: object, **__: object) -> None:
        if name == "commit.rows_copied":
            raise OSError("struck")
        failpoint(name)

    with monkeypatch.context() as patched:
        patched.setattr(timescale, "failpoint", strike)
        dimension_plant.ingest(write(dimension_plant, "C1/0.csv", rows_of(8, hours=(0,))))
    assert dimension_plant.rows("select count(*) from telemetry.cells_job") == [(0,)]
    assert dimension_plant.rows("select count(*) from telemetry.cells") == [(0,)]


def test_too_many_values_for_a_dimension_are_told_with_the_column(
    dimension_plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_facts, "MOST_VALUES", 3)
    rows = [replace(row, job=f"J{number}") for number, row in enumerate(rows_of(9, hours=(0,)))]
    [report] = dimension_plant.ingest(write(dimension_plant, "C1/0.csv", rows))
    [failure] = report.failed.values()
    assert (
        "column 'job' of dataset 'cells' is declared a dimension, and one commit brings more than 3"
        in failure
    )
    assert dimension_plant.rows("select count(*) from telemetry.cells_job") == [(0,)]


def test_a_wrong_number_is_found_by_verify_and_by_a_deep_audit(dimension_plant: Plant) -> None:
    plant = filled(dimension_plant)
    assert broken(plant) == {}
    assert verified(plant) == set()
    changed = plant.rows(
        """
        update telemetry.cells set slot = (select id from telemetry.cells_slot where id <> slot limit 1)
        where subject_key = 'C2' and (event_at, ordinal) = (
            select event_at, ordinal from telemetry.cells where subject_key = 'C2' order by 1, 2 limit 1
        ) returning 1
        """
    )
    assert len(changed) == 1
    assert verified(plant) == {("C2", "table readings"), ("C2", "table rows")}
    assert broken(plant).keys() == {"tables_hold_what_was_written"}


def test_a_changed_value_is_found_by_verify_and_by_audit(dimension_plant: Plant) -> None:
    plant = filled(dimension_plant)
    [(number, was)] = plant.rows("select id, value from telemetry.cells_slot where id = 1")
    plant.rows("update telemetry.cells_slot set value = 'tampered' where id = 1 returning id")
    assert {what for _, what in verified(plant)} == {"table readings", "table rows"}
    found = broken(plant, is_deep=False)
    assert found == {
        "dimension_values_are_as_written": [f"value {number} is 'tampered', and was written as another"]
    }
    assert broken(plant).keys() == {"dimension_values_are_as_written", "tables_hold_what_was_written"}
    # Nor is its number given to what it no longer says.
    with (
        plant.pool.connection() as connection,
        pytest.raises(
            DimensionChangedError, match=f"telemetry.cells_slot no longer says '{was}' where it was"
        ),
    ):
        dimensions.number_values(connection, "cells", "slot", [str(was)])


def test_a_missing_value_is_found_by_verify_and_by_a_deep_audit_and_hides_no_reading(
    dimension_plant: Plant,
) -> None:
    plant = filled(dimension_plant)
    rows = len(shown(plant))
    [(number, named)] = plant.rows(
        """
        select value.id, count(*) from telemetry.cells_slot as value
        inner join telemetry.cells as reading on reading.slot = value.id group by 1 order by 1 limit 1
        """
    )
    plant.rows(f"delete from telemetry.cells_slot where id = {number} returning 1")
    assert len(shown(plant)) == rows
    assert {what for _, what in verified(plant)} == {"table readings", "table rows"}
    found = broken(plant)
    assert found["rows_name_values_that_exist"] == [
        f"{named} rows name value {number} of telemetry.cells_slot, which is not there"
    ]
    assert "tables_hold_what_was_written" in found


def test_a_dimension_without_its_table_is_found_by_audit(dimension_plant: Plant) -> None:
    plant = filled(dimension_plant)
    plant.rows("update disarray.dimension set table_name = 'elsewhere' where column_name = 'job' returning 1")
    assert "column job of dataset cells" in broken(plant, is_deep=False)["dimension_values_are_as_written"][0]


def test_a_value_that_is_not_asked_for_is_not_looked_up(dimension_plant: Plant) -> None:
    filled(dimension_plant)
    with dimension_plant.pool.connection() as connection:
        plans = [
            "\n".join(
                line
                for (line,) in connection.execute(
                    f"explain select amps {more} from telemetry.cells_running where subject_key = 'C1'".encode()
                )
            )
            for more in ("", ", job")
        ]
    assert ["cells_job" in plan for plan in plans] == [False, True]
    assert not any("cells_slot" in plan for plan in plans)


@pytest.mark.parametrize(
    "statement",
    [
        "create table telemetry.cells_job (id integer)",
        "create view telemetry.cells_joined as select 1",
    ],
)
def test_what_somebody_else_made_is_never_taken_or_dropped(tmp_path: Path, dsn: str, statement: str) -> None:
    plant = filled(Plant(tmp_path, dsn, description=IN_TABLE))
    with plant.pool.connection() as connection:
        connection.execute(statement.encode())
    with pytest.raises(InvalidRequestError, match=r"telemetry\.cells.* is taken"):
        plant.redefine(WITH_DIMENSIONS)
    assert plant.rows("select pg_typeof(job)::text from telemetry.cells limit 1") == [("text",)]
    assert len(shown(plant)) == 300
    plant.pool.close()


def test_names_of_dimensions_and_datasets_that_would_meet_are_refused(dimension_plant: Plant) -> None:
    dataset = dimension_plant.datasets["cells"]
    with (
        dimension_plant.pool.connection() as connection,
        pytest.raises(InvalidRequestError, match=r"telemetry\.cells_job or telemetry\.cells_job_running"),
    ):
        readings.provision_readings(connection, replace(dataset, name="cells_job"))


def test_a_worker_with_another_disarray_toml_writes_nothing(dimension_plant: Plant) -> None:
    declared = dimension_plant.datasets["cells"]
    undeclared = tuple(replace(column, is_dimension=False) for column in declared.columns)
    dimension_plant.datasets["cells"] = replace(declared, columns=undeclared)
    [report] = dimension_plant.ingest(write(dimension_plant, "C1/0.csv", rows_of(10, hours=(0,))))
    [failure] = report.failed.values()
    assert "has not the columns of dataset 'cells': slot, job differ. Nothing was written" in failure


def test_rows_in_two_months_are_in_two_partitions_that_hold_numbers(dimension_plant: Plant) -> None:
    filled(dimension_plant)
    found = dimension_plant.rows(
        f"""
        select tableoid::regclass::text, pg_typeof(job)::text from telemetry.cells
        where event_at >= disarray.instant_of({START_US + 30 * 24 * HOUR}) limit 1
        """
    )
    assert found in ([("telemetry.cells_y2026m11", "integer")], [(found[0][0], "integer")])


def test_the_datasets_of_a_subject_are_written_in_one_order_whatever_came_first(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = WITH_DIMENSIONS.replace('name = "cells"', 'name = "bells"').replace("*.csv", "*.txt")
    plant = Plant(tmp_path, dsn, description=WITH_DIMENSIONS + second)
    order: list[str] = []
    number = timescale._number_values

    def note(connection: Any, table: Any, added: Any) -> Any:
        order.append(table.dataset)
        return number(connection, table, added)

    monkeypatch.setattr(timescale, "_number_values", note)
    for first, then in (("C1/a.csv", "C1/b.txt"), ("C2/a.txt", "C2/b.csv")):
        paths = [write(plant, name, rows_of(11, hours=(0,))) for name in (first, then)]
        plant.ingest(*paths)
    assert order == ["bells", "cells"] * 2
    plant.pool.close()
