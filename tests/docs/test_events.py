"""What the page about events shows is what its commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.transcripts import check_page

PAGE = Path(__file__).parents[2] / "docs" / "events.md"


@pytest.mark.postgres
def test_every_command_of_the_page_prints_what_it_shows(tmp_path: Path, in_process: dict[str, str]) -> None:
    text = PAGE.read_text("utf-8")
    for language, name in (("toml", "disarray.toml"), ("json", "events.jsonl")):
        [block] = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        (tmp_path / name).write_text(block)
    check_page(PAGE, folder=tmp_path, environment=in_process)
