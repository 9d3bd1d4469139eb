"""One kind of file and what it means: the unit that `[[dataset]]` in disarray.toml declares."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from disarray.model.read_spec import Key, KeyKind, ReadSpec, RejectLimits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.model.format import Column, ColumnType, EventTime, Format

AttributeValue = str | int | float | bool
CONTENT_KEY = Key(KeyKind.CONTENT)
NO_LIMITS = RejectLimits()


class SubjectKind(StrEnum):
    """Where a file says which subject it is about."""

    PATH = "path"
    FILE_NAME = "file_name"
    PREAMBLE = "preamble"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class SubjectRule:
    """`text` is a regex with the group `subject`, the name of a preamble field, or the subject itself."""

    kind: SubjectKind
    text: str


class OnShrink(StrEnum):
    """What a replacement that would take readings away does."""

    PARK = "park"
    REPLACE = "replace"


class Reread(StrEnum):
    """How much of a grown file is read again."""

    TAIL = "tail"
    WHOLE = "whole"


class Store(StrEnum):
    """Where readings live."""

    LAKE = "lake"
    TIMESCALE = "timescale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A dataset, validated; durations are int64 microseconds, None means unlimited."""

    name: str
    files: tuple[str, ...]
    roots: tuple[str, ...]
    format: Format
    subject: SubjectRule
    event_time: EventTime
    columns: tuple[Column, ...]
    channel: str | None = None
    attribute_types: Mapping[str, ColumnType] = field(default_factory=dict)
    attributes: Mapping[str, Mapping[str, AttributeValue]] = field(default_factory=dict)
    order_by: tuple[str, ...] = ()
    key: Key = CONTENT_KEY
    priority: int = 0
    segment_us: int
    horizon_us: int | None = None
    future_tolerance_us: int | None = None
    back_correction_window_us: int = 0
    quiet_after_us: int
    on_shrink: OnShrink = OnShrink.PARK
    reread: Reread = Reread.TAIL
    reject_limits: RejectLimits = NO_LIMITS
    restate_after_us: int | None = None
    store: Store = Store.LAKE
    retain_us: int | None = None
    parse_version: str = ""
    scan_version: str = ""

    def read_spec(self) -> ReadSpec:
        """What a parser needs, and nothing else."""
        return ReadSpec(
            dataset=self.name,
            format=self.format,
            columns=self.columns,
            event_time=self.event_time,
            channel=self.channel,
            order_by=self.order_by,
            key=self.key,
            segment_us=self.segment_us,
            future_tolerance_us=self.future_tolerance_us,
            reject_limits=self.reject_limits,
            parse_version=self.parse_version,
        )
