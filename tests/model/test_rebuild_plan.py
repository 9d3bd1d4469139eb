"""Fragments that take the place of others under another definition: an operator's decisions outlive it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from disarray.errors import RebuildBlockedError
from disarray.model.catalog_changes import FileChange
from disarray.model.fragments import FragmentEntry, FragmentId, FragmentState
from disarray.model.rebuild_plan import plan_reread

HOUR = 3600


def fragment(
    hour: int, state: FragmentState = FragmentState.ACTIVE, *, hours: int = 1, uri: str = "f"
) -> FragmentEntry:
    return FragmentEntry(
        segment_us=hour * HOUR, source_uri=uri, generation=0, path="p", row_group=hour, readings=1,
        first_position=hour * 10, last_position=(hour + hours) * 10 - 1,
        first_us=hour * HOUR, last_us=(hour + hours) * HOUR - 1, state=state, fragment_id=FragmentId(hour),
    )  # fmt: skip


def change(*fragments: FragmentEntry, uri: str = "f") -> FileChange:
    fresh = tuple(replace(each, fragment_id=None, state=FragmentState.ACTIVE) for each in fragments)
    return FileChange(source_uri=uri, generation=0, seam_position=0, fragments=fresh)


PARKED = FragmentState.PARKED
KNOWN = [fragment(1), fragment(2, PARKED)]


def states(*changes: FileChange, horizon_start_us: int | None = None) -> list[FragmentState]:
    return [each.state for each in plan_reread(changes, KNOWN, horizon_start_us=horizon_start_us).added]


def test_everything_known_is_dropped_and_states_are_kept() -> None:
    planned = plan_reread([change(fragment(1), fragment(2))], KNOWN, horizon_start_us=None)
    assert planned.dropped == tuple(KNOWN)
    assert [each.state for each in planned.added] == [FragmentState.ACTIVE, PARKED]


def test_what_is_read_at_other_times_now_is_told_by_its_position() -> None:
    later = replace(fragment(2), first_us=90 * HOUR, last_us=90 * HOUR, segment_us=90 * HOUR)
    assert states(change(later)) == [PARKED]


def test_only_what_the_file_never_said_before_is_held_against_the_horizon() -> None:
    assert states(change(fragment(1), fragment(5)), horizon_start_us=9 * HOUR) == [
        FragmentState.ACTIVE,
        PARKED,
    ]
    assert states(change(fragment(5, uri="new"), uri="new"), horizon_start_us=9 * HOUR) == [PARKED]


def test_a_release_lets_all_of_the_file_count() -> None:
    released = replace(change(fragment(1), fragment(2)), is_released=True)
    assert states(released) == [FragmentState.ACTIVE] * 2


def test_a_release_is_about_what_was_parked_and_nothing_else() -> None:
    known = [fragment(1), fragment(2, PARKED), fragment(3, FragmentState.REJECTED)]
    released = replace(change(fragment(2), fragment(3), fragment(5)), is_released=True)
    planned = plan_reread([released], known, horizon_start_us=9 * HOUR)
    assert [each.state for each in planned.added] == [FragmentState.ACTIVE, FragmentState.REJECTED, PARKED]


def test_of_what_was_released_and_what_was_rejected_in_one_segment_an_operator_is_asked_again() -> None:
    known = [fragment(2, PARKED), fragment(3, FragmentState.REJECTED)]
    released = replace(change(fragment(2, hours=2)), is_released=True)
    planned = plan_reread([released], known, horizon_start_us=None)
    assert [each.state for each in planned.added] == [PARKED]


def test_a_segment_that_would_mix_what_counts_with_what_does_not_is_refused() -> None:
    with pytest.raises(RebuildBlockedError, match="blacklist the file and allow it again"):
        states(change(fragment(1, hours=2)))


def test_what_was_rejected_stays_rejected() -> None:
    known = [fragment(1), fragment(3, FragmentState.REJECTED)]
    planned = plan_reread([change(fragment(1), fragment(3))], known, horizon_start_us=None)
    assert [each.state for each in planned.added] == [FragmentState.ACTIVE, FragmentState.REJECTED]


def test_a_removed_file_adds_nothing() -> None:
    assert states(replace(change(fragment(1)), is_removed=True)) == []


def test_what_counted_in_a_sealed_segment_stays_as_it_is_and_what_is_new_there_is_parked() -> None:
    known = [fragment(1, FragmentState.SEALED), fragment(2)]
    planned = plan_reread(
        [change(fragment(1), fragment(2)), change(fragment(1, uri="late"), uri="late")],
        known,
        horizon_start_us=None,
        sealed={HOUR},
    )
    assert planned.dropped == (fragment(2),)
    assert [(each.source_uri, each.segment_us, each.state) for each in planned.added] == [
        ("f", 2 * HOUR, FragmentState.ACTIVE),
        ("late", HOUR, PARKED),
    ]


@pytest.mark.parametrize(
    ("known", "asked", "state"),
    [
        pytest.param([], {}, PARKED, id="would-count-twice"),
        pytest.param([], {"ignores_horizon": True}, PARKED, id="also-when-asked-for"),
        pytest.param([fragment(1, PARKED)], {}, PARKED, id="waits"),
        pytest.param([fragment(1, PARKED)], {"is_released": True}, FragmentState.ACTIVE, id="released-now"),
        pytest.param([fragment(1)], {}, FragmentState.ACTIVE, id="released-before"),
        pytest.param([fragment(1, FragmentState.SEALED)], {}, None, id="counted-here-as-well"),
    ],
)
def test_what_counts_for_ever_where_its_file_was_is_parked(
    known: list[FragmentEntry], asked: dict[str, Any], state: FragmentState | None
) -> None:
    there = (fragment(1, FragmentState.SEALED),)
    moved = replace(change(fragment(1), fragment(2)), moved_from=there, **asked)
    planned = plan_reread([moved], known, horizon_start_us=None)
    assert {each.segment_us: each.state for each in planned.added} == {
        **({HOUR: state} if state is not None else {}),
        2 * HOUR: FragmentState.ACTIVE,
    }
