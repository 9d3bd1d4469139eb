"""A definition that was kept as it was written is the same one when it is read again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from disarray.formats.loader import load_datasets
from disarray.model.description.dataset_reader import restore_dataset, written_text
from disarray.model.description.versions import changed_parts, parse_version, scan_version
from tests.engine.verification_world import DESCRIPTION

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.model.description.dataset import Dataset

# Floats that JSON could take for whole numbers, times of day as TOML has them, a format with something laid over it.
ODD = """
[[dataset]]
name = "odd"
roots = ["inbox", "/data/elsewhere"]
files = ["*.csv"]
format = { like = "csv", delimiter = ";" }
subject = { constant = "S" }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
horizon = "7 d"
[dataset.attributes."*"]
limit = 1e5
[dataset.columns.zulu]
type = "float64"
[dataset.columns.alpha]
type = "int64"
[dataset.metrics.work]
kind = "sum"
input = "zulu * limit"
[dataset.rollups.shift]
bucket = "shifts"
shifts = [{ name = "early", start = 06:00:00 }, { name = "late", start = 14:30:00 }]
[dataset.rollups.shift.aggregates]
readings = "count"
"""


def described(tmp_path: Path, text: str) -> Dataset:
    (tmp_path / "disarray.toml").write_text(text)
    [dataset] = load_datasets(tmp_path / "disarray.toml")
    return dataset


def through_json(dataset: Dataset) -> Dataset:
    return restore_dataset(json.loads(written_text(dataset)), dataset.version)


@pytest.mark.parametrize("text", [ODD, DESCRIPTION % {"key": "key = []"}], ids=["odd", "every kind"])
def test_a_definition_comes_back_as_it_was_from_anywhere(tmp_path: Path, text: str) -> None:
    dataset = described(tmp_path, text)
    restored = through_json(dataset)
    assert restored == dataset
    assert (parse_version(restored), scan_version(restored)) == (dataset.parse_version, dataset.scan_version)
    assert [column.name for column in restored.columns] == [column.name for column in dataset.columns]
    assert through_json(restored) == dataset


def test_a_definition_keeps_its_version_when_the_rules_behind_it_have_changed(tmp_path: Path) -> None:
    before = replace(described(tmp_path, ODD), parse_version="of older rules")
    assert through_json(before).parse_version == "of older rules"
    assert changed_parts(before, described(tmp_path, ODD)) == ("parsing: the rules of the program changed",)


def test_what_differs_is_told_by_name(tmp_path: Path) -> None:
    before = described(tmp_path, ODD)
    after = described(
        tmp_path,
        ODD.replace("metrics.work", "metrics.labour")
        .replace("14:30:00", "15:00:00")
        .replace("limit = 1e5", "limit = 2e5")
        .replace('delimiter = ";"', 'delimiter = "|"')
        .replace('zone = "UTC"', 'zone = "UTC"\nsegment = "1 h"'),
    )
    assert changed_parts(before, after) == (
        "parsing: delimiter changed",
        "parsing: segment changed",
        "metric labour is new",
        "metric work is gone",
        "rollup shift changed",
        "attributes changed",
    )
