"""Columns that are declared dimensions: where that is refused, and what it leaves alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.errors import SpecError
from disarray.formats.loader import load_datasets
from disarray.model.description.readings_table import readings_table

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.model.description.dataset import Dataset

DATASET = """
[[dataset]]
name = "cells"
roots = ["inbox"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
%(store)s
[dataset.columns]
%(column)s
amps = "float64"
"""
TABLE = 'store = "timescale"'


def read(path: Path, *, column: str, store: str = TABLE) -> Dataset:
    file = path / "disarray.toml"
    file.write_text(DATASET % {"store": store, "column": column})
    [dataset] = load_datasets(file)
    return dataset


@pytest.mark.parametrize(
    ("column", "store", "message"),
    [
        (
            'job = { type = "string", dimension = true }',
            "",
            r"columns\.job\.dimension: the lake has no dimensions",
        ),
        ('job = { type = "int64", dimension = true }', TABLE, "has a meaning for type string alone"),
        ('job = { type = "string", dimension = "yes" }', TABLE, "expected true or false, found 'yes'"),
    ],
    ids=["in the lake", "no string", "no boolean"],
)
def test_a_dimension_that_cannot_be_is_refused(tmp_path: Path, column: str, store: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        read(tmp_path, column=column, store=store)


def test_a_dimension_changes_neither_version_and_only_its_own_part_of_the_table(tmp_path: Path) -> None:
    plain = read(tmp_path, column='job = "string"')
    valued = read(tmp_path, column='job = { type = "string", dimension = true }')
    assert valued.version == plain.version
    assert "joined" not in readings_table(plain).definition
    assert readings_table(plain).definition["columns"][0] == {"name": "job", "type": "string"}
    assert readings_table(valued).definition["columns"][0] == {
        "name": "job",
        "type": "string",
        "dimension": "cells_job",
    }


@pytest.mark.parametrize("name", ["running", "joined", "in_order", "y2026m10"])
def test_a_dimension_has_never_the_name_of_another_part_of_its_table(tmp_path: Path, name: str) -> None:
    dataset = read(tmp_path, column=f'{name} = {{ type = "string", dimension = true }}')
    assert [column.dimension for column in readings_table(dataset).dimensions] == [f"cells_{name}_values"]
