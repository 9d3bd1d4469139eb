"""A lake that has lost a file: told by name, with what to do, and all is well once it is back."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.errors import FragmentDamagedError
from disarray.kernels.fragments.fragment_reader import read_fragment
from tests.plant import Plant
from tests.reading_lines import HEADER
from tests.worker.deliveries import DATASET, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    built = Plant(tmp_path, dsn, description=DATASET % {"key": ""})
    yield built
    built.pool.close()


@pytest.mark.postgres
def test_a_pass_that_needs_a_lost_file_names_it_and_succeeds_once_it_is_back(
    plant: Plant, advance_clock: Callable[[timedelta], None]
) -> None:
    lines = rows(random.Random(1), 60)
    plant.ingest(plant.write("L1/early.csv", HEADER + "".join(lines[:30])))
    stored = plant.derived()
    [lost] = plant.place.lake.root.rglob("*.parquet")
    aside = lost.rename(lost.with_suffix(".aside"))
    late = plant.write("L1/late.csv", HEADER + "".join(lines[30:]))
    [report] = plant.ingest(late)
    [message] = report.failed.values()
    assert str(lost) in message
    assert "Nothing was changed" in message
    assert "disarray audit" in message
    assert plant.derived() == stored
    aside.rename(lost)
    advance_clock(timedelta(hours=1))
    [again] = plant.ingest(late)
    assert len(again.completed) == 1
    assert plant.derived() != stored


def test_a_file_that_is_no_file_of_fragments_is_damaged(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(b"PAR1 and no more")
    with pytest.raises(FragmentDamagedError, match=r"damaged\.parquet of the lake is damaged: .* no footer"):
        read_fragment(str(damaged), 0)
