"""What the page about Python shows is what its commands print."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from disarray.notebook.plant import Plant
from tests.docs.transcripts import check_page

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


@pytest.mark.postgres
def test_every_command_of_the_page_prints_what_it_shows(tmp_path: Path, in_process: dict[str, str]) -> None:
    check_page(PAGE, folder=tmp_path, environment=in_process)


def test_every_question_and_its_arguments_are_on_the_page() -> None:
    shown = dict(re.findall(r"^\| `plant\.(\w+)\((.*?)\)` \|", PAGE.read_text("utf-8"), re.MULTILINE))
    questions = {
        name: kind
        for name, kind in inspect.getmembers(Plant, inspect.isfunction)
        if not name.startswith("_") and name != "close"
    }
    assert set(shown) == set(questions)
    for name, question in questions.items():
        known = set(inspect.signature(question).parameters) - {"self", "limit"}
        assert {each.partition("=")[0].strip() for each in shown[name].split(",") if each} == known
