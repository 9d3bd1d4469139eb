"""Whatever the order, the batches and the decisions: the bits are those of a loop over what was accepted."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests import oracle
from tests.arrivals import DESCRIPTION, Arrivals, differences, stored
from tests.blocks import set_block_length
from tests.plant import Plant

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.postgres

# An example is a history of some five subjects and datasets at once, and takes about a second.
EXAMPLES = int(os.environ.get("DISARRAY_CONFLUENCE_EXAMPLES", "45"))
# Another seed is another history, not a simpler one: there is nothing to shrink.
SETTINGS = settings(
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory, shared_dsn: str) -> Iterator[Plant]:
    """One plant for all examples, with a dataset for each kind of key, with and without a horizon."""
    built = Plant(tmp_path_factory.mktemp("plant"), shared_dsn, description=DESCRIPTION)
    yield built
    built.pool.close()


@pytest.fixture(params=[1, 2, 7, 128, 1000])
def block_length(
    request: pytest.FixtureRequest, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> Iterator[int]:
    """Blocks of other lengths, in the plant and in the loop that it is compared with."""
    segments: int = request.param
    monkeypatch.setattr(oracle, "SEGMENTS_PER_BLOCK", segments)
    with plant.pool.connection() as connection:
        set_block_length(connection, segments)
    yield segments
    with plant.pool.connection() as connection:
        set_block_length(connection)


def check(plant: Plant, seed: int) -> None:
    plant.forget_everything()
    plant.place = replace(plant.place, max_shift_rows=[0, 20, 100_000][seed % 3])
    arrivals = Arrivals(plant, random.Random(seed))
    arrivals.run()
    assert differences(stored(plant), arrivals.expected()) == []
    assert set(plant.rows("select source_uri, part from disarray.list_quarantine()")) == arrivals.waiting
    arrivals.settle()
    assert differences(stored(plant), arrivals.expected()) == []
    assert set(plant.rows("select source_uri, part from disarray.list_quarantine()")) == arrivals.waiting
    assert plant.rows("select count(*) from disarray.dirty_range where resolved_at is null") == [(0,)]


@settings(SETTINGS, max_examples=5)
# A version is released whose last line is open, and it is a copy of a file that still waits.
@example(seed=64)
@given(seed=st.integers(0, 2**32))
def test_some_histories_of_arrivals_give_the_numbers_of_a_loop_over_what_was_accepted(
    plant: Plant, seed: int
) -> None:
    check(plant, seed)


def test_blocks_of_any_length_give_the_numbers_of_a_loop_over_what_was_accepted(
    plant: Plant, block_length: int
) -> None:
    check(plant, seed=block_length)
    lengths = plant.rows(
        """
        select distinct made.block_length_us / (own.segment_end_us - own.segment_us)
        from disarray.subject_version as made
        inner join disarray.segment as own using (dataset, subject_key)
        """
    )
    assert lengths == [(block_length,)]


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(SETTINGS, max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**32))
def test_any_history_of_arrivals_gives_the_numbers_of_a_loop_over_what_was_accepted(
    plant: Plant, seed: int
) -> None:
    check(plant, seed)
