"""The page of all commands is what the commands say."""

from __future__ import annotations

from pathlib import Path

from disarray.documentation.cli_page import commands, reference

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_every_command_is_documented() -> None:
    page = PAGE.read_text("utf-8")
    assert [command for command in commands() if f"\n## {command}\n" not in page] == []
    assert "disarray dead-letters retry" in commands()


def test_the_page_is_what_the_commands_say_today() -> None:
    assert PAGE.read_text("utf-8") == reference(), (
        "run: python -m disarray.documentation.cli_page > docs/cli.md"
    )


def test_every_command_says_what_it_does_and_every_option_too() -> None:
    sections = reference().split("\n## ")[1:]
    silent = [section.splitlines()[0] for section in sections if not section.splitlines()[2].strip()]
    mute = [line for line in reference().splitlines() if line.startswith("| `--") and line.endswith("|  |")]
    assert (silent, mute) == ([], [])
