"""No text of a file reaches a terminal as anything but text."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disarray.cli.commands.up_once import _shown_progress
from disarray.cli.support.terminal import PlainStream
from disarray.model.printable import visible, visible_json

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from tests.plant import Plant

    Run = Callable[..., subprocess.CompletedProcess[str]]

# Sets the title of the window, clears the screen, and goes up a line; the last in one byte, as old terminals take it.
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b1A"


@given(st.text(st.characters(codec=None)))
def test_whatever_is_written_has_no_control_character_but_line_feed_and_tab(text: str) -> None:
    raw = io.StringIO()
    PlainStream(raw).write(text)
    written = raw.getvalue()
    assert not [
        each for each in written if each not in "\n\t" and not each.isprintable() and ord(each) < 0xA0
    ]
    written.encode()
    assert PlainStream(raw).write(text) == len(text)


@given(st.text(st.characters(codec=None)))
def test_json_reads_as_what_was_there(text: str) -> None:
    written = visible_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(written) == text
    assert visible(written) == written


def test_a_bar_is_drawn_and_names_in_it_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.StringIO()
    monkeypatch.setattr(raw, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdout", PlainStream(raw))
    monkeypatch.setenv("TERM", "xterm")
    with _shown_progress(2, is_quiet=False) as advance:
        advance(1, [{"subject": f"[red]T1{ESCAPES}", "arrival": "late"}])
    written = raw.getvalue()
    assert "\x1b[?25l" in written
    assert visible("\x1b[?25l") not in written
    assert "[red]T1" in written
    for sequence in ("\x1b]", "\x1b[2J", "\x9b", "\x07"):
        assert sequence not in written


@pytest.mark.parametrize("as_json", [False, True])
def test_a_header_cannot_write_on_the_terminal(
    run_on_terminal: Callable[..., str], tmp_path: Path, as_json: bool
) -> None:
    file = tmp_path / "T1.csv"
    rows = "".join(f"2026-10-01T0{hour}:00:00Z,{hour}.5,{hour}\n" for hour in range(9))
    file.write_text(f"time,volts,a{ESCAPES}b\n{rows}2026-10-01T09:00:00Z,{ESCAPES},3\n")
    shown = run_on_terminal("formats", "try", str(file), *(["--json"] if as_json else []))
    assert "owned" in shown
    for sequence in ("\x1b]", "\x1b[2J", "\x9b", "\x07"):
        assert sequence not in shown


@pytest.mark.postgres
def test_rejected_lines_and_channels_cannot_write_on_the_terminal(
    run_on_terminal: Callable[..., str], run: Run, plant: Plant
) -> None:
    path = plant.write("TOOL09/0.csv", f"time,watts,good\n2026-10-01T00:00:00Z,{ESCAPES},1\n")
    plant.ingest(path)
    shown = run_on_terminal("files", "show", str(path))
    assert "owned" in shown
    assert "\x1b]" not in shown
    assert "\x9b" not in shown
    # Also what is piped: somebody will look at it.
    assert "\x1b" not in run("files", "show", str(path)).stdout
    unknown = run("value", f"TOOL{ESCAPES}", "energy")
    assert "\x1b" not in unknown.stderr
    assert "\\x1b]0;owned" in unknown.stderr
