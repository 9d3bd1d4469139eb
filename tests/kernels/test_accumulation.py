from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disarray.kernels.scanning.accumulation import accumulate, leaves_range, totals

# Lengths on both sides of where the way of computing changes.
LENGTHS = st.lists(st.sampled_from([1, 2, 3, 50, 95, 96, 97, 300]), min_size=1, max_size=12)


@settings(max_examples=100, deadline=None)
@given(lengths=LENGTHS, seed=st.integers(0, 2**32))
def test_sums_have_the_bits_of_adding_one_value_after_the_other(lengths: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.normal(0, 10.0 ** random.integers(-3, 12), sum(lengths))
    starts = np.cumsum([0, *lengths[:-1]])
    expected: list[float] = []
    for start, length in zip(starts, lengths, strict=True):
        total = 0.0
        for value in values[start : start + length].tolist():
            total += value
            expected.append(total)
    assert accumulate(np.add, values, starts).tolist() == expected
    ends = (starts + lengths - 1).tolist()
    assert totals(values, starts)[0].tolist() == [expected[end] for end in ends]


@settings(max_examples=50, deadline=None)
@given(lengths=LENGTHS, seed=st.integers(0, 2**32))
def test_extremes_run_within_their_group(lengths: list[int], seed: int) -> None:
    values = np.random.default_rng(seed).integers(-1000, 1000, sum(lengths))
    starts = np.cumsum([0, *lengths[:-1]])
    groups = np.split(values, starts[1:])
    expected = [min(group[: i + 1].tolist()) for group in groups for i in range(len(group))]
    assert accumulate(np.minimum, values, starts).tolist() == expected


@settings(max_examples=100, deadline=None)
@given(
    groups=st.lists(
        st.lists(st.sampled_from([1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63)]), min_size=1, max_size=5),
        min_size=1,
        max_size=5,
    )
)
def test_a_running_sum_beyond_int64_is_seen_even_if_it_comes_back(groups: list[list[int]]) -> None:
    values = np.array([value for group in groups for value in group], dtype=np.int64)
    starts = np.cumsum([0, *map(len, groups[:-1])])
    expected = []
    for group in groups:
        running = [sum(group[: i + 1]) for i in range(len(group))]
        expected.append(any(not -(2**63) <= each < 2**63 for each in running))
    assert leaves_range(values, accumulate(np.add, values, starts), starts).tolist() == expected
    assert totals(values, starts)[1].tolist() == expected


@pytest.mark.parametrize("length", [2, 200])
def test_a_float_sum_that_becomes_infinite_is_seen(length: int) -> None:
    values = np.full(length, 1.7e308)
    starts = np.array([0])
    with np.errstate(over="ignore"):
        assert leaves_range(values, accumulate(np.add, values, starts), starts).tolist() == [True]
        assert totals(values, starts)[1].tolist() == [True]


def test_nothing_folds_to_nothing() -> None:
    nothing, nowhere = np.empty(0), np.empty(0, dtype=np.int64)
    assert accumulate(np.add, nothing, nowhere).tolist() == []
    assert totals(nothing, nowhere)[0].tolist() == []
