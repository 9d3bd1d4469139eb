from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disarray.errors import FragmentMismatchError
from disarray.kernels.scanning.conflicts import MAX_LISTED
from disarray.kernels.scanning.merging import Merged, merge_fragments
from disarray.kernels.scanning.winners import group_equal
from disarray.model.description.format import EVENT_US, POSITION
from disarray.model.description.read_spec import Key, KeyKind
from tests.kernels.expression_reference import COLUMNS, Value
from tests.kernels.scan_reference import key_text, merge
from tests.kernels.scan_worlds import SPEC, fragment, random_world, readings_table

if TYPE_CHECKING:
    import random


def told(merged: Merged) -> list[tuple[int, Value, str]]:
    """(event time, i, uri) of each winner."""
    readings = merged.readings
    return list(
        zip(
            readings.column(EVENT_US).to_pylist(),
            readings.column("i").to_pylist(),
            [merged.uris[source] for source in merged.sources],
            strict=True,
        )
    )


def test_readings_of_files_that_do_not_overlap_are_not_copied() -> None:
    first, second = fragment("a", (1, 1), (2, 2)), fragment("b", (3, 3), (4, 4))
    merged = merge_fragments([second, first], SPEC)
    assert told(merged) == [(1, 1, "a"), (2, 2, "a"), (3, 3, "b"), (4, 4, "b")]
    addresses = [chunk.buffers()[1].address for chunk in merged.readings.column("i").chunks]
    assert addresses == [each.readings.column("i").chunk(0).buffers()[1].address for each in (first, second)]


def test_a_repeat_inside_a_file_stays_and_its_copy_in_another_file_goes() -> None:
    merged = merge_fragments([fragment("a", (1, 7), (1, 7)), fragment("b", (1, 7), (1, 7), (1, 7))], SPEC)
    assert told(merged) == [(1, 7, "b"), (1, 7, "b"), (1, 7, "b")]
    assert (merged.duplicates, merged.conflicts) == (2, 0)


def test_the_higher_priority_wins_and_the_loser_returns_without_it() -> None:
    spec = replace(SPEC, key=Key(KeyKind.COLUMNS))
    low, high = fragment("z", (1, 1)), fragment("a", (1, 2), priority=1)
    merged = merge_fragments([low, high], spec)
    assert told(merged) == [(1, 2, "a")]
    assert (merged.duplicates, merged.conflicts) == (1, 1)
    assert told(merge_fragments([low], spec)) == [(1, 1, "z")]


def test_of_equal_priority_the_greater_uri_by_bytes_and_then_the_later_position_wins() -> None:
    spec = replace(SPEC, key=Key(KeyKind.COLUMNS))
    merged = merge_fragments(
        [fragment("ä", (1, 1), (1, 2)), fragment("z", (1, 3)), fragment("Z", (1, 4))], spec
    )
    assert told(merged) == [(1, 2, "ä")]
    assert merged.conflict_list.column("loser_uri").to_pylist() == ["Z", "z", "ä"]


def test_fragments_of_one_file_that_interleave_are_put_in_order_by_position() -> None:
    whole = fragment("a", *((1, value) for value in range(6)))
    parts = [replace(whole, readings=whole.readings.take([0, 2, 4]), rows=3)]
    parts += [replace(whole, readings=whole.readings.take([1, 3, 5]), rows=3)]
    assert [value for _, value, _ in told(merge_fragments(parts, SPEC))] == [0, 1, 2, 3, 4, 5]


def test_without_a_key_everything_stays() -> None:
    merged = merge_fragments(
        [fragment("a", (1, 7), (1, 7)), fragment("b", (1, 7))], replace(SPEC, key=Key(KeyKind.NONE))
    )
    assert len(told(merged)) == 3


def test_conflicts_are_counted_all_and_listed_up_to_a_cap() -> None:
    spec = replace(SPEC, key=Key(KeyKind.COLUMNS))
    merged = merge_fragments(
        [fragment("a", *((at, 1) for at in range(50))), fragment("b", *((at, 2) for at in range(50)))], spec
    )
    assert (merged.duplicates, merged.conflicts) == (50, 50)
    assert merged.conflict_list.column("event_us").to_pylist() == list(range(MAX_LISTED))


def test_a_fragment_with_fewer_readings_than_the_catalog_says_is_an_error() -> None:
    with pytest.raises(FragmentMismatchError, match="holds 1 valid readings where the catalog says 2"):
        merge_fragments([replace(fragment("a", (1, 1)), rows=2)], SPEC)


def test_a_fragment_out_of_order_is_an_error() -> None:
    with pytest.raises(FragmentMismatchError, match="a fragment of a is not sorted by event time"):
        merge_fragments([fragment("a", (2, 1), (1, 1))], SPEC)


def test_a_segment_whose_fragments_are_all_cut_away_is_empty() -> None:
    merged = merge_fragments([replace(fragment("a", (1, 1)), rows=0, cut=0)], SPEC)
    assert merged.readings.num_rows == 0
    assert merged.readings.column_names == [EVENT_US, POSITION, *COLUMNS]


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**63))
def test_merging_is_what_the_law_says_row_by_row(seed: int) -> None:
    world = random_world(seed)
    expected = merge(world.rows, world.spec)
    merged = merge_fragments(world.fragments, world.spec)
    assert [
        (merged.uris[source], position)
        for source, position in zip(merged.sources, merged.readings.column(POSITION).to_pylist(), strict=True)
    ] == [(row.uri, row.position) for row in expected.winners]
    assert merged.readings.equals(
        readings_table(expected.winners, world.spec).select(merged.readings.column_names)
    )
    assert merged.duplicates == expected.duplicates
    assert merged.conflicts == len(expected.conflicts)
    listed = merged.conflict_list.to_pylist()
    assert len(listed) == min(merged.conflicts, MAX_LISTED)
    assert [set(json.loads(row.pop("differences"))) for row in listed] == [
        {name for name, value in winner.values.items() if value != loser.values[name]}
        for winner, loser in expected.conflicts[:MAX_LISTED]
    ]
    assert listed == [
        {
            "event_us": loser.event_us,
            "channel": loser.channel,
            "key_values": key_text(loser, world.spec.key.columns),
            "winner_uri": winner.uri,
            "winner_position": winner.position,
            "loser_uri": loser.uri,
            "loser_position": loser.position,
        }
        for winner, loser in expected.conflicts[:MAX_LISTED]
    ]
    pairs = Counter((winner.uri, loser.uri) for winner, loser in expected.conflicts)
    assert {(winner, loser): count for winner, loser, count in merged.conflict_pairs} == pairs


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**63), shuffle=st.randoms(use_true_random=False))
def test_the_order_of_fragments_leaves_no_trace(seed: int, shuffle: random.Random) -> None:
    world = random_world(seed)
    once = merge_fragments(world.fragments, world.spec)
    shuffle.shuffle(world.fragments)
    again = merge_fragments(world.fragments, world.spec)
    assert again.readings.equals(once.readings)
    assert again.sources.tolist() == once.sources.tolist()
    assert again.conflict_list.equals(once.conflict_list)


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2)), min_size=1),
    seeds=st.sampled_from([(0x9E3779B97F4A7C15,), (0, 0x9E3779B97F4A7C15), (0, 0), ()]),
)
def test_rows_that_share_a_hash_but_not_a_key_are_told_apart(
    rows: list[tuple[int, int, int]], seeds: tuple[int, ...]
) -> None:
    rows.sort(key=lambda row: row[0])
    columns = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
    # The factor 0 gives every row the same hash.
    groups = group_equal(columns[0], columns[1:], seeds=seeds)
    found = np.split(groups.members, groups.starts[1:]) if len(groups.members) else []
    expected: dict[tuple[int, int, int], list[int]] = {}
    for number, row in enumerate(rows):
        expected.setdefault(row, []).append(number)
    assert sorted(group.tolist() for group in found) == sorted(g for g in expected.values() if len(g) > 1)
