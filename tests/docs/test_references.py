"""Pages that are made from the program are what it says today."""

from __future__ import annotations

from pathlib import Path

from disarray.config import OPTIONS
from disarray.documentation.configuration_page import reference

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_of_settings_is_what_the_program_says_today() -> None:
    assert PAGE.read_text("utf-8") == reference(), (
        "run: python -m disarray.documentation.configuration_page > docs/configuration.md"
    )


def test_every_setting_has_its_key_variable_and_meaning_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    assert [option.name for option in OPTIONS if f"| `{option.variable}` |" not in page] == []
    assert [option.name for option in OPTIONS if not option.meaning] == []
