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

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Goal:
    """One promise and what was measured: a ratio that must not fall below, or rise above, its limit."""

    name: str
    measured: float
    limit: float
    at_least: bool

    @property
    def is_met(self) -> bool:
        """Whether the promise holds in this run."""
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


def goal_table(goals: Sequence[Goal]) -> str:
    """Each promise with its verdict."""
    return table(
        ("goal", "limit", "measured", ""),
        (
            (
                goal.name,
                f"{'≥' if goal.at_least else '≤'} {goal.limit}",
                f"{goal.measured:.2f}",
                "met" if goal.is_met else "MISSED",
            )
            for goal in goals
        ),
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def conclude(name: str, goals: Sequence[Goal], figures: dict[str, Any]) -> None:
    """Keep the result, print the goals, and end with 1 where one was missed."""
    RESULTS.mkdir(exist_ok=True)
    result = {
        "benchmark": name,
        "command": " ".join(["python", "-m", f"benchmarks.{name}", *sys.argv[1:]]),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]},
        "goals": [asdict(goal) | {"met": goal.is_met} for goal in goals],
        "figures": figures,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
    print(goal_table(goals))
    if not all(goal.is_met for goal in goals):
        sys.exit(1)
