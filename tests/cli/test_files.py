"""`disarray files`: where a file stands, its history, and requests about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from disarray.cli.support.pass_report import rejects_document, rejects_sentence
from tests.cli.conftest import report

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from tests.plant import Plant

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres

DECISION = ("--reason", "wrong cell", "--by", "ada")


def test_files_are_listed_and_chosen_by_where_they_stand(run: Run, plant: Plant, late: Path) -> None:
    assert len(run("files", "list").stdout.splitlines()) == 4
    [parked] = json.loads(run("files", "list", "--status", "parked", "--json").stdout)
    assert parked["source_uri"] == str(late)
    assert run("files", "list", "--subject", "TOOL08").stdout == "No such file was ever announced.\n"


def test_a_file_is_shown_with_its_whole_history(run: Run, plant: Plant, late: Path) -> None:
    run("quarantine", "reject", "inbox/TOOL07/late.csv", *DECISION)
    told = run("files", "show", "inbox/TOOL07/late.csv").stdout
    assert "120 readings in 1 fragment" in told
    history = told[told.index("\nwhen ") :].splitlines()[2:]
    story = [line.split()[2] for line in history]
    assert story == ["enqueued", "completed", "quarantine_rejected"]
    assert "wrong cell" in told
    assert (
        json.loads(run("files", "show", str(late), "--json").stdout)["events"][0]["metadata"]["by"] == "ada"
    )


def test_of_a_parked_version_nothing_is_shown_as_if_it_were_in(run: Run, plant: Plant) -> None:
    plant.ingest(plant.write("TOOL07/shrunk.csv", report(9, 10)))
    plant.ingest(plant.write("TOOL07/shrunk.csv", report(9)))
    known = json.loads(run("files", "show", "inbox/TOOL07/shrunk.csv", "--json").stdout)
    assert known["status"] == "parked"
    assert known["metadata"]["lines"]["kept"] == 240
    assert known["metadata"]["parked_version"]["lines"]["kept"] == 120
    told = run("files", "show", "inbox/TOOL07/shrunk.csv").stdout.splitlines()
    assert [line.split(maxsplit=1)[1] for line in told if line.startswith("lines ")] == [
        "241 seen, 240 kept, 1 preamble"
    ]
    [parked] = [line for line in told if line.startswith("parked version")]
    assert "lines: 121 seen, 120 kept, 1 preamble" in parked


def test_rejected_lines_are_shown_with_their_file(run: Run, plant: Plant) -> None:
    [done] = plant.ingest(plant.write("TOOL07/torn.csv", "time,watts,good\n2026-10-01T11:30:00Z,much,1\n"))
    [rejects] = done.rejects
    assert (rejects.rejected, rejects.rows) == (1, 1)
    told = rejects_sentence(rejects_document(rejects))
    assert told.startswith("rejected: 1 of 1 row of ")
    assert "the first is line 2, bad_number in column 'watts'. See: disarray files show " in told
    shown = run("files", "show", "inbox/TOOL07/torn.csv")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "line 2: bad_number watts: '2026-10-01T11:30:00Z,much,1'" in shown.stdout
    [line] = json.loads(run("files", "show", "inbox/TOOL07/torn.csv", "--json").stdout)["rejected_rows"]
    assert (line["line"], line["position"]) == (2, 16)


def test_blacklisting_and_allowing_bring_the_numbers_back(run: Run, plant: Plant) -> None:
    before = plant.derived()
    path = str(plant.inbox / "TOOL07" / "0.csv")
    assert "is blacklisted" in run("files", "blacklist", path, *DECISION).stdout
    plant.drain()
    assert plant.derived() != before
    assert "by ada: wrong cell" in run("files", "show", path).stdout
    assert "is allowed" in run("files", "allow", path, *DECISION).stdout
    plant.drain()
    assert plant.derived() == before
    assert "is to be read again" in run("files", "reingest", path, "--by", "ada").stdout
    plant.drain()
    assert plant.derived() == before


def test_an_unknown_file_is_answered_with_the_nearest(run: Run, plant: Plant) -> None:
    ended = run("files", "show", "inbox/TOOL07/nwe.csv")
    assert ended.returncode == 1
    assert "did you mean 'new.csv'?" in ended.stderr
