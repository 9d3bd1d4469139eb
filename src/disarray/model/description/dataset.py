"""One kind of file and what it means: the value that a `[[dataset]]` table in disarray.toml becomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from disarray.model.description.read_spec import Key, ReadSpec, RejectLimits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.model.description.conflict_rule import Conflict
    from disarray.model.description.event_rule import EventRule
    from disarray.model.description.format import Column, ColumnType, EventTime, Format
    from disarray.model.description.metrics import Metric
    from disarray.model.description.rollups import Rollup

AttributeValue = str | int | float | bool

# The attributes of every subject that does not say otherwise.
EVERY_SUBJECT = "*"


class SubjectKind(StrEnum):
    """Where a file says which subject it is about."""

    PATH = "path"
    FILE_NAME = "file_name"
    PREAMBLE = "preamble"
    CONSTANT = "constant"
    DELIVERY = "delivery"
    COLUMN = "column"  # each line names its own: the file is split into a part for each subject


@dataclass(frozen=True, slots=True)
class SubjectRule:
    """`text` is a regex with the group `subject`, the name of a preamble field or column, or the subject itself.

    Of a delivery, the folders below the root are the subject.
    """

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


@dataclass(frozen=True, slots=True)
class Version:
    """One definition of a dataset: a new `parse` reads files again, a new `scan` alone scans fragments again."""

    parse: str
    scan: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column whose value belongs to the subject, not to the reading: joined when fragments are scanned."""

    name: str
    type: ColumnType
    value: AttributeValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A dataset, validated: docs/dataset-reference.md says what each part means. None is unlimited."""

    name: str
    description: str
    files: tuple[str, ...]  # globs below the roots
    roots: tuple[str, ...]  # absolute; a file outside them is refused
    format: Format
    subject: SubjectRule
    event_time: EventTime
    columns: tuple[Column, ...]
    channel: str | None
    attribute_types: Mapping[str, ColumnType]
    attributes: Mapping[str, Mapping[str, AttributeValue]]  # subject, or EVERY_SUBJECT → name → value
    order_by: tuple[str, ...]
    key: Key
    conflict: Conflict
    segment_length_us: int
    horizon_us: int | None
    future_tolerance_us: int
    back_correction_window_us: int
    quiet_after_us: int
    on_shrink: OnShrink
    reread: Reread
    reject_limits: RejectLimits
    restate_after_us: int
    store: Store
    chunk_us: int | None  # of a table in the database; None: chosen by the length of segments
    retain_us: int | None
    metrics: tuple[Metric, ...]
    rollups: tuple[Rollup, ...]
    events: EventRule | None = None  # None: it takes none
    parse_version: str = ""
    scan_version: str = ""
    written: Mapping[str, object] = field(
        default_factory=dict, compare=False, repr=False
    )  # see `restore_dataset`

    @property
    def is_delivered(self) -> bool:
        """Whether a source writes its files and queues them itself. One that nobody queued is half of nothing."""
        return self.subject.kind is SubjectKind.DELIVERY

    @property
    def subject_column(self) -> str | None:
        """The column that says of each line which subject it is about; None where a file is about one."""
        return self.subject.text if self.subject.kind is SubjectKind.COLUMN else None

    @property
    def version(self) -> Version:
        """Under which definition numbers of this dataset are made."""
        return Version(self.parse_version, self.scan_version)

    @property
    def column_types(self) -> dict[str, ColumnType]:
        """What expressions may name: the columns and the attributes."""
        return {column.name: column.type for column in self.columns} | dict(self.attribute_types)

    def attributes_of(self, subject: str) -> tuple[Attribute, ...]:
        """The constant columns of one subject, in a fixed order; what nobody set is NULL."""
        values = {**self.attributes.get(EVERY_SUBJECT, {}), **self.attributes.get(subject, {})}
        return tuple(Attribute(name, type_, values.get(name)) for name, type_ in self.attribute_types.items())

    def read_spec(self) -> ReadSpec:
        """What a parser needs, and nothing else."""
        return ReadSpec(
            dataset=self.name,
            format=self.format,
            columns=self.columns,
            event_time=self.event_time,
            channel=self.channel,
            subject_column=self.subject_column,
            order_by=self.order_by,
            key=self.key,
            segment_length_us=self.segment_length_us,
            future_tolerance_us=self.future_tolerance_us,
            reject_limits=self.reject_limits,
            parse_version=self.parse_version,
        )
