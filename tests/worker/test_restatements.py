"""The ledger of restatements: every published value that a commit changes, from when to when, and no other."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import blacklist, values
from disarray.worker.housekeeping_settings import DEFAULTS
from tests.blocks import set_block_length
from tests.plant import Plant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from disarray.control.values import Number

pytestmark = pytest.mark.postgres

DATASET = """
[[dataset]]
name = "tools"
roots = ["inbox"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
segment = "1 d"
key = []
restate_after = "1 s"
[dataset.columns.x]
type = "int64"
[dataset.columns.counter]
type = "int64"
[dataset.columns.work_order]
type = "string"
[dataset.metrics.total]
kind = "sum"
input = "x"
[dataset.metrics.peak]
kind = "max"
input = "x"
[dataset.metrics.since_reset]
kind = "sum"
input = "x"
reset_on = ["work_order"]
[dataset.metrics.inc]
kind = "increase"
input = "counter"
"""
HEADER = "time,x,counter,work_order\n"

# metric, from, to, old and new value at the end, the one delta of the span
Span = tuple[str, str, str, "Number | None", "Number | None", "Number | None"]


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A plant in which every number counts as used at once."""
    built = Plant(tmp_path, dsn, description=DATASET)
    yield built
    built.pool.close()


def day(number: int, *rows: str) -> str:
    return "".join(f"2026-01-{number:02d}T{row}\n" for row in rows)


def ledger(plant: Plant) -> list[Span]:
    """What is written down, by metric and time."""
    with plant.pool.connection() as connection:
        noted = values.list_restatements(connection)
    return sorted(
        (
            each.metric,
            f"{each.changed_from:%d %H:%M}",
            f"{each.changed_to:%d %H:%M}",
            each.old,
            each.new,
            each.delta,
        )
        for each in noted
    )


def test_a_late_file_and_an_append_in_one_pass_restate_only_what_was_readable(plant: Plant) -> None:
    known = plant.write(
        "T1/a.csv", HEADER + day(1, "08:00,10,100,W1") + day(3, "08:00,10,110,W1") + day(4, "08:00,10,120,W2")
    )
    plant.ingest(known)
    late = plant.write("T1/late.csv", HEADER + day(2, "08:00,7,105,W1"))
    new = plant.write("T1/new.csv", HEADER + day(5, "08:00,1000,130,W2"))
    plant.ingest(late, new)
    assert ledger(plant) == [
        ("inc", "02 08:00", "02 08:00", 0, 5, 5),
        ("since_reset", "02 08:00", "03 08:00", 20, 27, 7),
        ("total", "02 08:00", "04 08:00", 30, 37, 7),
    ]


def test_what_is_appended_behind_a_late_reading_of_its_segment_and_changes_nothing_is_in_no_span(
    plant: Plant,
) -> None:
    known = plant.write("T1/a.csv", HEADER + day(1, "08:00,10,100,W1", "10:00,10,110,W1", "11:00,0,110,W1"))
    plant.ingest(known)
    late = plant.write("T1/late.csv", HEADER + day(1, "09:00,7,105,W1"))
    new = plant.write("T1/new.csv", HEADER + day(1, "12:00,0,110,W1"))
    plant.ingest(late, new)
    assert ledger(plant) == [
        ("inc", "01 09:00", "01 09:00", 0, 5, 5),
        ("since_reset", "01 09:00", "01 11:00", 20, 27, 7),
        ("total", "01 09:00", "01 11:00", 20, 27, 7),
    ]


def test_published_values_that_change_between_and_not_at_the_end_are_listed(plant: Plant) -> None:
    with plant.pool.connection() as connection:
        # Behind a late file an extreme is told by whole blocks, up to which it changed.
        set_block_length(connection, 1)
    known = plant.write(
        "T1/a.csv",
        HEADER
        + day(1, "08:00,5,100,W1", "09:00,5,100,W1")
        + day(2, "08:00,5,100,W1")
        + day(3, "08:00,5,100,W1")
        + day(4, "08:00,50,180,W2")
        + day(5, "08:00,1,180,W2"),
    )
    plant.ingest(known)
    late = plant.write("T1/late.csv", HEADER + day(1, "08:30,20,150,W1"))
    plant.ingest(late)
    assert ledger(plant) == [
        # 150 is a reading that the counter never showed again: 100 after it is a reset of the device.
        ("inc", "01 08:30", "01 08:30", 0, 50, 50),
        ("inc", "01 09:00", "05 08:00", 80, 230, 150),
        ("peak", "01 08:30", "03 08:00", 5, 20, 15),
        ("since_reset", "01 08:30", "03 08:00", 20, 40, 20),
        ("total", "01 08:30", "05 08:00", 71, 91, 20),
    ]


def test_a_reading_that_shifts_a_counter_in_the_middle_alone_is_listed(plant: Plant) -> None:
    known = plant.write("T1/a.csv", HEADER + day(1, "08:00,0,100,W1") + day(5, "08:00,0,180,W1"))
    plant.ingest(known)
    plant.ingest(plant.write("T1/late.csv", HEADER + day(3, "08:00,0,150,W1")))
    assert ledger(plant) == [("inc", "03 08:00", "03 08:00", 0, 50, 50)]


def test_a_late_file_into_row_groups_that_files_share_is_told_by_how_much(plant: Plant) -> None:
    eager = replace(DEFAULTS, cold_after=timedelta(0), compact_fragments=2, compact_readings=1_000_000)
    plant.place = replace(plant.place, housekeeping=eager)
    plant.ingest(
        *(
            plant.write(
                f"T1/{hour}.csv", HEADER + day(1, f"{hour:02d}:00,{hour},0,W1", f"{hour:02d}:05,1,0,W1")
            )
            for hour in range(8, 12)
        )
    )
    plant.ingest(plant.write("T1/next.csv", HEADER + day(2, "08:00,100,0,W1")))
    plant.keep_house()
    assert plant.rows("select count(*) from disarray.fragment where state = 'active' and first_row > 0") == [
        (3,)
    ]
    plant.ingest(plant.write("T1/late.csv", HEADER + day(1, "09:30,5,0,W1")))
    assert [span for span in ledger(plant) if span[0] == "total"] == [
        ("total", "01 09:30", "02 08:00", 142, 147, 5),
    ]


def test_an_export_that_only_adds_readings_at_its_end_restates_nothing(plant: Plant) -> None:
    said = HEADER + day(1, "08:00,10,100,W1") + day(2, "07:00,0,105,W1", "08:00,10,110,W1")
    plant.ingest(plant.write("T1/export.csv", said))
    again = plant.write("T1/export again.csv", said + day(2, "09:00,10,120,W1") + day(3, "08:00,1,130,W1"))
    plant.ingest(again)
    assert ledger(plant) == []


def test_a_grown_file_and_a_copy_of_it_in_one_pass_restate_nothing(plant: Plant) -> None:
    said = HEADER + day(1, "08:00,10,100,W1") + day(2, "07:00,0,105,W1", "08:00,10,110,W1")
    grown = plant.write("T1/a.csv", said)
    plant.ingest(grown)
    plant.write("T1/a.csv", said + day(2, "09:00,10,120,W1"))
    copy = plant.write("T1/b.csv", said + day(2, "09:00,10,120,W1"))
    plant.ingest(grown, copy)
    assert ledger(plant) == []


def test_a_removed_file_restates_what_it_had_added_and_no_value_is_told_as_none(plant: Plant) -> None:
    first = plant.write("T1/first.csv", HEADER + day(1, "08:00,10,100,W1"))
    plant.ingest(first)
    plant.ingest(plant.write("T1/second.csv", HEADER + day(2, "08:00,5,110,W1")))
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(first), "T1", reason="a test", by="ada")
    plant.drain()
    assert [span for span in ledger(plant) if span[0] == "total"] == [
        ("total", "01 08:00", "01 08:00", 10, None, None),
    ]


def test_a_new_definition_restates_every_value_that_means_something_else_now(plant: Plant) -> None:
    plant.ingest(plant.write("T1/a.csv", HEADER + day(1, "08:00,10,100,W1") + day(3, "08:00,5,110,W1")))
    plant.redefine(DATASET.replace('kind = "max"\ninput = "x"', 'kind = "max"\ninput = "x * 2"'))
    plant.drain()
    assert ledger(plant) == [("peak", "01 08:00", "03 08:00", 10, 20, 10)]


def test_an_extreme_that_begins_anew_with_its_segment_is_listed(plant: Plant) -> None:
    plant.ingest(
        plant.write(
            "T1/a.csv", HEADER + day(1, "08:00,9,100,W1") + day(3, "08:00,2,110,W2", "09:00,3,120,W2")
        )
    )
    plant.redefine(
        DATASET.replace('kind = "max"\ninput = "x"', 'kind = "max"\ninput = "x"\nreset_on = ["work_order"]')
    )
    plant.drain()
    assert ledger(plant) == [("peak", "03 08:00", "03 09:00", 9, 3, None)]


def test_what_another_length_of_segments_changes_between_the_ends_is_said_to_be_unknown(plant: Plant) -> None:
    plant.ingest(plant.write("T1/a.csv", HEADER + day(1, "08:00,10,100,W1") + day(3, "08:00,5,110,W1")))
    plant.redefine(DATASET.replace('segment = "1 d"', 'segment = "6 h"'))
    plant.drain()
    with plant.pool.connection() as connection:
        noted = values.list_restatements(connection)
    assert {each.metric for each in noted} == {"total", "peak", "since_reset", "inc"}
    assert {(each.delta, each.least, each.greatest) for each in noted} == {(None, None, None)}


# What the readings before the first of two resets in a segment leave to be read: by their times, and by the span that a
# late file before them restates there.
HEADS = {
    "nothing, where the reset is at the instant of all of them": (
        ("08:00,1,110,W1", "08:00,2,110,W2", "12:00,3,110,W3"),
        "02 08:00",
    ),
    "what is before the reset, where it is at the instant of the last of them": (
        ("07:00,1,110,W1", "08:00,1,110,W1", "08:00,2,110,W2", "12:00,3,110,W3"),
        "03 07:59",
    ),
}


@pytest.mark.parametrize(("rows", "readable_to"), HEADS.values(), ids=HEADS)
def test_readings_that_a_reset_at_their_instant_hides_are_not_restated(
    plant: Plant, rows: tuple[str, ...], readable_to: str
) -> None:
    plant.redefine(DATASET.replace("key = []", 'key = "content"'), is_on_purpose=True)
    plant.ingest(plant.write("T1/a.csv", HEADER + day(1, "08:00,10,110,W1") + day(3, *rows)))
    plant.ingest(plant.write("T1/late.csv", HEADER + day(2, "08:00,7,110,W1")))
    assert [(span[1], span[2]) for span in ledger(plant) if span[0] == "since_reset"] == [
        ("02 08:00", readable_to)
    ]


def test_a_summary_that_does_not_know_its_first_reset_goes_by_the_last_one(plant: Plant) -> None:
    """As those that were written before it was kept: with one reset in the segment both are the same."""
    plant.redefine(DATASET.replace("key = []", 'key = "content"'), is_on_purpose=True)
    one_reset = day(1, "08:00,10,110,W1") + day(3, "08:00,1,110,W1", "08:00,2,110,W2", "12:00,3,110,W2")
    plant.ingest(plant.write("T1/a.csv", HEADER + one_reset))
    plant.rows("update disarray.segment_summary set reset_us = null returning 1")
    plant.ingest(plant.write("T1/late.csv", HEADER + day(2, "08:00,7,110,W1")))
    assert [(span[1], span[2]) for span in ledger(plant) if span[0] == "since_reset"] == [
        ("02 08:00", "02 08:00")
    ]
