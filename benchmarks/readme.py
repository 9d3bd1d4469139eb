"""The numbers in the README, from the committed results: `python -m benchmarks.readme` writes them anew.

Every benchmark does so at its end, so a number in the README is always one that was measured by the command beside it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.goals import COMMITTED_RESULTS, table

if TYPE_CHECKING:
    from collections.abc import Iterator

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- numbers: python -m benchmarks.readme -->", "<!-- end of numbers -->"


@dataclass(frozen=True)
class Row:
    """One line of the table: which goal of which result, what is asked in words, and how the answer is written."""

    benchmark: str
    goal: str  # how the goal's name begins: sizes in it are those of the run
    question: str
    answer: str = "{:g} ×"
    is_by_hand: bool = False  # its benchmark is run by hand: there is no row until there is a result

    @property
    def is_awaited(self) -> bool:
        """Whether there has to be a result."""
        return not self.is_by_hand or self.path.exists()

    @property
    def path(self) -> Path:
        """Where the committed result is, if there is one."""
        return COMMITTED_RESULTS / f"{self.benchmark}.json"

    def result(self) -> dict[str, Any]:
        """The committed result, or one without goals."""
        found: dict[str, Any] = (
            json.loads(self.path.read_text("utf-8")) if self.path.exists() else {"goals": []}
        )
        return found

    def goal_in(self, result: dict[str, Any]) -> dict[str, Any] | None:
        """The goal of this row; None where it was not measured."""
        return next((goal for goal in result["goals"] if goal["name"].startswith(self.goal)), None)


ROWS = (
    Row(
        "late_repair",
        "(a) late file",
        "a late file into the longest history beside the shortest, without the shift of bases",
    ),
    Row(
        "late_repair",
        "(a) the same with the shift",
        "the same with the shift: 100 M readings beside 1 M",
    ),
    Row(
        "late_repair",
        "(e)",
        "the same with the shift: 100,000 segments beside 1,000",
    ),
    Row(
        "late_repair",
        "(a, e)",
        "longest time for which a reader was told meanwhile that numbers are stale",
        "{:g} s",
    ),
    Row(
        "late_repair",
        "(b)",
        "a late file beside rewriting the running value of every row to the right",
        "{:g} × faster",
    ),
    Row(
        "late_repair",
        "(c) times faster than a full DuckDB",
        "beside a full DuckDB recompute",
        "{:g} × faster",
    ),
    Row(
        "late_repair", "(c) times faster than a full Spark", "beside a full Spark recompute", "{:g} × faster"
    ),
    Row(
        "ingest", "time / Spark's plain", "taking files in beside Spark's plain `read.csv` → `write.parquet`"
    ),
    Row("ingest", "times faster than", "the same beside Spark's window functions", "{:g} × faster"),
    Row("ingest", "stored bytes", "stored bytes beside plain Parquet of the same rows"),
    Row("parse", "speed of job 1", "reading beside bare `pyarrow.csv` in two processes", "{:g} × its speed"),
    Row("parse", "peak MB", "most memory of a task on a 2 GB file", "{:g} MB"),
    Row("growth", "1 MB appended", "1 MB appended to a 1 GB file beside a 10 MB file"),
    Row("disorder", "throughput", "files in disorder beside the same files sorted", "{:g} × the speed"),
    Row(
        "timescale",
        "ingest of",
        "taking files into a hypertable beside a bare parallel COPY of the rows",
        "{:g} × its speed",
    ),
    Row(
        "timescale",
        "late file into",
        "a late file into a hypertable beside an UPDATE with a window function",
        "{:g} × faster",
    ),
    Row("small_files", "", "thousands of files of 200 rows beside bare kernels"),
    Row("replay", "unchanged", "notifications of unchanged files", "{:,g} a second"),
    Row("latency", "file change → readable value, p50", "file change → readable value, median", "{:g} s"),
    Row("latency", "file change → readable value, p99", "the same, 99 of 100", "{:g} s"),
    Row("agent_scan", "seconds", "one idle scan of 100,000 watched files", "{:g} s"),
    Row("agent_scan", "peak MB", "memory of an agent that watches them", "{:g} MB"),
    Row("read_during_repair", "p99 of value", "reading a value during a repair beside idle, 99 of 100"),
    Row(
        "backfill_live",
        "change →",
        "file change → readable value beside a rebuild, 99 of 100, beside none",
        is_by_hand=True,
    ),
    Row(
        "backfill_live",
        "rows a second",
        "the rebuild with nothing live beside it, beside one pass on an idle machine",
        "{:g} × its speed",
        is_by_hand=True,
    ),
    Row(
        "billion",
        "newest value of 1,000 channels, p99",
        "the newest value of 1,000 channels at a billion readings beside ten million, 99 of 100",
        is_by_hand=True,
    ),
    Row(
        "billion",
        "a year of hours of one channel, p99",
        "a year of hourly values of one channel of them, likewise",
        is_by_hand=True,
    ),
    Row("billion", "late file", "a late file into them, likewise, median", is_by_hand=True),
    Row("billion", "peak memory", "memory of the worker's own process meanwhile", "{:g} GB", is_by_hand=True),
    Row(
        "billion",
        "minutes",
        "taking them in, asking, repairing, verifying a sample",
        "{:g} min",
        is_by_hand=True,
    ),
    Row(
        "queue",
        "jobs/s at our batch",
        "jobs a second of the queue beside the faster of procrastinate and PgQueuer",
    ),
    Row("queue", "claim p99, 100 subjects", "a claim with 100,000 queued beside 1,000 queued, 99 of 100"),
)


def numbers() -> str:
    """The table as Markdown."""
    return table(("what", "measured", "goal", "command"), list(_lines()))


def write_readme() -> None:
    """Put the table between its marks in the README."""
    before, _, rest = README.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(f"{before}{BEGIN}\n\n{numbers()}\n\n{END}{after}", "utf-8")


def _lines() -> Iterator[tuple[str, str, str, str]]:
    shown = ""
    for row in ROWS:
        result = row.result()
        goal = row.goal_in(result)
        if goal is None:
            # A test counts the rows; a benchmark must not fail at its end because another one is gone.
            continue
        command = f"`{result['command']}`"
        yield (
            row.question,
            row.answer.format(goal["measured"]),
            _limit(goal),
            "〃" if command == shown else command,
        )
        shown = command


def _limit(goal: dict[str, Any]) -> str:
    missed = ", short run" if not goal.get("applies", True) else "" if goal["met"] else ", missed"
    return f"{'≥' if goal['at_least'] else '≤'} {goal['limit']:g}{missed}"


if __name__ == "__main__":
    write_readme()
