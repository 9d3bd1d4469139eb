"""`disarray up --once` tells the state of the plant, run after run, not only what the run itself met."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import report
from tests.cli.test_up import SETTINGS
from tests.plant import Plant
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres

WITH_HORIZON = DATASET.replace("key = []", 'key = []\nhorizon = "6 h"').replace("[^/]+", r"TOOL\d+")
BAD_ROWS = "time,watts,good\nno time,1,1\nnor here,2,1\n"


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A project with one good file; what is over six hours late is parked."""
    built = Plant(tmp_path, dsn, description=SETTINGS + WITH_HORIZON)
    built.write("TOOL01/good.csv", report(10))
    yield built
    built.pool.close()


def once(run: Run, *options: str) -> tuple[int, dict[str, Any]]:
    ended = run("up", "--once", "--json", *options)
    return ended.returncode, json.loads(ended.stdout)


def names(part: dict[str, Any]) -> list[str]:
    return [each["file"].rpartition("/")[2] for each in part["files"]]


def test_what_waits_is_told_by_every_run_until_it_is_settled(plant: Plant, run: Run) -> None:
    assert once(run)[0] == 0
    plant.write("TOOL01/late.csv", report(1))
    plant.write("TOOL02/broken.csv", "no,such,columns\n1,2,3\n")
    plant.write("TOOL02/rejected.csv", BAD_ROWS)
    plant.write("lab/refused.csv", report(0))
    plant.write("notes.txt", "not a report")
    for _ in range(2):
        code, state = once(run)
        assert code == 1
        assert not state["ok"]
        told = {kind: names(state["waits"][kind]) for kind in state["waits"] if kind != "empty_globs"}
        assert told == {
            "parked": ["late.csv"],
            "failed": ["broken.csv"],
            "retrying": [],
            "events": [],
            "queued": [],
            "rejected": ["rejected.csv"],
            "headerless": [],
            "refused": ["refused.csv"],
            "unmatched": ["notes.txt"],
            "unreadable": [],
        }
    text = run("up", "--once").stdout
    for name, command in (
        ("late.csv", "disarray quarantine preview"),
        ("broken.csv", "disarray files show"),
        ("rejected.csv", "disarray files show"),
        ("refused.csv", "subject"),
        ("notes.txt", "agent.ignore"),
    ):
        [line] = [line for line in text.splitlines() if name in line]
        assert command in line
    # The job that knows of them goes on; what fails for the first time still ends with 1.
    assert once(run, "--allow-waiting")[0] == 0
    plant.write("TOOL03/broken_too.csv", "no,such,columns\n1,2,3\n")
    assert once(run, "--allow-waiting")[0] == 1
    assert once(run, "--allow-waiting")[0] == 0

    for name in ("lab/refused.csv", "notes.txt"):
        (plant.inbox / name).unlink()
    run("quarantine", "reject", str(plant.inbox / "TOOL01/late.csv"), "--reason", "a test", "--by", "me")
    for name in ("TOOL02/broken.csv", "TOOL03/broken_too.csv"):
        run("dead-letters", "discard", str(plant.inbox / name), "--reason", "a test", "--by", "me")
    run("files", "blacklist", str(plant.inbox / "TOOL02/rejected.csv"), "--reason", "a test", "--by", "me")
    code, state = once(run)
    assert (code, state["ok"]) == (0, True), state["waits"]


def test_a_glob_that_never_matched_anything_is_named(plant: Plant, run: Run) -> None:
    plant.description.write_text(SETTINGS + WITH_HORIZON.replace('"**/*.csv"', '"**/*.csv", "**/*.cvs"'))
    code, state = once(run)
    assert code == 1
    [empty] = state["waits"]["empty_globs"]["globs"]
    assert (empty["dataset"], empty["glob"]) == ("tools", "**/*.cvs")
    assert "'**/*.cvs'" in run("up", "--once").stdout
    plant.write("TOOL09/a.cvs", report(0))
    assert once(run)[0] == 0
    # What was taken in and then moved away did match.
    (plant.inbox / "TOOL09/a.cvs").unlink()
    assert once(run)[0] == 0


def test_a_file_of_another_kind_is_told_and_not_taken_for_an_empty_one(
    tmp_path: Path, dsn: str, run: Run
) -> None:
    text = WITH_HORIZON.replace(
        'format = "csv"', 'format = { like = "csv", header = { pattern = "^time," } }'
    )
    assert text != WITH_HORIZON
    plant = Plant(tmp_path, dsn, description=SETTINGS + text)
    plant.write("TOOL01/empty.csv", "made by hand\ntime,watts,good\n")
    plant.write("TOOL01/other.csv", "stamp;power\n2026-10-01T00:00:00Z;5\n")
    for _ in range(2):
        code, state = once(run)
        assert code == 1
        assert names(state["waits"]["headerless"]) == ["other.csv"]
    shown = run("up", "--once").stdout
    assert "none of its 2 lines is the header" in shown
    assert "1 without a reading" in shown
    plant.write("TOOL01/other.csv", "time,watts,good\n")
    assert once(run)[0] == 0
    plant.pool.close()


def test_files_that_two_datasets_take_are_refused_once_and_no_pattern_is_called_empty(
    tmp_path: Path, dsn: str, run: Run
) -> None:
    other = WITH_HORIZON.replace('name = "tools"', 'name = "others"')
    plant = Plant(tmp_path, dsn, description=SETTINGS + WITH_HORIZON + other)
    plant.write("TOOL01/good.csv", report(10))
    ended = run("up", "--once")
    assert ended.returncode == 1
    [line] = [line for line in (ended.stdout + ended.stderr).splitlines() if "good.csv" in line]
    assert line.endswith(
        "good.csv is refused: matches the datasets 'tools' and 'others', so it was given to none; "
        "narrow 'files' or 'roots' of one"
    )
    assert "no file ever matched" not in ended.stdout
    plant.pool.close()


def test_lists_are_bounded_and_counts_are_not(plant: Plant, run: Run) -> None:
    for number in range(30):
        plant.write(f"TOOL02/broken{number}.csv", "no,such,columns\n1,2,3\n")
        plant.write(f"strange{number}.txt", "?")
    ended = run("up", "--once")
    assert ended.returncode == 1
    assert ended.stdout.count("was given up") == 20
    assert ended.stdout.count("agent.ignore") == 20
    assert "10 more" in ended.stdout
    _, state = once(run)
    assert state["waits"]["failed"]["count"] == state["waits"]["unmatched"]["count"] == 30


def test_a_preamble_that_names_nobody_is_told_by_later_runs_too(tmp_path: Path, dsn: str, run: Run) -> None:
    text = WITH_HORIZON.replace(
        """subject = { path = '^(?P<subject>TOOL\\d+)/' }""", 'subject = { preamble = "serial" }'
    )
    assert text != WITH_HORIZON
    preamble = "{ max_lines = 9, fields = { serial = 'Serial: (?P<value>.+)' } }"
    text = text.replace('format = "csv"', f'format = {{ like = "csv", preamble = {preamble} }}')
    plant = Plant(tmp_path, dsn, description=SETTINGS + text)
    plant.write("TOOL01/nameless.csv", "nothing here")
    for _ in range(2):
        code, state = once(run)
        assert code == 1
        assert names(state["waits"]["refused"]) == ["nameless.csv"]
    plant.pool.close()


def test_the_summary_lists_the_channels_of_a_subject(tmp_path: Path, dsn: str, run: Run) -> None:
    rows = "".join(
        f"2026-10-01T00:0{minute}:00Z,c{number},{minute},1\n" for minute in range(3) for number in range(12)
    )
    text = WITH_HORIZON.replace("key = []", 'key = []\nchannel = "channel"')
    text = text.replace(
        "[dataset.columns.watts]", '[dataset.columns.channel]\ntype = "string"\n[dataset.columns.watts]'
    )
    plant = Plant(tmp_path, dsn, description=SETTINGS + text)
    plant.write("TOOL01/many.csv", "time,channel,watts,good\n" + rows)
    told = run("up", "--once").stdout
    assert "TOOL01/c0" in told
    assert "TOOL01/c1" in told
    assert "more channels" in told
    plant.pool.close()


def test_a_dataset_that_is_split_gives_its_files_away_in_the_next_run(plant: Plant, run: Run) -> None:
    plant.write("TOOL01/y.csv", report(11))
    plant.write("TOOL01/z.csv", report(12))
    assert once(run)[0] == 0
    [before] = json.loads(run("value", "TOOL01", "good_total", "--json").stdout)["values"]
    one, other = WITH_HORIZON.replace("**/*.csv", "**/good.csv"), WITH_HORIZON.replace("**/*.csv", "**/y.csv")
    plant.description.write_text(SETTINGS + one + other.replace('name = "tools"', 'name = "presses"'))
    dry = run("rebuild", "--dry-run").stdout
    assert "1 file to move from tools/TOOL01 to presses/TOOL01" in dry
    assert "1 file that no dataset takes any more" in dry
    assert plant.rows("select count(*) from disarray.ingest_queue") == [(0,)]
    code, state = once(run)
    assert (code, names(state["waits"]["unmatched"])) == (1, ["z.csv"])
    for name, share in (("tools", 2), ("presses", 1)):
        told = json.loads(run("value", "TOOL01", "good_total", "--dataset", name, "--json").stdout)
        assert [(each["value"], each["final"]) for each in told["values"]] == [
            (before["value"] * share // 3, True)
        ]
    text = run("status").stdout
    assert "1 file that no dataset takes any more" in text
    assert "z.csv: 120 readings of it still count for tools/TOOL01" in text


def test_a_dataset_that_is_renamed_is_told_with_the_numbers_of_its_new_name(plant: Plant, run: Run) -> None:
    assert once(run)[0] == 0
    plant.description.write_text(SETTINGS + WITH_HORIZON.replace('name = "tools"', 'name = "presses"'))
    ended = run("up", "--once")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "good_total" in ended.stdout


def test_a_subject_of_two_datasets_is_one_subject(tmp_path: Path, dsn: str, run: Run) -> None:
    other = DATASET.replace('name = "tools"', 'name = "again"').replace(
        'roots = ["inbox"]', 'roots = ["more"]'
    )
    plant = Plant(tmp_path, dsn, description=SETTINGS + DATASET + other)
    for tool in ("TOOL01", "TOOL02"):
        plant.write(f"{tool}/first.csv", report(10))
        copy = tmp_path / "more" / tool / "first.csv"
        copy.parent.mkdir(parents=True)
        copy.write_text(report(10))
    first = run("up", "--once").stdout
    listed = [
        line.split()[0] for line in first.splitlines() if line.endswith("Z") and line.startswith("TOOL")
    ]
    assert listed == sorted(listed)
    assert {"TOOL01", "TOOL02"} == set(listed)
    for folder in ("inbox", "more"):
        (tmp_path / folder / "TOOL01" / "late.csv").write_text(report(1))
    assert "subjects    1 changed, 1 by late data" in run("up", "--once").stdout
    plant.pool.close()
