"""The battery lab: its transcript is what the commands print, and its numbers are what a pencil makes of the files."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.docs.transcripts import check_page

EXAMPLE = Path(__file__).parents[2] / "examples" / "battery-lab"
HOUR = timedelta(hours=1)


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A copy of the example as it is in the repository, its generated files left out."""
    folder = tmp_path / "battery-lab"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".disarray", "inbox", "later"))
    return folder


@pytest.mark.postgres
def test_every_command_prints_what_the_page_shows_and_the_numbers_are_right(
    lab: Path, in_process: dict[str, str]
) -> None:
    check_page(EXAMPLE / "README.md", folder=lab, environment=in_process)

    assert value("CELL-17", "throughput", lab, in_process) == pytest.approx(8, abs=1e-9)
    assert value("CELL-17", "equivalent_cycles", lab, in_process) == pytest.approx(2, abs=1e-9)
    assert value("CELL-42", "throughput", lab, in_process) == pytest.approx(4, abs=1e-9)
    assert value("CELL-42", "equivalent_cycles", lab, in_process) == pytest.approx(0.5, abs=1e-9)


def test_the_page_is_right_by_hand(lab: Path) -> None:
    """The same numbers without disarray: lines, fractions and a pause that is left out by name."""
    subprocess.run([sys.executable, "generate.py"], cwd=lab, check=True, capture_output=True)
    maccor = [
        row
        for name in ("later/CELL-17_2025-10-30.txt", "inbox/maccor/CELL-17_2025-10-31.txt")
        for row in csv.DictReader((lab / name).read_text("windows-1252").splitlines()[1:], delimiter="\t")
    ]
    charge, paused = Fraction(0), Fraction(0)
    for before, after in pairwise(maccor):
        if (before["Cyc#"], before["Step"]) == (after["Cyc#"], after["Step"]):
            elapsed = local(after["DPt Time"]) - local(before["DPt Time"])
            amp_hours = abs(Fraction(before["Amps"])) * Fraction(elapsed / HOUR).limit_denominator(3600)
            if elapsed > timedelta(minutes=10):
                paused += amp_hours
            else:
                charge += amp_hours
    assert charge == 8  # and 8 / (2 * 2) full cycles
    assert paused == 6  # what would be counted too much

    neware = list(csv.DictReader((lab / "inbox/neware/CELL-42_2025-10-26.csv").read_text().splitlines()))
    stamps = [row["Date"] for row in neware]
    assert len(stamps) - len(set(stamps)) == 6  # 02:00, 02:10 … 02:50 came twice
    assert {row["Current(mA)"] for row in neware} == {"-1000.0"}
    by_the_wall_clock = datetime.fromisoformat(stamps[-1]) - datetime.fromisoformat(stamps[0])
    berlin = ZoneInfo("Europe/Berlin")
    first, last = (datetime.fromisoformat(stamps[at]).replace(tzinfo=berlin) for at in (0, -1))
    assert by_the_wall_clock == 3 * HOUR
    assert last.timestamp() - first.timestamp() == 4 * 3600


def test_the_file_that_comes_again_has_no_line_but_every_reading_in_common(lab: Path) -> None:
    subprocess.run([sys.executable, "generate.py"], cwd=lab, check=True, capture_output=True)
    former = [
        line
        for name in ("later/CELL-17_2025-10-30.txt", "inbox/maccor/CELL-17_2025-10-31.txt")
        for line in (lab / name).read_bytes().splitlines(keepends=True)[1:]
    ]
    again = (lab / "later/CELL-17_exported-again.txt").read_bytes().splitlines(keepends=True)[1:]
    assert not set(former) & set(again)
    assert readings(former) == readings(again)


def readings(lines: list[bytes]) -> dict[str, tuple[str, float, float]]:
    """What each record says, by its number; the header may come again in between."""
    texts = [line.decode().rstrip("\r\n").split("\t") for line in lines]
    names = texts[0]
    rows = (dict(zip(names, cells, strict=True)) for cells in texts if cells[0] != "Rec#")
    return {row["Rec#"]: (row["DPt Time"], float(row["Amps"]), float(row["Volts"])) for row in rows}


def local(stamp: str) -> datetime:
    return datetime.strptime(stamp, "%m/%d/%Y %H:%M:%S")  # noqa: DTZ007 - no clock change on these days


def value(subject: str, metric: str, lab: Path, environment: dict[str, str]) -> float:
    done = subprocess.run(
        [sys.executable, "-m", "disarray", "value", subject, metric, "--json"],
        cwd=lab,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    number = json.loads(done.stdout)["values"][0]["value"]
    assert isinstance(number, float)
    return number
