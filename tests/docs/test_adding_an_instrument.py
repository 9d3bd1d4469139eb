"""Somebody who follows the page gets an unknown file in and a number out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.transcripts import check_page, steps_of

PAGE = Path(__file__).parents[2] / "docs" / "adding-an-instrument.md"


@pytest.mark.postgres
def test_the_file_of_the_page_goes_in_and_its_number_comes_out(
    tmp_path: Path, in_process: dict[str, str]
) -> None:
    text = PAGE.read_text("utf-8")
    (tmp_path / "inbox").mkdir()
    shown = next(step for step in steps_of(text) if step.command == "cat inbox/room1.txt")
    (tmp_path / "inbox" / "room1.txt").write_text(shown.output + "\n")
    [dataset] = [
        block for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[[dataset]]" in block
    ]

    def describe() -> None:
        (tmp_path / "disarray.toml").write_text(dataset)

    check_page(PAGE, folder=tmp_path, environment=in_process, before={"disarray up --once": describe})
