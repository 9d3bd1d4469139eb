"""What a replay finds: numbers that are others, and what could not be compared."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FindingKind(StrEnum):
    """Whether something is other than it should be, or only not known to be the same."""

    DIFFERENT = "different"
    UNPROVEN = "unproven"  # a source is gone or changed: what is kept of it stood in for it
    NOT_COMPARED = "not_compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFinding:
    """One value, row, file or subject; `what` names the table and the column, `name` a metric, an aggregate or a file.

    `stored` and `replayed` are texts: a float is written so that it reads back to the same bits, and with them.
    """

    kind: FindingKind
    dataset: str
    subject_key: str
    segment_us: int | None
    what: str
    name: str = ""
    channel: str = ""
    stored: str | None = None
    replayed: str | None = None


def exact_text(value: object) -> str | None:
    """A value for people and for programs, to the bit."""
    if value is None:
        return None
    return f"{value!r} ({value.hex()})" if isinstance(value, float) else str(value)
