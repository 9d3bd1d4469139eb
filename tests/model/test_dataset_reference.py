from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from disarray.kernels.parsing.rejects import RejectReason

if TYPE_CHECKING:
    from tests.model.conftest import Specs

REFERENCE = Path(__file__).parents[2] / "docs" / "dataset-reference.md"
SECTIONS = {
    "dataset": "Dataset",
    "subject": "Subject",
    "events": "Events",
    "event_time": "Event time",
    "start": "Start",
    "column": "Column",
    "alternative": "Alternative",
    "rejects": "Rejects",
    "metric": "Metric",
    "rollup": "Rollup",
    "shift": "Shift",
    "aggregate": "Aggregate",
    "format": "Format",
    "preamble": "Preamble",
    "preamble_field": "Preamble field",
    "header": "Header",
}


def documented() -> dict[str, set[str]]:
    """The keys in the tables of each section."""
    parts = re.split(r"^## (.+)$", REFERENCE.read_text("utf-8"), flags=re.MULTILINE)
    return {
        title: set(re.findall(r"^\| `(\w+)` \|", body, flags=re.MULTILINE))
        for title, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def every_key(document: dict[str, Any], specs: Specs) -> dict[str, set[str]]:
    """What the reader knows, once a relative start and events have made it ask for their tables too."""
    document["dataset"][0]["events"] = {"subject": "tool"}
    document["dataset"][0]["event_time"] = {
        "from": "t",
        "layouts": "relative s",
        "start": {"preamble": "started", "layouts": "iso"},
    }
    known = specs.known_keys(document)
    known["format"].add("like")
    return known


def test_no_kind_of_table_is_forgotten(document: dict[str, Any], specs: Specs) -> None:
    free_names = {"", "document", "attribute"}
    assert set(every_key(document, specs)) - free_names == set(SECTIONS)


@pytest.mark.parametrize("kind", sorted(SECTIONS))
def test_the_reference_has_exactly_the_keys_that_the_reader_knows(
    document: dict[str, Any], specs: Specs, kind: str
) -> None:
    assert documented()[SECTIONS[kind]] == every_key(document, specs)[kind]


def test_every_reason_for_a_reject_is_listed() -> None:
    assert documented()["Reject reasons"] == {reason.value for reason in RejectReason}


def test_the_example_in_the_reference_loads(tmp_path: Path) -> None:
    from disarray.formats.loader import load_datasets

    blocks = re.findall(r"```toml\n(.*?)```", REFERENCE.read_text("utf-8"), flags=re.DOTALL)
    whole = next(block for block in blocks if "[[dataset]]" in block)
    (tmp_path / "disarray.toml").write_text(whole)
    (dataset,) = load_datasets(tmp_path / "disarray.toml")
    assert [metric.name for metric in dataset.metrics] == ["equivalent_cycles"]
