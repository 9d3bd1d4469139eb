"""What a commit would do to what people read, worked out by the code of the commit and undone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.calls import fetch_value
from disarray.control.commits import dataset_document, rows_document

if TYPE_CHECKING:
    from disarray.control.commits import DatasetCommit
    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalChange:
    """A total as it is and as it would be; None where there is none."""

    metric: str
    channel: str
    old: int | float | None
    new: int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestatedSpan:
    """Published values that would change; ``control.values.Restatement`` says what each number is."""

    metric: str
    channel: str
    from_us: int
    to_us: int
    old_first: int | float | None
    new_first: int | float | None
    old_last: int | float | None
    new_last: int | float | None
    least: int | float | None
    greatest: int | float | None
    delta: int | float | None


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class BucketSpan:
    """One bucket of a rollup."""

    rollup: str
    bucket_us: int
    bucket_end_us: int
    label: str
    channel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPreview:
    """What a commit would do to what people read."""

    frontier_us: int | None
    bases_shifted: int
    spans: tuple[RestatedSpan, ...]
    totals: tuple[TotalChange, ...]
    buckets: tuple[BucketSpan, ...]


def preview_commit(connection: Connection, subject_key: str, part: DatasetCommit) -> CommitPreview:
    """What a commit of these segments would change, found out without changing anything."""
    document = (
        dataset_document(part)
        | rows_document(part)
        | {"profile": None if part.profile is None else vars(part.profile)}
    )
    found = fetch_value(
        connection,
        dict,
        "select disarray.preview_commit(%s, %s::json)",
        (subject_key, json.dumps(document, allow_nan=False)),
    )
    return CommitPreview(
        frontier_us=found["frontier_us"],
        bases_shifted=found["bases_shifted"],
        spans=tuple(RestatedSpan(**span) for span in found["spans"]),
        totals=tuple(TotalChange(**total) for total in found["totals"]),
        buckets=tuple(sorted(BucketSpan(**bucket) for bucket in found["buckets"])),
    )
