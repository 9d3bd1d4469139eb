"""The catalog: what was read of which file, and where it lies."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

from disarray.control.translation import translated_errors
from disarray.model.fingerprints import Fingerprint
from disarray.model.plan import FragmentEntry, FragmentId, FragmentState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A segment that has readings."""

    segment_us: int
    revision: int
    readings: int
    duplicates: int
    conflicts: int
    first_us: int
    last_us: int
    digest: str
    scan_version: str
    table_digest: str | None = None
    sealed_at: datetime | None = None

    @property
    def is_sealed(self) -> bool:
        """Whether its readings are no longer kept."""
        return self.sealed_at is not None


def load_fingerprints(connection: Connection, source_uris: Sequence[str]) -> dict[str, Fingerprint]:
    """What is remembered of the bytes of some files."""
    with translated_errors():
        rows = connection.execute(
            "select source_uri, fingerprint from disarray.load_fingerprints(%s::text[])", (list(source_uris),)
        ).fetchall()
    return {uri: Fingerprint.from_bytes(fingerprint) for uri, fingerprint in rows}


def find_same_content(
    connection: Connection, dataset: str, subject_key: str, *, content_hashes: Sequence[str]
) -> dict[str, list[str]]:
    """Files of a subject with these bytes whose readings are in: content hash → their uris, the greatest last."""
    with translated_errors():
        rows = connection.execute(
            "select content_hash, source_uri from disarray.find_same_content(%s, %s, %s::text[])",
            (dataset, subject_key, list(content_hashes)),
        ).fetchall()
    found: dict[str, list[str]] = defaultdict(list)
    for content_hash, source_uri in rows:
        found[content_hash].append(source_uri)
    return found


def load_file_fragments(connection: Connection, source_uris: Sequence[str]) -> dict[str, list[FragmentEntry]]:
    """All that some files say now, active, parked or rejected, or counted for in segments sealed since, by file."""
    found: dict[str, list[FragmentEntry]] = defaultdict(list)
    for fragment in _fragments(
        connection, "select * from disarray.load_file_fragments(%s::text[])", (list(source_uris),)
    ):
        found[fragment.source_uri].append(fragment)
    return found


def load_segment_fragments(
    connection: Connection, dataset: str, subject_key: str, *, segments: Sequence[int]
) -> list[FragmentEntry]:
    """All that is active in some segments of a subject."""
    return _fragments(
        connection,
        "select * from disarray.load_segment_fragments(%s, %s, %s::bigint[])",
        (dataset, subject_key, list(segments)),
    )


def load_subject_fragments(connection: Connection, dataset: str, subject_key: str) -> list[FragmentEntry]:
    """All that is active or parked of a subject in one dataset."""
    return _fragments(
        connection,
        "select * from disarray.load_subject_fragments(%s) where dataset = %s",
        (subject_key, dataset),
    )


def find_sealed_segments(
    connection: Connection, dataset: str, subject_key: str, *, segments: Sequence[int]
) -> frozenset[int]:
    """Those of some segments whose readings are no longer kept."""
    with translated_errors():
        rows = connection.execute(
            "select segment_us from disarray.find_sealed_segments(%s, %s, %s::bigint[])",
            (dataset, subject_key, list(segments)),
        ).fetchall()
    return frozenset(segment_us for (segment_us,) in rows)


def load_kept_fragments(
    connection: Connection, dataset: str, subject_key: str, *, segments: Sequence[int]
) -> list[FragmentEntry]:
    """All that is active or parked in some segments of a subject."""
    return _fragments(
        connection,
        "select * from disarray.load_kept_fragments(%s, %s, %s::bigint[])",
        (dataset, subject_key, list(segments)),
    )


def load_segments(
    connection: Connection, dataset: str, subject_key: str, *, from_us: int, to_us: int
) -> list[SegmentEntry]:
    """The segments of a subject that start in a span, both ends included, in order."""
    with translated_errors(), connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(
            "select * from disarray.load_segments(%s, %s, %s, %s)", (dataset, subject_key, from_us, to_us)
        ).fetchall()
    return [SegmentEntry(**{name: row[name] for name in SegmentEntry.__slots__}) for row in rows]


def high_event_us(connection: Connection, dataset: str, subject_key: str) -> int | None:
    """The newest reading of a subject, from which its horizon is counted."""
    with translated_errors():
        row = connection.execute("select disarray.high_event_us(%s, %s)", (dataset, subject_key)).fetchone()
    assert row is not None
    newest: int | None = row[0]
    return newest


def _fragments(connection: Connection, query: str, parameters: tuple[object, ...]) -> list[FragmentEntry]:
    with translated_errors(), connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(query.encode(), parameters).fetchall()
    return [fragment_entry(row) for row in rows]


def fragment_entry(row: Mapping[str, Any]) -> FragmentEntry:
    """A row of the table of fragments."""
    return FragmentEntry(
        segment_us=row["segment_us"],
        source_uri=row["source_uri"],
        generation=row["generation"],
        path=row["path"],
        row_group=row["row_group"],
        readings=row["readings"],
        first_position=row["first_position"],
        last_position=row["last_position"],
        first_us=row["first_us"],
        last_us=row["last_us"],
        cut_position=row["cut_position"],
        state=FragmentState(row["state"]),
        fragment_id=FragmentId(row["fragment_id"]),
    )
