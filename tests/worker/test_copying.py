"""Readings moved between stores: all of them, verified, under the locks, and resumable."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from disarray.control import claims, commits, readings
from disarray.control.commits import DatasetCommit, SubjectCommit
from disarray.control.files import Reason
from disarray.errors import StalePlanError
from disarray.model.catalog_changes import CatalogChanges
from disarray.model.description.dataset import Store
from disarray.worker.passes import planning
from disarray.worker.process.store_copy import drain_copies
from tests.store.agreement import assert_stores_agree

if TYPE_CHECKING:
    from pathlib import Path

    from tests.plant import Plant

pytestmark = pytest.mark.postgres


def fill(plant: Plant, *, subjects: int = 3, hours: int = 4) -> list[Path]:
    paths = []
    for subject in range(subjects):
        lines = "".join(
            f"2026-10-01T{hour:02d}:{minute:02d}:00Z,{100 + hour}.5,{minute % 3}\n"
            for hour in range(hours)
            for minute in range(0, 60, 7)
        )
        paths.append(plant.write(f"T{subject}/a.csv", "time,watts,good\n" + lines))
    plant.ingest(*paths)
    return paths


def change_store(plant: Plant, store: Store) -> None:
    with plant.pool.connection() as connection:
        readings.change_store(connection, plant.datasets["tools"], store)
    plant.datasets["tools"] = replace(plant.datasets["tools"], store=store)


def test_readings_move_into_a_table_and_back_and_no_number_changes(plant: Plant) -> None:
    fill(plant)
    before = plant.derived()
    change_store(plant, Store.TIMESCALE)
    assert drain_copies(plant.place, "tools") == ([], [])
    for subject in ("T0", "T1", "T2"):
        assert_stores_agree(plant, plant.datasets["tools"], subject)
    there = plant.derived()
    assert {name: there[name] for name in before} == before
    assert plant.rows("select count(*) from telemetry.tools_running where is_final") == [(3 * 4 * 9,)]
    change_store(plant, Store.LAKE)
    assert drain_copies(plant.place, "tools") == ([], [])
    assert plant.rows("select count(*) from telemetry.tools") == [(0,)]
    assert {name: plant.derived()[name] for name in before} == before


def test_a_subject_can_be_moved_alone_and_the_rest_follows_later(plant: Plant) -> None:
    fill(plant)
    change_store(plant, Store.TIMESCALE)
    waiting, failures = drain_copies(plant.place, "tools", subject_key="T1")
    assert [each.subject_key for each in waiting] == ["T0", "T2"]
    assert failures == []
    assert plant.rows("select distinct subject_key from telemetry.tools") == [("T1",)]
    # What comes in meanwhile goes to the new store at once.
    plant.ingest(plant.write("T2/b.csv", "time,watts,good\n2026-10-01T01:30:30Z,1,1\n"))
    assert plant.rows(
        "select subject_key, count(distinct _segment_us) from telemetry.tools group by 1 order by 1"
    ) == [("T1", 4), ("T2", 1)]
    assert drain_copies(plant.place, "tools") == ([], [])
    assert plant.rows("select count(*) from telemetry.tools") == [(3 * 4 * 9 + 1,)]


def test_a_large_subject_is_moved_in_turns(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(plant, subjects=1, hours=6)
    change_store(plant, Store.TIMESCALE)
    monkeypatch.setattr(planning, "MOST_COPIED", 10)
    assert drain_copies(plant.place, "tools") == ([], [])
    assert plant.rows("select count(distinct xmin::text) from telemetry.tools") == [(3,)]
    assert plant.rows("select count(*) from telemetry.tools") == [(6 * 9,)]


def test_readings_that_are_not_those_of_the_catalog_are_neither_copied_nor_removed(plant: Plant) -> None:
    fill(plant, subjects=1)
    plant.rows("update disarray.segment set digest = 'another' where segment_us % 2 = 0 returning 1")
    change_store(plant, Store.TIMESCALE)
    waiting, failures = drain_copies(plant.place, "tools")
    assert [each.subject_key for each in waiting] == ["T0"]
    assert "Run: disarray verify --subject T0" in failures[0]
    assert plant.rows("select count(*) from telemetry.tools") == [(0,)]


def test_a_commit_that_was_planned_on_the_old_store_is_refused(plant: Plant) -> None:
    [path] = fill(plant, subjects=1)
    plant.notify(path, reason=Reason.REINGEST)
    change_store(plant, Store.TIMESCALE)
    with plant.pool.connection() as connection:
        [item] = claims.fetch_items(connection, plant.place.holder)
        nothing = CatalogChanges(added=(), dropped=(), cut=(), released=())
        part = DatasetCommit(
            dataset="tools", parse_version="p", scan_version="s", changes=nothing, segments=[], metrics=[],
            rollups=[], source_uris=[], store=Store.LAKE,
        )  # fmt: skip
        with pytest.raises(StalePlanError, match="moved to another store since this was planned"):
            commits.commit_subject(
                connection,
                SubjectCommit(run_id=uuid.uuid4(), subject_key="T0", fence=item.fence, datasets=[part]),
                plant.place.holder,
            )
        with pytest.raises(StalePlanError, match="moved to another store since this was planned"):
            readings.clear_rows(
                connection,
                "tools",
                "T0",
                plant.place.holder,
                fence=item.fence,
                store=Store.LAKE,
                kept_of={},
            )
