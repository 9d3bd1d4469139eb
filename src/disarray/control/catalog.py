"""The catalog: what was read of which file, and where it lies."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from disarray.control.calls import fetch_dicts, fetch_rows, find_value
from disarray.model.description.conflict_rule import ConflictRule
from disarray.model.fingerprints import Fingerprint
from disarray.model.fragments import FragmentEntry, FragmentId, FragmentState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset


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


@dataclass(frozen=True, slots=True)
class WithdrawnFragment:
    """A fragment of a blacklisted file, in the state that it had before."""

    dataset: str
    subject_key: str
    parse_version: str
    entry: FragmentEntry


def load_fingerprints(connection: Connection, source_uris: Sequence[str]) -> dict[str, Fingerprint]:
    """What is remembered of the bytes of some files."""
    rows = fetch_rows(
        connection,
        "select source_uri, fingerprint from disarray.load_fingerprints(%s::text[])",
        (list(source_uris),),
    )
    return {uri: Fingerprint.from_bytes(fingerprint) for uri, fingerprint in rows}


def find_same_content(
    connection: Connection, dataset: str, subject_key: str, *, content_hashes: Sequence[str]
) -> dict[str, list[str]]:
    """Files of a subject with these bytes whose readings are in: content hash → their uris, the greatest last."""
    rows = fetch_rows(
        connection,
        "select content_hash, source_uri from disarray.find_same_content(%s, %s, %s::text[])",
        (dataset, subject_key, list(content_hashes)),
    )
    found: dict[str, list[str]] = defaultdict(list)
    for content_hash, source_uri in rows:
        found[content_hash].append(source_uri)
    return found


def load_file_fragments(
    connection: Connection, source_uris: Sequence[str]
) -> dict[str, dict[tuple[str, str], list[FragmentEntry]]]:
    """All that some files say now, active, parked or rejected, or counted for in segments sealed since.

    By file, and then by dataset and subject: a file on its way from one to another has readings in both.
    """
    found: dict[str, dict[tuple[str, str], list[FragmentEntry]]] = defaultdict(lambda: defaultdict(list))
    rows = fetch_dicts(
        connection, "select * from disarray.load_file_fragments(%s::text[])", (list(source_uris),)
    )
    for row, entry in zip(rows, fragment_entries(connection, rows), strict=True):
        found[row["source_uri"]][row["dataset"], row["subject_key"]].append(entry)
    return found


def load_withdrawn_fragments(
    connection: Connection, source_uris: Sequence[str]
) -> dict[str, list[WithdrawnFragment]]:
    """What some files said before they were blacklisted, by file."""
    if not source_uris:
        return {}
    rows = fetch_dicts(
        connection, "select * from disarray.load_withdrawn_fragments(%s::text[])", (list(source_uris),)
    )
    found: dict[str, list[WithdrawnFragment]] = defaultdict(list)
    entries = fragment_entries(connection, [row | {"state": row["withdrawn_state"]} for row in rows])
    for row, entry in zip(rows, entries, strict=True):
        found[row["source_uri"]].append(
            WithdrawnFragment(row["dataset"], row["subject_key"], row["parse_version"], entry)
        )
    return found


def load_segment_fragments(
    connection: Connection, dataset: str, subject_key: str, *, segments: Sequence[int]
) -> list[FragmentEntry]:
    """All that is active in some segments of a subject."""
    rows = fetch_dicts(
        connection,
        "select * from disarray.load_segment_fragments(%s, %s, %s::bigint[])",
        (dataset, subject_key, list(segments)),
    )
    return fragment_entries(connection, rows)


def load_subject_fragments(connection: Connection, subject_key: str) -> dict[str, list[FragmentEntry]]:
    """All that is active or parked of a subject, by dataset."""
    rows = fetch_dicts(connection, "select * from disarray.load_subject_fragments(%s)", (subject_key,))
    found: dict[str, list[FragmentEntry]] = defaultdict(list)
    for row, entry in zip(rows, fragment_entries(connection, rows), strict=True):
        found[row["dataset"]].append(entry)
    return found


def find_sealed_segments(
    connection: Connection, dataset: str, subject_key: str, *, segments: Sequence[int]
) -> frozenset[int]:
    """Those of some segments whose readings are no longer kept."""
    rows = fetch_rows(
        connection,
        "select segment_us from disarray.find_sealed_segments(%s, %s, %s::bigint[])",
        (dataset, subject_key, list(segments)),
    )
    return frozenset(segment_us for (segment_us,) in rows)


def load_arrivals(connection: Connection, source_uris: Collection[str]) -> dict[str, int]:
    """The numbers of some files in the order of first announcements."""
    rows = fetch_rows(
        connection,
        "select source_uri, arrival from disarray.load_arrivals(%s::text[])",
        (sorted(source_uris),),
    )
    return dict(rows)


def with_arrivals(
    connection: Connection, dataset: Dataset, fragments: Sequence[FragmentEntry]
) -> list[FragmentEntry]:
    """The fragments, each with the arrival of its file, where the rule of the dataset asks for it."""
    if dataset.conflict.rule is not ConflictRule.ARRIVAL or not fragments:
        return list(fragments)
    arrivals = load_arrivals(connection, {fragment.source_uri for fragment in fragments})
    return [replace(fragment, arrival=arrivals[fragment.source_uri]) for fragment in fragments]


def load_kept_fragments(
    connection: Connection, dataset: str, subject_key: str, *, segments: Sequence[int]
) -> list[FragmentEntry]:
    """All that is active or parked in some segments of a subject."""
    rows = fetch_dicts(
        connection,
        "select * from disarray.load_kept_fragments(%s, %s, %s::bigint[])",
        (dataset, subject_key, list(segments)),
    )
    return fragment_entries(connection, rows)


def load_segments(
    connection: Connection, dataset: str, subject_key: str, *, from_us: int, to_us: int
) -> list[SegmentEntry]:
    """The segments of a subject that start in a span, both ends included, in order."""
    rows = fetch_dicts(
        connection,
        "select * from disarray.load_segments(%s, %s, %s, %s)",
        (dataset, subject_key, from_us, to_us),
    )
    return [SegmentEntry(**{name: row[name] for name in SegmentEntry.__slots__}) for row in rows]


def high_event_us(connection: Connection, dataset: str, subject_key: str) -> int | None:
    """The newest reading of a subject, from which its horizon is counted."""
    return find_value(connection, int, "select disarray.high_event_us(%s, %s)", (dataset, subject_key))


def fragment_entries(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> list[FragmentEntry]:
    """Rows of the table of fragments; those without a digest come with the checksum of their file."""
    entries = [_fragment_entry(row) for row in rows]
    paths = sorted({entry.path for entry in entries if entry.digest is None})
    if not paths:
        return entries
    found = fetch_rows(
        connection, "select path, checksum from disarray.load_lake_checksums(%s::text[])", (paths,)
    )
    checksums: dict[str, str] = dict(found)
    return [
        entry if entry.digest is not None else replace(entry, file_checksum=checksums.get(entry.path))
        for entry in entries
    ]


def _fragment_entry(row: Mapping[str, Any]) -> FragmentEntry:
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
        digest=row["digest"],
        first_row=row["first_row"],
    )
