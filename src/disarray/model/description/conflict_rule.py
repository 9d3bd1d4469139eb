"""Which of two readings counts when files disagree under one key."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ConflictRule(StrEnum):
    """By what the winner is chosen; ties are settled by path, and then by position."""

    PATH = "path"  # the greater uri
    ARRIVAL = "arrival"  # the file that was announced later
    NEWEST = "newest"  # the greater value in a column
    PARK = "park"  # by path; but what contradicts readings that count waits for an operator


@dataclass(frozen=True, slots=True)
class Conflict:
    """The rule of a dataset; `column` is that of `newest`."""

    rule: ConflictRule = ConflictRule.PATH
    column: str | None = None

    def __str__(self) -> str:
        return self.rule if self.column is None else f"{self.rule} {self.column}"


BY_PATH = Conflict()
