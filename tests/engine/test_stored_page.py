"""What is looked up of some subjects before they are recomputed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from disarray.engine.verification.selection import EVERYTHING, Selection
from disarray.engine.verification.stored_page import load_page
from tests.engine.verification_world import DESCRIPTION, report
from tests.plant import Plant

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.postgres


def parts_by_segment(plant: Plant, folder: Path, selection: Selection) -> dict[int, int]:
    """How many rollup parts of each segment are looked up."""
    folder.mkdir()
    with plant.pool.connection() as connection:
        page = load_page(connection, ["T1"], folder, selection=selection)
    found: dict[int, int] = {}
    for subjects in page.rollup_parts.values():
        for rows in subjects.values():
            for segment_us in pq.read_table(rows.path).column("segment_us").to_pylist():
                found[segment_us] = found.get(segment_us, 0) + 1
    return found


def test_of_a_sample_only_the_parts_of_its_segments_are_looked_up_and_those_of_no_segment(
    tmp_path: Path, dsn: str
) -> None:
    plant = Plant(tmp_path, dsn, description=DESCRIPTION % {"key": ""})
    plant.ingest(plant.write("T1/a.csv", report(random.Random(7), hour=0, rows=300)))
    everything = parts_by_segment(plant, tmp_path / "all", EVERYTHING)
    strays, *others = sorted(everything)
    with plant.pool.connection() as connection:
        [(length_us,)] = connection.execute(
            "delete from disarray.segment where segment_us = %s returning segment_end_us - segment_us",
            (strays,),
        ).fetchall()
    selection = Selection(share=0.5, seed="seven")
    wanted = {each for each in others if selection.takes("T1", each, length_us=length_us)} | {strays}
    assert 1 < len(wanted) < len(everything)
    found = parts_by_segment(plant, tmp_path / "some", selection)
    assert found == {each: everything[each] for each in wanted}
    since = Selection(since_us=others[-1])
    assert set(parts_by_segment(plant, tmp_path / "late", since)) == {strays, others[-1]}
    plant.pool.close()
