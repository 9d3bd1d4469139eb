"""Stored numbers: summaries with their bases, rollup parts, and what was restated."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from disarray.control.calls import fetch_records, fetch_rows, find_value
from disarray.model.description.dataset import Version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disarray.control.connections import Connection

Number = int | float

PAGE_SUBJECTS = 1_000


@dataclass(frozen=True, slots=True)
class SubjectSpan:
    """A subject that has readings of a dataset, and from when to when."""

    dataset: str
    subject_key: str
    first_us: int
    last_us: int
    parse_version: str | None
    scan_version: str | None
    is_in_force: bool | None

    @property
    def version(self) -> Version | None:
        """The definition that its numbers were made under."""
        if self.parse_version is None or self.scan_version is None:
            return None
        return Version(self.parse_version, self.scan_version)


@dataclass(frozen=True, slots=True)
class MetricPiece:
    """Summary and base of one metric in one piece of a segment; docs/architecture.md says what each is."""

    channel: str
    segment_us: int
    piece: int
    readings: int
    points: int
    total: Number | None
    base: Number | None
    before: Number | None
    last_us: int | None
    first_reading_us: int | None
    last_reading_us: int | None
    reset_us: int | None


@dataclass(frozen=True, slots=True)
class StoredPart:
    """What one segment contributes to one bucket of one aggregate."""

    channel: str
    bucket_us: int
    bucket_end_us: int
    label: str
    aggregate: str
    points: int
    value: Number | None
    pivot: float | None
    offset_sum: float | None
    offset_square_sum: float | None


@dataclass(frozen=True, slots=True)
class Restatement:
    """Published values that were changed after people may have used them, from one reading to another.

    `old` and `new` are those at `changed_to`, `first_old` and `first_new` those at `changed_from`. `delta` is what was
    added to every one of them, of floats up to rounding; None where it is not one number. All of them changed by
    `least` to `greatest`, None where that is not known. `new` is None where there is no value any more. Entries of
    before there were spans have no `changed_to`: `old` and `new` are the newest totals of then.
    """

    dataset: str
    subject_key: str
    metric: str
    channel: str
    changed_from: datetime
    changed_to: datetime | None
    first_old: Number | None
    first_new: Number | None
    old: Number | None
    new: Number | None
    delta: Number | None
    least: Number | None
    greatest: Number | None
    source_uris: Sequence[str]
    is_redefined: bool  # because the definition of the dataset changed
    restated_at: datetime
    restatement_id: int


def list_subjects(
    connection: Connection,
    *,
    dataset: str | None = None,
    subject_key: str | None = None,
    limit: int = 10_000,
    after: Sequence[str] | None = None,
) -> list[SubjectSpan]:
    """Subjects that have readings, by name: one page of them. Whoever means all asks `all_subjects`."""
    return fetch_records(
        connection,
        SubjectSpan,
        "select * from disarray.list_subjects(%s, %s, %s, %s::text[])",
        (dataset, subject_key, limit, after),
    )


def all_subjects(
    connection: Connection, *, dataset: str | None = None, after: Sequence[str] | None = None
) -> Iterator[SubjectSpan]:
    """Every subject that has readings, by name, page by page: one that comes meanwhile may be left out."""
    while True:
        page = list_subjects(connection, dataset=dataset, limit=PAGE_SUBJECTS, after=after)
        yield from page
        if len(page) < PAGE_SUBJECTS:
            return
        after = [page[-1].subject_key, page[-1].dataset]


def stale_from(connection: Connection, dataset: str, subject_key: str) -> datetime | None:
    """From when on the numbers of a subject are stale; None where all are final."""
    return find_value(connection, datetime, "select disarray.stale_from(%s, %s)", (dataset, subject_key))


def load_bases(
    connection: Connection,
    dataset: str,
    subject_key: str,
    *,
    metric: str,
    from_us: int,
    to_us: int,
    channel: str | None = None,
) -> list[MetricPiece]:
    """Pieces of a metric in a span, by channel and time, from the segment whose value holds at `from_us` on."""
    rows = fetch_rows(
        connection,
        """
        select
            channel, segment_us, piece, readings, points,
            total_int, total_float, base_int, base_float, before_int, before_float,
            last_us, first_reading_us, last_reading_us, reset_us
        from disarray.load_bases(%s, %s, %s, %s, %s, %s)
        """,
        (dataset, subject_key, metric, from_us, to_us, channel),
        binary=True,
    )
    return [MetricPiece(*_paired(row, (5, 7, 9))) for row in rows]


def load_rollup(
    connection: Connection,
    dataset: str,
    subject_key: str,
    *,
    rollup: str,
    from_us: int,
    to_us: int,
    channel: str | None = None,
    limit: int | None = None,
) -> list[StoredPart]:
    """Parts of the buckets that overlap a span, by channel, bucket, aggregate and segment; the first ones."""
    rows = fetch_rows(
        connection,
        """
        select
            channel, bucket_us, bucket_end_us, label, aggregate, points,
            value_int, value_float, pivot, offset_sum, offset_square_sum
        from disarray.load_rollup(%s, %s, %s, %s, %s, %s)
        limit %s
        """,
        (dataset, subject_key, rollup, from_us, to_us, channel, limit),
        binary=True,
    )
    return [StoredPart(*_paired(row, (6,))) for row in rows]


def list_restatements(
    connection: Connection,
    *,
    subject_key: str | None = None,
    limit: int = 100,
    after: Sequence[str] | None = None,
) -> list[Restatement]:
    """What was restated, newest first."""
    rows = fetch_rows(
        connection,
        """
        select
            dataset, subject_key, metric, channel, changed_from, changed_to,
            first_old_int, first_old_float, first_new_int, first_new_float,
            old_int, old_float, new_int, new_float, delta_int, delta_float,
            least_int, least_float, greatest_int, greatest_float, source_uris, is_redefined, restated_at,
            restatement_id
        from disarray.list_restatements(%s, %s, %s::text[])
        """,
        (subject_key, limit, after),
    )
    return [restatement_of(row) for row in rows]


def restatement_of(row: Sequence[Any]) -> Restatement:
    """A restatement from its columns, integers and floats apart."""
    exact = [int(value) if isinstance(value, Decimal) else value for value in row]
    return Restatement(*_paired(exact, (6, 8, 10, 12, 14, 16, 18)))


def _paired(row: Sequence[Any], pairs: Sequence[int]) -> Iterator[Any]:
    """The row with an integer and the float after it made one number.

    Each stands in the column of its type; a common one would cost large integers their last bits.
    """
    at = 0
    while at < len(row):
        is_pair = at in pairs
        yield row[at + 1] if is_pair and row[at] is None else row[at]
        at += 2 if is_pair else 1
