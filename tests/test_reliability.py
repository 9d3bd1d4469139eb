"""The page on reliability names what there is: every failpoint, and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

from disarray.failpoints import POINTS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reliability.md").read_text("utf-8")


def test_the_page_has_every_failpoint_as_it_is_declared_and_no_other() -> None:
    rows = re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \| (.*) \|$", PAGE, re.MULTILINE)
    assert dict(rows) == POINTS, "put what `python -m disarray.failpoints` prints into docs/reliability.md"


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 5
    assert [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).exists() or f"def {name}(" not in (ROOT / file).read_text("utf-8")
    ] == []
