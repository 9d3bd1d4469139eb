from __future__ import annotations

import random
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from tests.model.conftest import DATASET

if TYPE_CHECKING:
    from tests.model.conftest import Specs

Document = dict[str, Any]


def change(path: str, value: object) -> Document:
    document = tomllib.loads(DATASET)
    table = document["dataset"][0]
    *folders, last = path.split(".")
    for folder in folders:
        table = table.setdefault(folder, {})
    table[last] = value
    return document


def shuffled(table: Any, chance: random.Random) -> Any:
    if isinstance(table, dict):
        keys = sorted(table)
        chance.shuffle(keys)
        return {key: shuffled(table[key], chance) for key in keys}
    if isinstance(table, list):
        return [shuffled(part, chance) for part in table]
    return table


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_keys_changes_no_version(document: Document, specs: Specs, seed: int) -> None:
    before = specs.one(document)
    after = specs.one(shuffled(document, random.Random(seed)))
    assert (after.parse_version, after.scan_version) == (before.parse_version, before.scan_version)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("columns.temperature.type", "string"),
        ("columns.amps.scale", 0.5),
        ("columns.temperature.from", "T2"),
        ("zone", "Europe/Paris"),
        ("segment", "12 h"),
        ("order_by", ["state"]),
        ("future_tolerance", "1 h"),
        ("rejects", {"max_count": 5}),
        ("subject", {"constant": "A"}),
        ("event_time.layouts", "iso"),
        ("format", {"like": "cycler", "null_tokens": ["-"]}),
    ],
)
def test_what_changes_parsing_changes_the_parse_version(
    document: Document, specs: Specs, path: str, value: object
) -> None:
    changed = change(path, value)
    if path.startswith("columns.temperature.type"):
        changed["dataset"][0]["rollups"].pop("hourly")
    assert specs.one(changed).parse_version != specs.one(document).parse_version


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metrics.charge.max_gap", "11 min"),
        ("metrics.charge.input", "amps / 3600.5"),
        ("metrics.more", {"kind": "count"}),
        ("rollups.hourly.bucket", "15 min"),
        ("attributes.CELL7.capacity", 4.7),
        ("conflict", "arrival"),
        ("conflict", {"newest": "volts"}),
        ("conflict", {"newest": "amps"}),
        ("key", ["rec", "state"]),
        ("key", "content"),
    ],
)
def test_what_changes_only_scanning_leaves_the_parse_version_alone(
    document: Document, specs: Specs, path: str, value: object
) -> None:
    before, after = specs.one(document), specs.one(change(path, value))
    assert after.scan_version != before.scan_version
    assert after.parse_version == before.parse_version


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("description", "Other words"),
        ("columns.temperature.unit", "K"),
        ("metrics.charge.unit", "A h"),
        ("metrics.charge.input", "  amps/3600.0 "),
        ("horizon", "none"),
        ("quiet_after", "1 h"),
        ("on_shrink", "park"),
        ("reread", "tail"),
        ("retain", "none"),
        ("files", ["cycler/*.txt"]),
        ("roots", ["elsewhere"]),
        ("segment", "360 min"),
        ("name", "other"),
    ],
)
def test_what_changes_no_number_changes_no_version(
    document: Document, specs: Specs, path: str, value: object
) -> None:
    before, after = specs.one(document), specs.one(change(path, value))
    assert (after.parse_version, after.scan_version) == (before.parse_version, before.scan_version)


def test_versions_are_the_same_in_every_process(document: Document, specs: Specs) -> None:
    dataset = specs.one(document)
    assert (dataset.parse_version, dataset.scan_version) == (
        "1dbe8cdf9b7de51ecc36a28687b03095",
        "07b5865ea3d585bb375f79fde0f91790",
    )
