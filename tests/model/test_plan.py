"""What changes of files do to the catalog, as tables of before and after."""

from __future__ import annotations

from dataclasses import replace

import pytest

from disarray.model.catalog_changes import CatalogChanges, FileChange, plan_changes
from disarray.model.fragments import FragmentEntry, FragmentId, FragmentState
from disarray.model.scan_units import plan_scans, scan_unit

URI = "file:///a"


def fragment(segment: int, first: int, last: int, **changes: object) -> FragmentEntry:
    """A fragment at these positions of the file."""
    entry = FragmentEntry(
        segment_us=segment,
        source_uri=URI,
        generation=0,
        path="x.parquet",
        row_group=first,
        readings=last - first + 1,
        first_position=first,
        last_position=last,
        first_us=segment,
        last_us=segment + 9,
        fragment_id=FragmentId(first),
    )
    return replace(entry, **changes)  # type: ignore[arg-type]


PARKED, REJECTED = FragmentState.PARKED, FragmentState.REJECTED
KNOWN = [fragment(0, 0, 9), fragment(10, 10, 19), fragment(20, 20, 29, state=PARKED)]


def planned(change: FileChange, *, horizon: int | None = None) -> CatalogChanges:
    return plan_changes([change], {URI: KNOWN}, horizon_start_us=horizon)


def change(**parts: object) -> FileChange:
    return FileChange(**({"source_uri": URI, "generation": 0, "seam_position": None} | parts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "dropped", "cut", "released", "touched"),
    [
        pytest.param(change(), [], [], [], (), id="nothing-read"),
        pytest.param(change(is_removed=True), [0, 10, 20], [], [], (0, 10), id="removed"),
        pytest.param(change(is_released=True), [], [], [20], (20,), id="released"),
        pytest.param(change(seam_position=30), [], [], [], (), id="grown"),
        pytest.param(change(seam_position=15), [20], [10], [], (10,), id="cut-in-the-middle"),
        pytest.param(change(seam_position=25), [], [20], [], (), id="cut-what-is-parked"),
        pytest.param(
            change(seam_position=25, is_released=True), [], [20], [20], (20,), id="cut-and-released"
        ),
        pytest.param(
            change(seam_position=20, is_released=True), [20], [], [], (), id="replaced-not-released"
        ),
        pytest.param(change(seam_position=0, generation=1), [], [], [], (), id="another-generation"),
    ],
)
def test_what_a_change_does_to_the_fragments_that_are_there(
    asked: FileChange, dropped: list[int], cut: list[int], released: list[int], touched: tuple[int, ...]
) -> None:
    changes = planned(asked)
    assert [entry.fragment_id for entry in changes.dropped] == dropped
    assert [entry.fragment_id for entry in changes.cut] == cut
    assert [entry.fragment_id for entry in changes.released] == released
    assert changes.touched_segments == touched


@pytest.mark.parametrize(
    ("asked", "states"),
    [
        pytest.param(change(seam_position=30), ["parked", "active"], id="late-growth-waits"),
        pytest.param(change(seam_position=0), ["active", "active"], id="a-replacement-leaves-no-hole"),
        pytest.param(change(seam_position=30, ignores_horizon=True), ["active", "active"], id="asked-for"),
    ],
)
def test_what_is_beyond_the_horizon_is_parked_unless_it_replaces_what_counts(
    asked: FileChange, states: list[str]
) -> None:
    new = tuple(fragment(segment, 30 + segment, 39 + segment, fragment_id=None) for segment in (10, 20))
    changes = planned(replace(asked, fragments=new), horizon=15)
    assert [entry.state.value for entry in changes.added] == states


@pytest.mark.parametrize(
    ("asked", "states"),
    [
        pytest.param(change(seam_position=0), ["active", "parked", "parked"], id="not-released"),
        pytest.param(
            change(seam_position=0, is_released=True), ["active", "active", "parked"], id="replaced"
        ),
        pytest.param(change(seam_position=25, is_released=True), ["parked", "active", "parked"], id="cut"),
        pytest.param(change(seam_position=30, is_released=True), ["parked"] * 3, id="grown"),
    ],
)
def test_what_takes_the_place_of_released_readings_counts_as_they_do(
    asked: FileChange, states: list[str]
) -> None:
    new = tuple(fragment(segment, 30 + segment, 39 + segment, fragment_id=None) for segment in (10, 20, 30))
    changes = planned(replace(asked, fragments=new), horizon=100)
    assert [entry.state.value for entry in changes.added] == states


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        pytest.param(change(), {"contradicting": {(URI, 20)}}, id="contradicts"),
        pytest.param(change(is_released=True), {"sealed_segments": {20}}, id="sealed"),
    ],
)
def test_what_takes_the_place_of_parked_readings_waits_like_them(
    asked: FileChange, options: dict[str, set[object]]
) -> None:
    new = replace(asked, seam_position=20, fragments=(fragment(20, 20, 25, fragment_id=None),))
    changes = plan_changes([new], {URI: KNOWN}, horizon_start_us=None, **options)  # type: ignore[arg-type]
    assert [entry.state for entry in changes.added] == [PARKED]


def test_what_takes_the_place_of_a_released_contradiction_counts() -> None:
    new = change(seam_position=20, is_released=True, fragments=(fragment(20, 20, 25, fragment_id=None),))
    changes = plan_changes([new], {URI: KNOWN}, horizon_start_us=None, contradicting={(URI, 20)})
    assert [entry.state for entry in changes.added] == [FragmentState.ACTIVE]


def test_a_release_of_a_file_that_moves_is_about_what_was_parked_and_nothing_else() -> None:
    there = (fragment(0, 0, 9), fragment(10, 10, 19, state=PARKED), fragment(20, 20, 29, state=REJECTED))
    here = tuple(
        fragment(segment, segment, segment + 9, fragment_id=None, state=FragmentState.ACTIVE)
        for segment in (0, 10, 20, 30)
    )
    moved = change(seam_position=0, is_released=True, moved_from=there, fragments=here)
    changes = plan_changes([moved], {}, horizon_start_us=100)
    assert [entry.state.value for entry in changes.added] == ["active", "active", "rejected", "parked"]


def test_a_released_fragment_is_scanned_as_it_was_cut() -> None:
    changes = planned(change(seam_position=25, is_released=True))
    [unit] = plan_scans(changes, [], {20: 7})
    assert [(entry.cut_position, entry.state) for entry in unit.fragments] == [(25, FragmentState.ACTIVE)]
    assert unit.revision == 7


SEALED = FragmentState.SEALED
OLD = [fragment(0, 0, 9, state=SEALED), fragment(10, 10, 19)]


def planned_over_sealed(asked: FileChange) -> CatalogChanges:
    return plan_changes([asked], {URI: OLD}, horizon_start_us=None, sealed_segments={0})


@pytest.mark.parametrize(
    ("asked", "states", "left"),
    [
        pytest.param(
            change(seam_position=0, fragments=(fragment(0, 0, 9), fragment(10, 10, 25))),
            ["active"],
            [0],
            id="said-again",
        ),
        pytest.param(
            change(seam_position=0, fragments=(fragment(0, 0, 8), fragment(10, 10, 25))),
            ["parked", "active"],
            [],
            id="says-something-else",
        ),
        pytest.param(
            change(seam_position=20, fragments=(fragment(0, 20, 29), fragment(20, 30, 39))),
            ["parked", "active"],
            [],
            id="late-growth",
        ),
        pytest.param(
            change(seam_position=20, fragments=(fragment(0, 20, 29),), ignores_horizon=True),
            ["parked"],
            [],
            id="not-even-when-asked-for",
        ),
        pytest.param(change(is_removed=True), [], [0], id="removed"),
    ],
)
def test_what_is_for_a_sealed_segment_is_parked_unless_it_was_counted_there(
    asked: FileChange, states: list[str], left: list[int]
) -> None:
    changes = planned_over_sealed(asked)
    assert [entry.state.value for entry in changes.added] == states
    assert [entry.segment_us for entry in changes.sealed] == left
    assert 0 not in changes.touched_segments


@pytest.mark.parametrize(
    ("cuts", "parts"),
    [
        pytest.param({"a": None, "b": None}, [("b", None)], id="equal"),
        pytest.param({"a": 5, "b": 5}, [("b", 5)], id="cut-alike"),
        pytest.param({"a": None, "b": 5}, [("a", None), ("b", 5)], id="the-greater-is-cut"),
        pytest.param({"a": 5, "b": None}, [("a", 5), ("b", None)], id="the-lesser-is-cut"),
    ],
)
def test_a_row_group_is_scanned_once_for_files_that_still_say_the_same_of_it(
    cuts: dict[str, int | None], parts: list[tuple[str, int | None]]
) -> None:
    sharers = [fragment(0, 0, 9, source_uri=uri, cut_position=cut) for uri, cut in cuts.items()]
    unit = scan_unit(0, 1, sharers)
    assert sorted((part.source_uri, part.cut_position) for part in unit.fragments) == parts
    assert unit.copied_readings == 10 * (len(sharers) - len(parts))
