"""The README does what it says, and its numbers are those of the benchmarks."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks import readme
from benchmarks.__main__ import RUNS
from benchmarks.goals import COMMITTED_RESULTS, SHORT_RESULTS, results_folder
from benchmarks.readme import BEGIN, END, ROWS, numbers
from tests.docs.transcripts import check_page

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


@pytest.mark.postgres
def test_every_command_of_the_transcript_prints_what_the_page_shows(
    tmp_path: Path, in_process: dict[str, str]
) -> None:
    check_page(README, folder=tmp_path, environment=in_process, without=["disarray verify"])


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.postgres
def test_the_transcript_ends_identical_to_an_independent_recompute(
    tmp_path: Path, in_process: dict[str, str]
) -> None:
    check_page(README, folder=tmp_path, environment=in_process)


def test_the_two_commands_are_targets_of_make() -> None:
    [block] = re.findall(r"^```sh\n(.*?)^```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    targets = [line.split()[1] for line in block.splitlines()]
    assert targets == ["demo", "test"]
    subprocess.run(["make", "--dry-run", *targets], cwd=ROOT, check=True, capture_output=True)


def test_the_numbers_are_those_of_the_committed_results() -> None:
    shown = README.read_text("utf-8").partition(BEGIN)[2].partition(END)[0].strip()
    assert shown == numbers(), "run: python -m benchmarks.readme"
    # A row of a result that is gone would vanish in silence.
    assert len(shown.splitlines()) == 2 + sum(row.is_awaited for row in ROWS)


def test_what_is_run_by_hand_has_its_row_once_there_is_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readme, "COMMITTED_RESULTS", tmp_path)
    by_hand = [row for row in ROWS if row.benchmark == "billion"]
    assert by_hand
    assert not any(row.is_awaited for row in by_hand)
    goals = [
        {"name": row.goal, "measured": 1.25, "limit": 1.5, "at_least": False, "met": True} for row in by_hand
    ]
    result = {"command": "python -m benchmarks.billion", "goals": goals}
    (tmp_path / "billion.json").write_text(json.dumps(result))
    assert all(row.is_awaited for row in by_hand)
    assert len(readme.numbers().splitlines()) == 2 + len(by_hand)


def test_no_number_of_a_benchmark_stands_outside_the_generated_table() -> None:
    text = README.read_text("utf-8")
    prose = text.partition("## Numbers")[2].partition(BEGIN)[0] + text.partition(END)[2]
    assert not re.search(r"\d+(\.\d+)? ?(×|times|ms|MB)", prose)


def test_the_tests_that_prove_a_promise_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", README.read_text("utf-8"))
    assert len(named) >= 8
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [
        ([], COMMITTED_RESULTS),
        (["--dsn", "postgresql://bench"], COMMITTED_RESULTS),
        (["--broker=amqp://bench"], COMMITTED_RESULTS),
        (["--history", "1000000", "20000000"], SHORT_RESULTS),
        (["--without-rivals"], SHORT_RESULTS),
        (["--dsn=postgresql://bench", "--turns=1"], SHORT_RESULTS),
    ],
)
def test_only_a_run_at_the_sizes_of_the_goals_is_committed(arguments: list[str], folder: Path) -> None:
    assert results_folder(arguments) == folder


def test_a_short_run_of_all_benchmarks_commits_nothing() -> None:
    for run in RUNS:
        assert run.only_full or results_folder(run.short.split()) == SHORT_RESULTS, run.name
