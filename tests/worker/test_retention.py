"""Readings that are no longer kept: their numbers stay, and nothing that comes later changes or fakes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import blacklist, quarantine
from disarray.control.files import Reason
from disarray.errors import SegmentSealedError
from disarray.model.segments import microseconds_of
from disarray.queries.metric_values import value_at
from disarray.queries.readings import readings
from tests.plant import Plant
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from disarray.queries.metric_values import Values

pytestmark = pytest.mark.postgres

START = datetime(2026, 10, 1, tzinfo=UTC)


def report(*hours: int, rows: int = 30, watts: float = 0.1) -> str:
    lines = [
        f"{(START + timedelta(hours=hour, minutes=2 * row)).isoformat()},{watts * hour + row / 7},{row % 3}\n"
        for hour in hours
        for row in range(rows)
    ]
    return "time,watts,good\n" + "".join(lines)


@pytest.fixture
def brief_plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A plant that keeps readings for a day: of hours 0, 1, 20 and 30 it forgets the first two."""
    built = Plant(tmp_path, dsn, description=DATASET.replace("key = []", 'key = []\nretain = "1 d"'))
    built.ingest(built.write("T1/long.csv", report(0, 1, 20)))
    built.ingest(built.write("T1/new.csv", report(30)))
    yield built
    built.pool.close()


@pytest.fixture
def sealed(brief_plant: Plant) -> Plant:
    """The same after it forgot them."""
    [done] = brief_plant.keep_house()
    assert done.kept[0].segments_sealed == 2
    return brief_plant


def states(plant: Plant, path: Path) -> dict[object, object]:
    found = plant.rows(
        f"""
        select state::text, sum(readings)::int from disarray.fragment
        where source_uri = '{path}' group by 1
        """
    )
    return {row[0]: row[1] for row in found}


def sealed_numbers(plant: Plant) -> list[tuple[object, ...]]:
    return plant.rows(
        f"""
        select summary.* from disarray.segment_metric as summary where segment_us < {hour_us(2)}
        order by metric, segment_us
        """
    )


def hour_us(hours: float) -> int:
    return microseconds_of(START + timedelta(hours=hours))


def value(plant: Plant, hours: float) -> Values:
    dataset = plant.datasets["tools"]
    with plant.pool.connection() as connection:
        return value_at(
            connection,
            plant.place.lake,
            dataset=dataset,
            subject_key="T1",
            metric=dataset.metrics[1],
            at_us=hour_us(hours),
        )


def test_old_readings_go_and_every_number_stays(brief_plant: Plant) -> None:
    before = brief_plant.derived()
    brief_plant.keep_house()
    assert brief_plant.derived() == before
    assert states(brief_plant, brief_plant.inbox / "T1/long.csv") == {"sealed": 60, "active": 30}
    assert brief_plant.keep_house() == []


def test_readers_tell_the_ends_of_a_sealed_segment_and_that_the_rest_is_gone(sealed: Plant) -> None:
    [at_end] = value(sealed, 1.99).values
    assert (at_end.number, at_end.is_dropped) == (60, False)
    [inside] = value(sealed, 1.5).values
    assert (inside.number, inside.is_dropped, inside.reading_us) == (None, True, hour_us(1 + 58 / 60))
    [kept] = value(sealed, 20.5).values
    assert (kept.number, kept.is_dropped) == (75, False)
    with sealed.pool.connection() as connection:
        found = readings(connection, sealed.place.lake, dataset=sealed.datasets["tools"], subject_key="T1")
    assert (sum(table.num_rows for table in found), found.sealed_segments) == (60, 2)


def test_what_comes_for_a_sealed_segment_is_parked_with_the_reason_and_cannot_be_released(
    sealed: Plant,
) -> None:
    before = sealed_numbers(sealed)
    late = sealed.write("T1/late.csv", report(1, 21, watts=0.5))
    sealed.ingest(late)
    assert states(sealed, late) == {"parked": 30, "active": 30}
    with sealed.pool.connection() as connection:
        [waiting] = quarantine.list_quarantine(connection)
        assert (waiting.why, waiting.readings) == ("its segment is sealed", 30)
        with pytest.raises(SegmentSealedError, match="can change no more"):
            quarantine.release_file(connection, str(late), reason="please", by="ada")
    assert sealed_numbers(sealed) == before
    with sealed.pool.connection() as connection:
        assert quarantine.reject_file(connection, str(late), reason="too late", by="ada") == 30


def test_a_release_leaves_what_is_for_sealed_segments_in_quarantine(tmp_path: Path, dsn: str) -> None:
    description = DATASET.replace("key = []", 'key = []\nretain = "1 d"\nhorizon = "3 h"')
    plant = Plant(tmp_path, dsn, description=description)
    plant.ingest(plant.write("T1/0.csv", report(0)))
    plant.ingest(plant.write("T1/new.csv", report(30)))
    late = plant.write("T1/late.csv", report(0, 20, watts=0.5))
    plant.ingest(late)
    plant.keep_house()
    with plant.pool.connection() as connection:
        [waiting] = quarantine.list_quarantine(connection)
        assert waiting.why == "beyond the horizon, part of it sealed"
        quarantine.release_file(connection, str(late), reason="it is right", by="ada")
    plant.drain()
    assert states(plant, late) == {"parked": 30, "active": 30}
    with plant.pool.connection() as connection:
        [waiting] = quarantine.list_quarantine(connection)
        assert (waiting.why, waiting.readings) == ("its segment is sealed", 30)
    plant.pool.close()


@pytest.mark.parametrize("reason", [Reason.REINGEST, Reason.FILE_NOTIFICATION])
def test_a_file_that_says_again_what_was_counted_changes_nothing_and_says_so(
    sealed: Plant, reason: Reason
) -> None:
    path = sealed.inbox / "T1/long.csv"
    before = sealed.derived()
    if reason is Reason.FILE_NOTIFICATION:
        # Its tail is another one: what was read after hour 1 is replaced.
        path.write_text(report(0, 1) + report(21, 22).partition("\n")[2])
    sealed.ingest(path, reason=reason)
    with sealed.pool.connection() as connection:
        assert quarantine.list_quarantine(connection) == []
    if reason is Reason.REINGEST:
        assert sealed.derived() == before
        assert states(sealed, path)["sealed"] == 60
        [(told,)] = sealed.rows(f"select metadata from disarray.file_info where source_uri = '{path}'")
        assert isinstance(told, dict)
        assert told["message"] == "60 readings in 2 sealed segments stay as they were counted"
    else:
        assert states(sealed, path) == {"sealed": 60, "active": 60, "dropped": 30}


def test_a_file_that_grows_takes_its_tail_in_though_its_head_is_sealed(sealed: Plant) -> None:
    path = sealed.inbox / "T1/long.csv"
    head = sealed_numbers(sealed)
    path.write_text(path.read_text() + report(31).partition("\n")[2])
    sealed.ingest(path)
    assert sealed_numbers(sealed) == head
    assert states(sealed, path) == {"sealed": 60, "active": 60}
    [(total,)] = sealed.rows(
        f"select base_int + total_int from disarray.segment_metric where metric = 'good_total' "
        f"and segment_us = {hour_us(31)}"
    )
    assert total == 150


def test_late_growth_for_a_sealed_segment_is_parked(sealed: Plant) -> None:
    path = sealed.inbox / "T1/long.csv"
    path.write_text(path.read_text() + report(1, watts=9).partition("\n")[2])
    sealed.ingest(path)
    assert states(sealed, path) == {"sealed": 60, "active": 30, "parked": 30}


def test_a_blacklisted_file_goes_where_it_can_and_says_what_stays(sealed: Plant) -> None:
    path = sealed.inbox / "T1/long.csv"
    head, before = sealed_numbers(sealed), sealed.derived()
    with sealed.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(path), "T1", reason="doubt", by="ada")
    sealed.drain()
    assert sealed_numbers(sealed) == head
    assert states(sealed, path) == {"sealed": 60, "dropped": 30}
    [(told,)] = sealed.rows(f"select metadata from disarray.file_info where source_uri = '{path}'")
    assert isinstance(told, dict)
    assert told["sealed"] == {"segments": 2, "readings": 60}
    with sealed.pool.connection() as connection:
        blacklist.allow_file(connection, str(path), reason="no doubt", by="ada")
    sealed.drain()
    assert sealed.derived() == before


def test_a_copy_of_a_file_that_counted_in_a_sealed_segment_counts_there_no_second_time(sealed: Plant) -> None:
    before = sealed.derived()
    copy = sealed.write("T1/copy.csv", (sealed.inbox / "T1/long.csv").read_text())
    sealed.ingest(copy)
    sealed.ingest(copy, reason=Reason.REINGEST)
    assert sealed.derived() == before
    assert states(sealed, copy)["sealed"] == 60
    with sealed.pool.connection() as connection:
        assert quarantine.list_quarantine(connection) == []


def test_a_late_file_between_sealed_segments_counts_shifts_what_is_right_of_it_and_is_sealed_later(
    sealed: Plant,
) -> None:
    head = sealed_numbers(sealed)
    sealed.ingest(sealed.write("T1/late.csv", report(4)))
    assert sealed_numbers(sealed) == head
    assert [each.number for each in value(sealed, 40).values] == [150]
    # The hour had no segment, so nothing of it was sealed; now it is old enough itself.
    [done] = sealed.keep_house()
    assert done.kept[0].segments_sealed == 1


def test_what_waits_for_a_rebuild_is_not_sealed(brief_plant: Plant) -> None:
    brief_plant.rows("update disarray.segment set scan_version = 'older' returning 1")
    assert brief_plant.keep_house() == []
