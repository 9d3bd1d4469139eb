"""All that a parser needs to know about one dataset, resolved: no look-ups while reading."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from disarray.model.description.format import Column, EventTime, Format


class KeyKind(StrEnum):
    """What makes two readings the same reading."""

    CONTENT = "content"  # all columns, and the occurrence number among equal readings of the file
    COLUMNS = "columns"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Key:
    """The columns that identify a reading; event time and channel always belong to it and are not listed."""

    kind: KeyKind
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RejectLimits:
    """How many rejected rows a file may have before it fails as a whole; None is no limit."""

    max_share: float | None = None
    max_count: int | None = None

    def exceeded_by(self, rejected: int, readings: int) -> bool:
        """Whether so many rejected among so many lines that should be readings are too many."""
        if self.max_count is not None and rejected > self.max_count:
            return True
        return self.max_share is not None and readings > 0 and rejected > self.max_share * readings


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpec:
    """How to turn one file of a dataset into typed readings."""

    dataset: str
    format: Format
    columns: tuple[Column, ...]  # in output order; those with Origin.PREAMBLE are constant within a file
    event_time: EventTime  # the zone is set wherever a layout needs one
    channel: str | None  # the column whose text is the channel; it is one of `columns`
    order_by: tuple[str, ...]
    key: Key
    segment_length_us: int
    future_tolerance_us: int | None
    reject_limits: RejectLimits
    parse_version: str
    subject_column: str | None = (
        None  # the one of `columns` that splits a file into parts, one for each subject
    )

    @property
    def column_names(self) -> tuple[str, ...]:
        """The declared columns in output order."""
        return tuple(column.name for column in self.columns)
