"""The independent recompute: identical where all is well, and it finds a single bit that is not."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from disarray.engine.verification import verify
from tests.engine.verification_world import DESCRIPTION, report
from tests.plant import Plant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from disarray.engine.runner import SparkRunner
    from disarray.engine.verification import VerificationReport

pytestmark = [pytest.mark.postgres, pytest.mark.spark]


class VerifiedPlant(Plant):
    """A plant that can be verified."""

    runner: SparkRunner

    def verify(self, subject_key: str | None = None) -> VerificationReport:
        """Recompute everything, or one subject."""
        with self.pool.connection() as connection:
            return verify(
                connection, self.runner.session, self.datasets, lake=self.place.lake, subject_key=subject_key
            )

    def fill(self, seed: int) -> None:
        """Two tools, a late file, a copy, overlaps, a file that grew, and one that is blacklisted again."""
        source = random.Random(seed)
        text = report(source, hour=0, rows=160)
        early, grown = self.write("T1/a.csv", text), self.write("T1/grown.csv", "")
        self.ingest(early, self.write("T2/a.csv", report(source, hour=1, rows=90)))
        long = report(source, hour=2, rows=200)
        for end in (900, 5000, len(long)):
            grown.write_text(long[:end])
            self.ingest(grown)
        self.ingest(self.write("T1/late.csv", report(source, hour=0.7, rows=60, step=31)))
        self.ingest(self.write("T1/copy.csv", text), self.write("T1/part.csv", text[: len(text) // 2]))


@pytest.fixture
def plant(tmp_path: Path, dsn: str, spark_runner: SparkRunner) -> Iterator[VerifiedPlant]:
    """A plant whose dataset has every kind of metric and aggregate."""
    built = VerifiedPlant(tmp_path, dsn, description=DESCRIPTION % {"key": ""})
    built.runner = spark_runner
    yield built
    built.pool.close()


def test_a_plant_with_late_copied_and_grown_files_is_identical(plant: VerifiedPlant) -> None:
    plant.fill(seed=1)
    found = plant.verify()
    assert found.differences == []
    assert found.is_identical()
    assert found.files == 6
    assert found.bases > 100
    assert found.rollup_parts > 100
