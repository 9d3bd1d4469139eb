"""What the page about capacity shows is what was measured last."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks.capacity_page import GROWS_WITH, MARKS, PAGE, sections, write_page
from benchmarks.goals import COMMITTED_RESULTS

if TYPE_CHECKING:
    from pathlib import Path


def held(factor: int) -> dict[str, dict[str, int]]:
    """A plant in which every thing takes a kilobyte in each of its tables."""
    return {
        "units": dict.fromkeys(GROWS_WITH.values(), factor),
        "rows": dict.fromkeys(GROWS_WITH, factor),
        "bytes": dict.fromkeys(GROWS_WITH, 1000 * factor),
    }


def shown(page: Path) -> dict[str, str]:
    text = page.read_text("utf-8")
    return {
        name: text.partition(begin)[2].partition(end)[0].strip("\n") for name, (begin, end) in MARKS.items()
    }


def test_the_tables_of_a_run_take_the_place_of_those_before(tmp_path: Path) -> None:
    page = tmp_path / "capacity.md"
    page.write_text(PAGE.read_text("utf-8"), "utf-8")
    figures = {"small": held(10), "large": held(60)}
    write_page(figures, page)
    write_page(figures, page)
    assert shown(page) == sections(figures)
    assert "| `metric_block` | 1 | 1,000 | 1,000 | for ever |" in page.read_text("utf-8")
    assert page.read_text("utf-8").endswith(PAGE.read_text("utf-8").rpartition("<!-- end of")[2])


def test_the_tables_are_those_of_the_committed_result() -> None:
    figures: dict[str, Any] = json.loads((COMMITTED_RESULTS / "capacity.json").read_text("utf-8"))["figures"]
    # A result from before the tables were made of it holds one plant: the next run writes both.
    if "small" in figures:
        assert shown(PAGE) == sections(figures), "run: python -m benchmarks.capacity_page"
