"""The recompute chooses between files that disagree by itself, and by what the catalog says of their arrival."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.engine.runner import InProcessRunner
from disarray.engine.verification.verify import verify
from tests.plant import Plant
from tests.worker.test_conflicts import DESCRIPTION, HEADER, line

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize(
    ("rule", "goes_by_arrival"),
    [
        ('conflict = "arrival"', True),
        ('conflict = { newest = "revision" }', False),
        ('conflict = "park"', False),
    ],
)
def test_the_recompute_finds_the_winners_of_every_rule_and_notices_another_arrival(
    tmp_path: Path, dsn: str, rule: str, goes_by_arrival: bool
) -> None:
    plant = Plant(tmp_path, dsn, description=DESCRIPTION.format(options=rule))
    plant.ingest(plant.write("T1/b.csv", HEADER + line(1, 7, 5.0, 1) + line(2, 7, 6.0, 1)))
    plant.ingest(plant.write("T1/a.csv", HEADER + line(1, 7, 4.0, 2) + line(3, 7, 3.0, 1)))
    found = []
    for statement in ("select 1", "update disarray.file_info set arrival = 100 - arrival returning 1"):
        plant.rows(statement)
        with plant.pool.connection() as connection:
            report = verify(
                connection,
                InProcessRunner(),
                plant.datasets,
                lake=plant.place.lake,
                subject_key=None,
                dataset=None,
            )
        found.append(report.is_identical(allow_vanished=False))
    plant.pool.close()
    assert found == [True, not goes_by_arrival]
