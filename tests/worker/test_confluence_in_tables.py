"""The same histories of arrivals with readings in tables: the same numbers, and in both stores the same bits."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from disarray.control import values
from disarray.kernels.scanning import table_rows
from tests.arrivals import DATASETS, Arrivals, differences, stored
from tests.plant import Plant
from tests.store.agreement import assert_stores_agree
from tests.store.conftest import in_store, with_dimensions

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.postgres

EXAMPLES = int(os.environ.get("DISARRAY_CONFLUENCE_EXAMPLES", "4"))


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory, shared_dsn: str) -> Iterator[Plant]:
    """One plant for all examples, every dataset in a table, and some with dimensions."""
    half = len(DATASETS) // 2
    datasets = [in_store(text, "timescale") for text in DATASETS.values()]
    description = "".join([*map(with_dimensions, datasets[:half]), *datasets[half:]])
    built = Plant(tmp_path_factory.mktemp("plant"), shared_dsn, description=description)
    with pytest.MonkeyPatch.context() as patched:
        # Segments are short here: without this, none of them would have a beginning that stays.
        patched.setattr(table_rows, "_LEAST_BLOCK", 2)
        yield built
    built.pool.close()


@settings(
    deadline=None,
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32))
def test_any_history_of_arrivals_gives_the_same_bits_in_tables(plant: Plant, seed: int) -> None:
    plant.forget_everything()
    plant.place = replace(plant.place, max_shift_rows=[0, 20, 100_000][seed % 3])
    arrivals = Arrivals(plant, random.Random(seed))
    arrivals.run()
    arrivals.settle()
    assert differences(stored(plant), arrivals.expected()) == []
    with plant.pool.connection() as connection:
        found = list(values.all_subjects(connection))
    for span in found:
        assert_stores_agree(plant, plant.datasets[span.dataset], span.subject_key)
    for table in plant.tables():
        counted = f"select coalesce(sum(readings), 0)::bigint from disarray.segment where dataset = '{table}'"
        assert plant.rows(f"select count(*) from telemetry.{table}") == plant.rows(counted)
