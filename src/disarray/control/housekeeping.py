"""What may be merged, dropped, deleted and forgotten, and the steps of doing so."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from disarray.control.calls import call, fetch_records, fetch_rows, fetch_value, find_value
from disarray.control.commits import fragment_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder
    from disarray.model.description.dataset import Dataset
    from disarray.model.fragments import FragmentEntry, LakeFile


@dataclass(frozen=True, slots=True)
class ColdSegment:
    """A segment that is worth a compaction: so many fragments, in so many files."""

    subject_key: str
    segment_us: int
    revision: int
    digest: str
    readings: int
    fragments: int
    files: int


@dataclass(frozen=True, slots=True)
class ExpiredSegment:
    """A segment whose readings have been kept for as long as the dataset says."""

    subject_key: str
    segment_us: int
    readings: int


@dataclass(frozen=True, slots=True)
class DeadFile:
    """A file of the lake that nothing needs; the path is relative to the lake."""

    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Rows of the catalog that nothing refers to any more."""

    dirty_ranges: int
    runs: int
    fragments: int


@dataclass(frozen=True, kw_only=True)
class Compaction:
    """Merged fragments of one subject and dataset, in place of many."""

    run_id: UUID
    subject_key: str
    fence: int
    dataset: Dataset
    segments: Sequence[
        tuple[int, int, str]
    ]  # start, the revision that was planned on, digest of what is added
    added: Sequence[FragmentEntry]
    dropped: Sequence[FragmentEntry]
    lake_files: Sequence[LakeFile]


@contextmanager
def housekeeping_turn(connection: Connection) -> Iterator[bool]:
    """Whether it is this connection's turn to keep house; it ends with the block, or with the connection."""
    is_ours = fetch_value(connection, bool, "select disarray.begin_housekeeping()")
    try:
        yield is_ours
    finally:
        if is_ours:
            call(connection, "select disarray.end_housekeeping()")


def list_cold_segments(
    connection: Connection,
    dataset: Dataset,
    *,
    cold_after: timedelta,
    fragments: int,
    readings: int,
    subject_key: str | None = None,
) -> list[ColdSegment]:
    """Segments that nothing changed for a while and that lie in many fragments of few readings, in order."""
    return fetch_records(
        connection,
        ColdSegment,
        "select * from disarray.list_cold_segments(%s, %s, %s, %s, %s, %s, %s)",
        (
            dataset.name,
            dataset.parse_version,
            dataset.scan_version,
            cold_after,
            fragments,
            readings,
            subject_key,
        ),
    )


def list_expired_segments(
    connection: Connection, dataset: Dataset, *, subject_key: str | None = None
) -> list[ExpiredSegment]:
    """Segments whose readings are older than the dataset retains them, in order; none where it retains all."""
    if dataset.retain_us is None:
        return []
    return fetch_records(
        connection,
        ExpiredSegment,
        "select * from disarray.list_expired_segments(%s, %s, %s, %s, %s)",
        (dataset.name, dataset.parse_version, dataset.scan_version, dataset.retain_us, subject_key),
    )


def queue_compaction(connection: Connection, subject_keys: Sequence[str]) -> int:
    """Queue the housekeeping of some subjects; how many were not queued yet."""
    return fetch_value(connection, int, "select disarray.queue_compaction(%s::text[])", (list(subject_keys),))


def compact_segments(connection: Connection, compaction: Compaction, holder: Holder) -> None:
    """Put merged fragments in the place of many; refused unless the segments read the same. No number changes."""
    changes = {
        "metadata": {"dataset": compaction.dataset.name, "segments_compacted": len(compaction.segments)},
        "dataset": compaction.dataset.name,
        "parse_version": compaction.dataset.parse_version,
        "lake_files": [vars(file) for file in compaction.lake_files],
        "added": [fragment_row(fragment) for fragment in compaction.added],
        "dropped": [fragment.fragment_id for fragment in compaction.dropped],
        "segments": [
            {"segment_us": segment_us, "revision": revision, "digest": digest}
            for segment_us, revision, digest in compaction.segments
        ],
    }
    call(
        connection,
        "select disarray.compact_segments(%s, %s, %s, %s, %s, %s::json)",
        (
            compaction.run_id,
            compaction.subject_key,
            holder.instance_name,
            holder.incarnation,
            compaction.fence,
            json.dumps(changes),
        ),
    )


def seal_segments(
    connection: Connection,
    run_id: UUID,
    subject_key: str,
    holder: Holder,
    *,
    fence: int,
    dataset: str,
    segments: Sequence[int],
) -> int:
    """End the readings of some segments, whose numbers stay; how many were sealed."""
    return fetch_value(
        connection,
        int,
        "select disarray.seal_segments(%s, %s, %s, %s, %s, %s, %s::bigint[])",
        (run_id, subject_key, holder.instance_name, holder.incarnation, fence, dataset, list(segments)),
    )


def list_dead_lake_files(connection: Connection, *, keep: timedelta) -> list[DeadFile]:
    """Files of the lake that nothing has needed for that long."""
    return fetch_records(connection, DeadFile, "select * from disarray.list_dead_lake_files(%s)", (keep,))


def doom_lake_files(connection: Connection, *, keep: timedelta) -> list[DeadFile]:
    """Mark them, so that no commit can name them from now on; all that are doomed and not forgotten yet."""
    return fetch_records(connection, DeadFile, "select * from disarray.doom_lake_files(%s)", (keep,))


def forget_lake_files(connection: Connection, paths: Sequence[str]) -> int:
    """Take doomed files that are deleted out of the catalog; how many there were."""
    return fetch_value(connection, int, "select disarray.forget_lake_files(%s::text[])", (list(paths),))


def find_unknown_lake_files(connection: Connection, paths: Sequence[str]) -> list[str]:
    """Those of some files that no commit ever named."""
    rows = fetch_rows(
        connection, "select * from disarray.find_unknown_lake_files(%s::text[])", (list(paths),)
    )
    return [path for (path,) in rows]


def oldest_claim_age(connection: Connection) -> timedelta | None:
    """How long ago the oldest claim that still holds was made, by the database's clock; None without any."""
    return find_value(connection, timedelta, "select disarray.oldest_claim_age()")


def forget_history(
    connection: Connection, *, keep: timedelta, keep_fragments: timedelta, is_rehearsal: bool = False
) -> Forgotten:
    """Forget resolved ranges, dropped fragments and runs that nothing refers to; what went, or would go."""
    (forgotten,) = fetch_records(
        connection,
        Forgotten,
        "select * from disarray.forget_history(%s, %s, %s)",
        (keep, keep_fragments, is_rehearsal),
    )
    return forgotten
