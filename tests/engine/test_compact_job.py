"""Fragments are merged by Spark jobs as they are in the worker's own process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.plant import Plant
from tests.worker.conftest import DATASET
from tests.worker.test_compaction import EAGER, grow

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.engine.runner import Runner

pytestmark = pytest.mark.postgres


def test_a_file_that_grew_in_many_appends_becomes_one_fragment(
    tmp_path: Path, dsn: str, runner: Runner
) -> None:
    plant = Plant(tmp_path, dsn, description=DATASET)
    try:
        grow(plant, "TOOL08/grown.csv", steps=10)
        before = plant.derived()
        plant.place = replace(plant.place, housekeeping=EAGER, runner=runner)
        [report] = plant.keep_house()
        [kept] = report.kept
        assert (kept.segments_compacted, kept.fragments_before, kept.fragments_after) == (1, 10, 1)
        assert plant.derived() == before
    finally:
        plant.pool.close()
