"""Promises and what was measured: ratios with a limit, printed for a person and kept as JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COMMITTED_RESULTS = Path(__file__).parent / "results"
SHORT_RESULTS = Path(__file__).parents[1] / ".bench"
# Where a benchmark runs. Any other argument changes what is measured, and no goal was set for that.
LOCATION_FLAGS = frozenset({"--dsn", "--broker", "--folder"})


@dataclass(frozen=True)
class Goal:
    """One promise and what was measured: a ratio that must not fall below, or rise above, its limit."""

    name: str
    measured: float
    limit: float
    at_least: bool
    applies: bool = True  # a limit that was set for the full size says nothing about a shorter run

    @property
    def is_met(self) -> bool:
        """Whether the promise holds in this run."""
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    @property
    def verdict(self) -> str:
        """For a person."""
        if not self.applies:
            return "short run: the limit is for the full size"
        return "met" if self.is_met else "MISSED"


def goal_table(goals: Sequence[Goal]) -> str:
    """Each promise with its verdict."""
    return table(
        ("goal", "limit", "measured", ""),
        (
            (
                goal.name,
                f"{'≥' if goal.at_least else '≤'} {goal.limit}",
                f"{goal.measured:.2f}",
                goal.verdict,
            )
            for goal in goals
        ),
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def results_folder(arguments: Sequence[str]) -> Path:
    """Where the result of a run with these arguments belongs: only the sizes of the goals are committed."""
    flags = {argument.partition("=")[0] for argument in arguments if argument.startswith("-")}
    return COMMITTED_RESULTS if flags <= LOCATION_FLAGS else SHORT_RESULTS


def conclude(name: str, goals: Sequence[Goal], figures: dict[str, Any], *, is_full: bool = True) -> None:
    """Keep the result, print the goals, and end with 1 where one was missed.

    A run that could not reach the size of its goals says so, and is kept where short ones are.
    """
    results = results_folder(sys.argv[1:]) if is_full else SHORT_RESULTS
    results.mkdir(parents=True, exist_ok=True)
    result = {
        "benchmark": name,
        "command": " ".join(["python", "-m", f"benchmarks.{name}", *sys.argv[1:]]),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]},
        "goals": [asdict(goal) | {"met": goal.is_met} for goal in goals],
        "figures": figures,
    }
    (results / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
    print(goal_table(goals))
    write_summary(results)
    if results == COMMITTED_RESULTS:
        from benchmarks.readme import write_readme

        write_readme()
    if any(goal.applies and not goal.is_met for goal in goals):
        sys.exit(1)


def write_summary(results: Path) -> None:
    """Every kept result in one table, for people: `README.md` beside them."""
    found = [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]
    rows = [
        (result["benchmark"], *_shown(goal), f"`{result['command']}`", f"{result['machine']['load']:.1f}")
        for result in found
        for goal in result["goals"]
    ]
    text = table(("benchmark", "goal", "limit", "measured", "", "command", "load of the machine"), rows)
    (results / "README.md").write_text(
        "# Goals and what was measured\n\nWritten by the benchmarks: the last run of each, ratios within one run. "
        f"A load above two means that others used the two cores as well.\n\n{text}\n"
    )


def _shown(goal: dict[str, Any]) -> tuple[str, str, str, str]:
    known = Goal(**{name: goal[name] for name in Goal.__dataclass_fields__ if name in goal})
    sign = "≥" if known.at_least else "≤"
    return known.name, f"{sign} {known.limit}", f"{known.measured:g}", known.verdict
