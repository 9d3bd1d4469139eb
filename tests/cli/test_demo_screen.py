"""What the demo says reads well at every size."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from disarray.demo.factory import Factory
from disarray.demo.keep_running import COPIED, guide
from disarray.demo.screen import Figures, Progress, Screen, in_words

AT = datetime(2026, 9, 13, tzinfo=UTC)


def told(arrival: str) -> dict[str, object]:
    return {
        "subject": "TOOL07",
        "dataset": "tools",
        "arrival": arrival,
        "segments_scanned": 1,
        "readings_scanned": 720,
        "changed_from": "2026-09-03T00:00:00Z",
        "bases_shifted": 20,
        "readings_to_the_right": 15_000,
        "restatements": 1,
        "conflicts_won": 0,
        "conflicts_lost": 0,
    }


@pytest.mark.parametrize(
    ("days", "words"), [(1, "1 day"), (3, "3 days"), (13, "13 days"), (14, "2 weeks"), (20, "3 weeks")]
)
def test_lateness_is_said_as_people_say_it(days: int, words: str) -> None:
    assert in_words(timedelta(days=days) - timedelta(minutes=18)) == words


def test_progress_tells_how_far_how_late_and_what_was_scanned() -> None:
    progress = Progress(of=200)
    progress.add([told("append"), told("late")], landed=100, at=AT, held_up_minutes=39.6)

    assert progress.line() == (
        "  13 Sep [############............]   100 of 200 landed, up to 40 min late; 2 segments scanned"
    )
    assert progress.newest.startswith("TOOL07 (tools): late, 1 segment scanned (720 readings)")


def test_elsewhere_than_on_a_terminal_progress_is_a_line_per_quarter(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen, progress = Screen(is_silent=False), Progress(of=24)
    for landed in range(1, 25):
        progress.add([], landed=landed, at=AT, held_up_minutes=1)
        screen.progress(progress)

    assert len(capsys.readouterr().out.splitlines()) == 4


def test_for_programs_the_screen_stays_silent(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(is_silent=True)
    screen.say("a line")
    screen.progress(Progress(of=1, landed=1, at=AT))
    screen.show(Figures(verify="identical"))

    assert capsys.readouterr().out == ""


def test_the_table_ends_with_what_verify_said(capsys: pytest.CaptureFixture[str]) -> None:
    figures = Figures(late_files=12, late_by="3 weeks", verify="identical", restatements=["one", "two"])
    figures.add_late([told("late")])
    Screen(is_silent=False).show(figures)

    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "verify: identical"
    assert "backlog      12 files of TOOL07, 3 weeks late, mended within 0.0 s:" in lines
    assert "             720 readings scanned and 20 bases shifted," in lines
    assert tuple(lines[lines.index("restated     one") :][:2]) == ("restated     one", "             two")


def test_the_guide_gives_commands_that_can_be_copied() -> None:
    lines = list(guide("http://127.0.0.1:4711", Path("/tmp/demo"), program="disarray"))

    assert "at http://127.0.0.1:4711 and watches /tmp/demo/inbox; Ctrl-C ends it" in lines[0]
    token = '-H "Authorization: Bearer $(disarray token local)"'
    assert (
        f"  curl {token} 'http://127.0.0.1:4711/api/v1/values?subject_key=TOOL07&metric=in_spec_total'"
        in lines
    )


def test_the_file_that_the_guide_copies_is_there() -> None:
    factory = Factory(tools=8, days=7, seed=7)
    assert COPIED in {f"inbox/{arrival.name}" for arrival in factory.arrivals()}
