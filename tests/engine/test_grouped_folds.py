"""Folds of many groups at once have the bits of adding one value after the other."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from disarray.engine.verification.grouped_folds import fold_groups


@pytest.mark.parametrize("seed", range(20))
def test_each_group_is_folded_from_left_to_right(seed: int) -> None:
    source = random.Random(seed)
    lengths = [source.choice([1, 1, 2, 3, 7, 64, 65, 300, 5000]) for _ in range(source.randint(1, 40))]
    groups = [
        [source.choice([1e16, 1.0, -1e16, source.uniform(-1, 1)]) for _ in range(length)]
        for length in lengths
    ]
    expected = []
    for group in groups:
        total = group[0]
        expected.append(total)
        for value in group[1:]:
            total += value
            expected.append(total)
    starts = np.cumsum([0, *lengths[:-1]])
    folded, fits = fold_groups(np.add, np.array([value for group in groups for value in group]), starts)
    assert fits.all()
    assert [struct.pack("d", each) for each in folded] == [struct.pack("d", each) for each in expected]


def test_a_whole_sum_that_leaves_int64_is_marked_from_there_on() -> None:
    largest = 2**63 - 1
    values = np.array([largest, 1, -1, 5, largest, -1])
    folded, fits = fold_groups(np.add, values, np.array([0, 3, 4]))
    assert fits.tolist() == [True, False, False, True, True, True]
    assert folded[fits].tolist() == [largest, 5, largest, largest - 1]
