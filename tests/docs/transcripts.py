"""Transcripts in the documentation: commands that are run, and what they print compared with what the page shows.

With `DISARRAY_WRITE_TRANSCRIPTS=1` the pages are written anew instead; read the difference before it is committed.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from disarray.cli.main import make_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What no two runs have in common: when something happened, how long it took, and where.
CHANGING = (
    (re.compile(r"written down \S+Z"), "written down THEN"),
    (re.compile(r"\b20[2-9]\d-\d\d-\d\d \d\d:\d\d:\d\dZ"), "THEN"),
    (re.compile(r"\bcheck_\d+_\d+_\d+"), "check_THEN"),
    (re.compile(r"(?m)^seconds( +)[\d.]+$"), r"seconds\1N"),
    (re.compile(r"(expected +|written in )[\d.]+ s"), r"\1N s"),
    (re.compile(r"the oldest is \d+ s old"), "the oldest is N s old"),
    (re.compile(r"(?m)^(\S+ +failing(?: +\d+){3}) +\d+ "), r"\1 N "),
    (re.compile(r"connection failed: .* See: "), "connection failed: … See: "),
    (re.compile(r'(?m)^roots = \["/[^"]+"\]$'), 'roots = ["HERE"]'),
)


@dataclass(frozen=True)
class Step:
    """One command of a page and what it is said to print."""

    command: str
    output: str


def steps_of(page: str) -> Iterator[Step]:
    """Every command of the console blocks, in order; a line that does not begin with `$` belongs to the one above."""
    for block in BLOCK.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield Step(command, output.strip("\n"))


def check_page(
    page: Path,
    *,
    folder: Path,
    environment: Mapping[str, str],
    without: Sequence[str] = (),
    before: Mapping[str, Callable[[], object]] | None = None,
    shown_as: Mapping[str, str] | None = None,
) -> None:
    """Run the commands of a page in a folder and compare what they print; some may be taken as they are shown.

    `before` has what the reader does by hand before a command, `shown_as` what a text of this run is on the page.
    """
    text = page.read_text("utf-8")
    shown = list(steps_of(text))
    run = [
        Step(step.command, _replaced(step.output, shown_as or {}))
        for step in _run_all(
            shown, folder=folder, environment=environment, without=without, before=before or {}
        )
    ]
    if os.environ.get("DISARRAY_WRITE_TRANSCRIPTS"):
        page.write_text(_rewritten(text, iter(run)), "utf-8")
        return
    for said, done in zip(shown, run, strict=True):
        assert _unchanging(done.output) == _unchanging(said.output), f"$ {said.command}\n{done.output}"


def _run_all(
    steps: Sequence[Step],
    *,
    folder: Path,
    environment: Mapping[str, str],
    without: Sequence[str],
    before: Mapping[str, Callable[[], object]],
) -> Iterator[Step]:
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("DISARRAY_")]:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        patch.chdir(folder)
        for step in steps:
            before.get(step.command, lambda: None)()
            is_left_out = step.command in without
            yield step if is_left_out else Step(step.command, _trimmed(_run(step.command, patch)))


def _run(command: str, patch: pytest.MonkeyPatch) -> str:
    """What a command prints; the page reads as one session, so a `cd` holds for what follows."""
    words = shlex.split(command)
    if words[0] == "cd":
        patch.chdir(words[1])
        return ""
    # A process for each command would be most of the time; one with Spark in it cannot share this process.
    if words[0] == "disarray" and words[1] != "verify" and not {"|", ">"} & set(words):
        return _run_here(words[1:])
    done = subprocess.run(
        ["bash", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}"
    return done.stdout


def _run_here(words: Sequence[str]) -> str:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        result = CliRunner().invoke(make_app(words), list(words), prog_name="disarray")
    finally:
        root.handlers, root.level = before, level
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert result.exit_code == 0, f"$ disarray {' '.join(words)}\n{result.output}{result.exception!r}"
    return result.output


def _rewritten(text: str, run: Iterator[Step]) -> str:
    def block(found: re.Match[str]) -> str:
        count = len(list(steps_of(found.group(0))))
        shown = (f"$ {step.command}\n{step.output}".strip("\n") for step in (next(run) for _ in range(count)))
        return "```console\n" + "\n\n".join(shown) + "\n```"

    return BLOCK.sub(block, text)


def _replaced(output: str, shown_as: Mapping[str, str]) -> str:
    for real, shown in shown_as.items():
        output = output.replace(real, shown)
    return output


def _trimmed(output: str) -> str:
    """Without the blanks with which tables fill their lines."""
    return "\n".join(line.rstrip() for line in output.splitlines()).strip("\n")


def _unchanging(output: str) -> str:
    for pattern, text in CHANGING:
        output = pattern.sub(text, output)
    return output
