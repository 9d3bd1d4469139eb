"""What a plan or preview tells is what the pass then does, on every side of a move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.control import quarantine
from disarray.control.files import Notification, Reason
from disarray.formats.loader import load_datasets
from disarray.worker.passes.rehearsal import rehearse, rehearse_release
from tests.plant import Plant
from tests.worker.test_moves import ALL, CELLS, SPLIT, announce, cell, moving, tool, tools, totals  # noqa: F401

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.worker.passes.rehearsal import Rehearsal

pytestmark = pytest.mark.postgres

Spans = list[tuple[object, ...]]


def planned(plant: Plant, *paths: Path, subject: str, description: str | None = None) -> Rehearsal:
    """What announcing files for a subject would do, by whoever has the least rights that suffice for it."""
    datasets = plant.datasets
    if description is not None:
        plant.description.write_text(description)
        datasets = {each.name: each for each in load_datasets(plant.description)}
    notifications = [Notification(str(path), subject, Reason.FILE_NOTIFICATION, {}) for path in paths]
    with plant.pool.connection() as connection:
        connection.execute("set role disarray_operator")
        found = rehearse(connection, notifications, datasets=datasets, lake=plant.place.lake)
        connection.execute("reset role")
    return found


def previewed(plant: Plant, path: Path) -> Rehearsal:
    """What a release would do."""
    with plant.pool.connection() as connection:
        [waiting] = quarantine.list_quarantine(connection, source_uri=str(path))
        return rehearse_release(connection, waiting, datasets=plant.datasets, lake=plant.place.lake)


def told(rehearsal: Rehearsal) -> dict[tuple[str, str], object]:
    """The newest total of every dataset and subject that changes, None where nothing is left."""
    assert rehearsal.failures == {}
    return {
        (each.plan.dataset, each.plan.subject_key): total.new
        for each in rehearsal.plans
        for total in each.impact.totals
        if total.metric == "total"
    }


def told_spans(rehearsal: Rehearsal) -> Spans:
    """The spans that would be written down."""
    return sorted(
        (
            each.plan.dataset,
            each.plan.subject_key,
            span.metric,
            span.from_us,
            span.to_us,
            span.old_first,
            span.new_first,
            span.old_last,
            span.new_last,
        )
        for each in rehearsal.plans
        for span in each.impact.spans
    )


def noted_spans(plant: Plant, *, after: int) -> Spans:
    """The spans that were written down since."""
    return sorted(
        plant.rows(
            f"""
            select dataset, subject_key, metric, (extract(epoch from changed_from) * 1000000)::bigint,
                (extract(epoch from changed_to) * 1000000)::bigint,
                first_old_int, first_new_int, old_int, new_int
            from disarray.restatement where restatement_id > {after}
            """
        )
    )


def newest_entry(plant: Plant) -> int:
    [(number,)] = plant.rows("select coalesce(max(restatement_id), 0) from disarray.restatement")
    assert isinstance(number, int)
    return number


def changed(before: dict[tuple[object, ...], object], plant: Plant) -> dict[tuple[object, ...], object]:
    """The totals that are others now, None where nothing is left."""
    now = totals(plant)
    return {place: now.get(place) for place in {**before, **now} if before.get(place) != now.get(place)}


@pytest.mark.parametrize("hint", ["CELL-A", "CELL-B"])
def test_a_plan_tells_both_sides_of_a_move(moving: Plant, hint: str) -> None:  # noqa: F811
    path = moving.write("cells/1.txt", cell("CELL-A", 1, 2))
    announce(moving, path, "CELL-A")
    announce(moving, moving.write("cells/2.txt", cell("CELL-A", 100, 0, hour=5)), "CELL-A")
    announce(moving, moving.write("cells/3.txt", cell("CELL-B", 1000, 0, hour=5)), "CELL-B")
    path.write_text(cell("CELL-B", 1, 2))
    before, derived, entry = totals(moving), moving.derived(), newest_entry(moving)
    rehearsal = planned(moving, path, subject=hint)
    assert moving.derived() == derived
    announce(moving, path, hint)
    assert told(rehearsal) == changed(before, moving) == {("cells", "CELL-A"): 100, ("cells", "CELL-B"): 1003}
    spans = noted_spans(moving, after=entry)
    assert told_spans(rehearsal) == spans
    assert {span[1] for span in spans} == {"CELL-A", "CELL-B"}


def test_two_files_that_change_places_are_planned_as_one_change_of_each_subject(moving: Plant) -> None:  # noqa: F811
    first = moving.write("cells/1.txt", cell("CELL-A", 1, 2))
    second = moving.write("cells/2.txt", cell("CELL-B", 10, 20, hour=2))
    announce(moving, first, "CELL-A")
    announce(moving, second, "CELL-B")
    first.write_text(cell("CELL-B", 1, 2))
    second.write_text(cell("CELL-A", 10, 20, hour=2))
    before = totals(moving)
    rehearsal = planned(moving, first, second, subject="CELL-A")
    assert len(rehearsal.plans) == 2
    moving.notify_as(first, "CELL-A")
    announce(moving, second, "CELL-A")
    assert told(rehearsal) == changed(before, moving) == {("cells", "CELL-A"): 30, ("cells", "CELL-B"): 3}


def test_a_preview_of_a_smaller_version_about_another_subject_tells_what_its_release_does(
    moving: Plant,  # noqa: F811
) -> None:
    path = moving.write("cells/1.txt", cell("CELL-A", *range(1, 19)))
    announce(moving, path, "CELL-A")
    announce(moving, moving.write("cells/2.txt", cell("CELL-D", 1000, hour=9)), "CELL-D")
    path.write_text(cell("CELL-D", 1, 1, 1, 1, 1))
    announce(moving, path, "CELL-A")
    before, derived, entry = totals(moving), moving.derived(), newest_entry(moving)
    assert before == {("cells", "CELL-A"): 171, ("cells", "CELL-D"): 1000}
    rehearsal = previewed(moving, path)
    assert moving.derived() == derived
    with moving.pool.connection() as connection:
        quarantine.release_file(connection, str(path), reason="it is another cell", by="ada")
    moving.drain()
    assert (
        told(rehearsal) == changed(before, moving) == {("cells", "CELL-A"): None, ("cells", "CELL-D"): 1005}
    )
    assert told_spans(rehearsal) == noted_spans(moving, after=entry)


def test_a_dataset_that_was_just_described_can_be_planned_for(tmp_path: Path, dsn: str) -> None:
    plant = Plant(tmp_path, dsn, description=CELLS)
    try:
        path = plant.write("T1/x.csv", tool(1, 2))
        known = plant.rows("select dataset, scan_version from disarray.dataset_version order by 1, 2")
        rehearsal = planned(plant, path, subject="T1", description=CELLS + tools("a", "T*/*.csv"))
        assert told(rehearsal) == {("a", "T1"): 3}
        assert plant.rows("select dataset, scan_version from disarray.dataset_version order by 1, 2") == known
        assert plant.rows("select * from disarray.subject_version") == []
    finally:
        plant.pool.close()


def test_a_definition_that_was_just_changed_can_be_planned_for_a_subject_that_is_new(moving: Plant) -> None:  # noqa: F811
    moving.ingest(moving.write("T1/x.csv", tool(1, 2)))
    queued = moving.rows("select * from disarray.ingest_queue")
    largest = ALL.replace('kind = "sum"', 'kind = "max"')
    rehearsal = planned(moving, moving.write("T2/x.csv", tool(5, 2)), subject="T2", description=largest)
    assert told(rehearsal) == {("a", "T2"): 5}
    assert moving.rows("select * from disarray.ingest_queue") == queued
    assert moving.rows("select count(*) from disarray.dataset_version where superseded_at is not null") == [
        (0,)
    ]


def test_a_file_that_another_dataset_takes_now_is_planned_for_both(moving: Plant) -> None:  # noqa: F811
    moving.ingest(moving.write("T1/x1.csv", tool(1, 2)))
    path = moving.write("T1/y1.csv", tool(10, 20, hour=3))
    moving.ingest(path)
    before = totals(moving)
    rehearsal = planned(moving, path, subject="T1", description=SPLIT)
    moving.redefine(SPLIT)
    moving.drain()
    assert told(rehearsal) == changed(before, moving) == {("a", "T1"): 3, ("b", "T1"): 30}


def test_a_file_of_a_dataset_that_is_gone_is_planned_for_its_new_one_and_leaves_the_old(
    moving: Plant,  # noqa: F811
) -> None:
    path = moving.write("T1/y1.csv", tool(10, 20))
    moving.ingest(path)
    before = totals(moving)
    renamed = tools("b", "T*/*.csv") + CELLS
    rehearsal = planned(moving, path, subject="T1", description=renamed)
    moving.redefine(renamed)
    moving.drain()
    assert told(rehearsal) == changed(before, moving) == {("a", "T1"): None, ("b", "T1"): 30}


def test_a_plan_parks_what_contradicts_where_an_operator_is_to_decide(tmp_path: Path, dsn: str) -> None:
    description = tools("a", "T*/*.csv").replace("key = []", 'key = []\nconflict = "park"')
    plant = Plant(tmp_path, dsn, description=description)
    try:
        plant.ingest(plant.write("T1/1.csv", tool(1, 2)))
        path = plant.write("T1/2.csv", tool(1, 5))
        before = totals(plant)
        rehearsal = planned(plant, path, subject="T1")
        plant.ingest(path)
        assert told(rehearsal) == changed(before, plant) == {}
        [only] = rehearsal.plans
        assert [fragment.state for fragment in only.plan.changes.added] == ["parked"]
    finally:
        plant.pool.close()
