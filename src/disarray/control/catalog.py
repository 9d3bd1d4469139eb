"""The catalog: what was read of which file, and where it lies."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

from disarray.control.translation import translated_errors
from disarray.model.fingerprints import Fingerprint
from disarray.model.format import ColumnType
from disarray.model.plan import FragmentEntry, FragmentId, FragmentState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.model.dataset import Dataset


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


def register_dataset(connection: Connection, dataset: Dataset) -> None:
    """Make a dataset's definition known, and its metrics those that are in force."""
    metrics = [
        {
            "name": metric.name,
            "kind": metric.kind.value,
            "method": metric.method.value,
            "max_gap_us": metric.max_gap_us,
            "is_integer": metric.type is ColumnType.INT64,
            "unit": metric.unit,
        }
        for metric in dataset.metrics
    ]
    definition = {"description": dataset.description, "segment_us": dataset.segment_us, "metrics": metrics}
    with translated_errors():
        connection.execute(
            "select disarray.register_dataset(%s, %s, %s, %s::jsonb, %s::jsonb)",
            (
                dataset.name,
                dataset.parse_version,
                dataset.scan_version,
                json.dumps(definition),
                json.dumps(metrics),
            ),
        )


def load_fingerprints(connection: Connection, source_uris: Sequence[str]) -> dict[str, Fingerprint]:
    """What is remembered of the bytes of some files."""
    with translated_errors():
        rows = connection.execute(
            "select source_uri, fingerprint from disarray.load_fingerprints(%s::text[])", (list(source_uris),)
        ).fetchall()
    return {uri: Fingerprint.from_bytes(fingerprint) for uri, fingerprint in rows}


def find_same_content(
    connection: Connection, dataset: str, subject_key: str, *, content_hashes: Sequence[str]
) -> dict[str, str]:
    """Files of a subject with these bytes whose readings are in: content hash → the greatest such uri."""
    with translated_errors():
        rows = connection.execute(
            "select content_hash, source_uri from disarray.find_same_content(%s, %s, %s::text[])",
            (dataset, subject_key, list(content_hashes)),
        ).fetchall()
    return dict(rows)


def find_other_version(
    connection: Connection, dataset: Dataset, subject_key: str, *, read_again: Sequence[str]
) -> str | None:
    """What of a subject was made under another definition, beside files that are being read again."""
    with translated_errors():
        row = connection.execute(
            "select disarray.find_other_version(%s, %s, %s, %s, %s::text[])",
            (dataset.name, subject_key, dataset.parse_version, dataset.scan_version, list(read_again)),
        ).fetchone()
    assert row is not None
    found: str | None = row[0]
    return found


def load_file_fragments(connection: Connection, source_uris: Sequence[str]) -> dict[str, list[FragmentEntry]]:
    """All that some files say now, active or parked, by file."""
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
