"""All that is stored about one subject, seen at one moment: what a recompute is compared with."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from psycopg import sql

from disarray.control.blocks import load_block_lengths
from disarray.control.calls import fetch_dicts
from disarray.control.catalog import load_subject_fragments
from disarray.control.definitions import load_subject_versions
from disarray.control.snapshots import snapshot
from disarray.control.translation import translated_errors
from disarray.control.values import stale_from
from disarray.model.fingerprints import Fingerprint
from disarray.model.segments import microseconds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import LiteralString

    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Version
    from disarray.model.fragments import FragmentEntry

Row = dict[str, Any]
ROWS_AT_ONCE = 20_000


class SubjectRows(StrEnum):
    """Rows of which a subject may have more than fit in memory; named as the functions that give them."""

    SUMMARIES = "load_subject_summaries"
    ROLLUP_PARTS = "load_subject_rollup_parts"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file that was taken in; where it is `about_to_change`, its fragments alone tell whether it counts now."""

    source_uri: str
    dataset: str | None
    is_blacklisted: bool
    is_about_to_change: bool
    fingerprint: Fingerprint
    arrival: int  # its number in the order of first announcements
    future_positions: frozenset[int]  # of lines that were rejected because they lay in the future then


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSubject:
    """One subject at one moment; rows are keyed like the tables they come from, by dataset."""

    subject_key: str
    files: tuple[StoredFile, ...]
    fragments: Mapping[str, Sequence[FragmentEntry]]
    segments: Mapping[str, Sequence[Row]]
    summaries: Mapping[str, Sequence[Row]]
    rollup_parts: Mapping[str, Sequence[Row]]
    stale_from_us: Mapping[str, int]
    versions: Mapping[str, Version]  # of the definition that all of it was made under
    block_lengths_us: Mapping[str, int]  # of the blocks of segments that its bases are added up in

    def sealed_segments(self, dataset: str) -> frozenset[int]:
        """Segments of a dataset whose readings are no longer kept."""
        return frozenset(
            row["segment_us"] for row in self.segments.get(dataset, ()) if row["sealed_at"] is not None
        )

    @property
    def datasets(self) -> frozenset[str]:
        """The datasets that anything is stored under."""
        return frozenset({*self.fragments, *self.segments, *self.summaries, *self.rollup_parts})


def load_subject(
    connection: Connection,
    subject_key: str,
    *,
    with_numbers: bool = True,
    columns: Mapping[SubjectRows, Sequence[str]] | None = None,
    on_rows: Callable[[SubjectRows, Sequence[Sequence[Any]]], None] | None = None,
    takes: Callable[[int, int], bool] | None = None,
) -> StoredSubject:
    """All that is stored about a subject, in one snapshot: a commit meanwhile is seen whole or not at all.

    Without its numbers, summaries and rollup parts are left out. With `on_rows` they go there as they come, by segment:
    the dataset of each, then the columns that were asked for; the subject that is answered has none. `takes` says, by
    start and length, which segments are wanted; rollup parts of the others are left out.
    """
    with snapshot(connection):
        fragments = load_subject_fragments(connection, subject_key)
        segments = _by_dataset(connection, "select * from disarray.load_subject_segments(%s)", subject_key)
        summaries, rollup_parts = {}, {}
        if on_rows is not None and columns is not None:
            for table, names in columns.items():
                wanted = None
                if takes is not None and table is SubjectRows.ROLLUP_PARTS:
                    wanted = _wanted_segments(connection, subject_key, segments, takes)
                _stream_rows(connection, table, subject_key, names, on_rows, segments=wanted)
        elif with_numbers:
            summaries = _by_dataset(
                connection, "select * from disarray.load_subject_summaries(%s)", subject_key
            )
            rollup_parts = _by_dataset(
                connection, "select * from disarray.load_subject_rollup_parts(%s)", subject_key
            )
        return StoredSubject(
            subject_key=subject_key,
            files=_files(connection, subject_key),
            fragments=fragments,
            segments=segments,
            summaries=summaries,
            rollup_parts=rollup_parts,
            stale_from_us=load_stale_from(connection, subject_key, {*fragments, *segments}),
            versions={
                dataset: made.version
                for (dataset, _), made in load_subject_versions(connection, [subject_key]).items()
            },
            block_lengths_us=load_block_lengths(connection, subject_key),
        )


def _stream_rows(
    connection: Connection,
    table: SubjectRows,
    subject_key: str,
    names: Sequence[str],
    on_rows: Callable[[SubjectRows, Sequence[Sequence[Any]]], None],
    *,
    segments: Sequence[int] | None = None,
) -> None:
    """Hand over the rows of one table in the order of segments, some at a time."""
    arguments = [subject_key] if segments is None else [subject_key, list(segments)]
    query = sql.SQL("select dataset, {} from disarray.{}({}) order by dataset, segment_us").format(
        sql.SQL(", ").join(map(sql.Identifier, names)),
        sql.Identifier(table.value),
        sql.SQL(", ").join([sql.Placeholder()] * len(arguments)),
    )
    with translated_errors(), connection.cursor(name="subject_rows", binary=True) as cursor:
        cursor.execute(query, arguments)
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            on_rows(table, rows)


def _wanted_segments(
    connection: Connection,
    subject_key: str,
    segments: Mapping[str, Sequence[Row]],
    takes: Callable[[int, int], bool],
) -> list[int]:
    """The segments whose rollup parts are wanted; parts of a segment that is nowhere else always are."""
    ends = {
        (dataset, row["segment_us"]): row["segment_end_us"]
        for dataset, rows in segments.items()
        for row in rows
    }
    wanted = []
    for row in fetch_dicts(connection, "select * from disarray.list_rollup_segments(%s)", (subject_key,)):
        segment_us = row["segment_us"]
        end_us = ends.get((row["dataset"], segment_us))
        if end_us is None or takes(segment_us, end_us - segment_us):
            wanted.append(segment_us)
    return wanted


def _files(connection: Connection, subject_key: str) -> tuple[StoredFile, ...]:
    rejected: dict[str, set[int]] = defaultdict(set)
    query = "select * from disarray.load_rejected_positions(%s, 'in_future')"
    for row in fetch_dicts(connection, query, (subject_key,)):
        rejected[row["source_uri"]].add(row["position"])
    return tuple(
        StoredFile(
            source_uri=row["source_uri"],
            dataset=row["dataset"],
            is_blacklisted=row["is_blacklisted"],
            is_about_to_change=row["is_about_to_change"],
            fingerprint=Fingerprint.from_bytes(row["fingerprint"]),
            arrival=row["arrival"],
            future_positions=frozenset(rejected.get(row["source_uri"], ())),
        )
        for row in fetch_dicts(connection, "select * from disarray.load_subject_files(%s)", (subject_key,))
    )


def load_stale_from(connection: Connection, subject_key: str, datasets: set[str]) -> dict[str, int]:
    """From when on numbers are stale, for those of some datasets that are."""
    found = {}
    for dataset in sorted(datasets):
        stale = stale_from(connection, dataset, subject_key)
        if stale is not None:
            found[dataset] = microseconds_of(stale)
    return found


def _by_dataset(connection: Connection, query: LiteralString, subject_key: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in fetch_dicts(connection, query, (subject_key,)):
        found[row["dataset"]].append(row)
    return found
