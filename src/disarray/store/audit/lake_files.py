"""The lake held against the catalog: every file that is needed is there and whole, and nothing else stays."""

from __future__ import annotations

import time
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from disarray.control import audit_catalog, audit_ledger, catalog, definitions, housekeeping, verification
from disarray.control.audit import Finding
from disarray.control.snapshots import snapshot
from disarray.control.verification_runs import subject_keys
from disarray.errors import DisarrayError, FragmentReadError
from disarray.kernels.fragments.fragment_reader import read_fragment
from disarray.kernels.scanning.digests import digest_readings
from disarray.model.segments import FIRST_US, LAST_US, datetime_of
from disarray.store.audit.disagreements import (
    find_lost_disagreements,
    find_wrong_disagreements,
    load_disagreements,
)
from disarray.store.audit.ends import (
    SegmentRows,
    find_wrong_ends,
    find_wrong_fragments,
    find_wrong_generations,
    find_wrong_summaries,
)
from disarray.store.audit.ledger import NotedValues
from disarray.store.audit.meanings import find_wrong_meanings
from disarray.store.audit.segment_reader import SegmentReader
from disarray.store.lake_readings import LakeReadings
from disarray.store.segments import look_up_segments
from disarray.store.sweeping import list_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import timedelta

    from disarray.control.audit_catalog import LiveLakeFile
    from disarray.control.connections import Connection
    from disarray.store.lake import Lake

_Entry = TypeVar("_Entry")
# A run that claimed may still write; it is given so much more, for clocks that do not agree.
_CLOCK_MARGIN_SECONDS = 3600
_PAGE = 1000
_READ_BYTES = 1 << 20


def find_missing_files(lake: Lake, files: Iterable[LiveLakeFile]) -> Iterator[Finding]:
    """Files that are gone, have another size, or whose footer does not hold the row groups that are needed."""
    for file in files:
        wrong = _what_is_wrong(Path(lake.absolute(file.path)), file)
        if wrong is not None:
            yield Finding("the_lake_has_every_file", file.path, wrong)


def find_changed_files(lake: Lake, files: Iterable[LiveLakeFile]) -> Iterator[Finding]:
    """Files whose bytes are not those that were written; reads all of them.

    Damage that lies in row groups which nothing needs any more, because their source was read again, is no finding.
    """
    for file in files:
        path = Path(lake.absolute(file.path))
        try:
            with path.open("rb") as opened:
                hasher = blake3()
                while piece := opened.read(_READ_BYTES):
                    hasher.update(piece)
        except OSError as error:
            yield Finding("lake_files_are_as_written", file.path, error.strerror or str(error))
            continue
        if hasher.hexdigest() != file.checksum and not _is_damage_spent(str(path), file):
            yield Finding(
                "lake_files_are_as_written", file.path, f"checksum {hasher.hexdigest()}, not {file.checksum}"
            )


def _is_damage_spent(path: str, file: LiveLakeFile) -> bool:
    """Whether all that is needed of a file is as written, and what differs is a row group that is not needed."""
    needed = dict(zip(file.row_groups, file.digests, strict=True))
    former = dict(zip(file.former_row_groups, file.former_digests, strict=True))
    return not any(
        digest is None or _is_damaged(path, number, digest) for number, digest in needed.items()
    ) and any(number not in needed and _is_damaged(path, number, digest) for number, digest in former.items())


def _is_damaged(path: str, row_group: int, digest: str) -> bool:
    try:
        read_fragment(path, row_group, digest=digest)
    except FragmentReadError:
        return True
    return False


def find_orphans(connection: Connection, lake: Lake, *, after: timedelta) -> Iterator[Finding]:
    """What dead runs left behind and no sweep took, for longer than that."""
    least_age = after.total_seconds()
    claim_age = housekeeping.oldest_claim_age(connection)
    if claim_age is not None:
        least_age = max(least_age, claim_age.total_seconds() + _CLOCK_MARGIN_SECONDS)
    for page in _pages(list_entries(lake, written_before=time.time() - least_age)):
        unknown = set(housekeeping.find_unknown_lake_files(connection, [entry.path for entry in page]))
        for entry in page:
            if entry.path in unknown:
                yield Finding("orphans_are_swept", entry.path, f"{entry.bytes:,} bytes")


def find_misread_segments(connection: Connection, lake: Lake) -> Iterator[Finding]:
    """Segments whose fragments do not give what was written down when they were scanned; reads every reading."""
    with SegmentReader() as reader:
        for subject_key in subject_keys(connection):
            yield from _misread_segments(connection, lake, subject_key, reader)


def _misread_segments(
    connection: Connection, lake: Lake, subject_key: str, reader: SegmentReader
) -> Iterator[Finding]:
    stored = verification.load_subject(connection, subject_key)
    disagreeing = load_disagreements(connection, subject_key)
    with snapshot(connection):
        links = audit_catalog.load_base_chains(connection, subject_key)
        noted = audit_ledger.list_settled_restatements(connection, subject_key)
        versions = definitions.load_subject_versions(connection, [subject_key])
        stale = verification.load_stale_from(connection, subject_key, {name for name, _ in versions})
        entries_of = {
            name: catalog.load_segments(connection, name, subject_key, from_us=FIRST_US, to_us=LAST_US)
            for name, _ in versions
        }
    for (name, _), made in versions.items():
        dataset = definitions.load_definition(connection, name, made.version)
        entries = entries_of[name]
        revisions = {entry.segment_us: entry.revision for entry in entries}
        wanted = [entry.segment_us for entry in entries if not entry.is_sealed]
        written = SegmentRows.of(stored, name)
        yield from find_wrong_ends(written, f"{name}/{subject_key}", length_us=dataset.segment_length_us)
        yield from find_wrong_generations(stored, name)
        if stored.versions.get(name) == made.version:
            summarized = {row["metric"] for row in stored.summaries.get(name, ())}
            yield from find_wrong_meanings(links, dataset, summarized)
        promised = NotedValues.of(
            dataset, subject_key, links=links, noted=noted, stale_from_us=stale.get(name)
        )
        yield from promised.find_wrong_ends()
        disagreements = {start: pairs for (of, start), pairs in disagreeing.items() if of == name}
        yield from find_lost_disagreements(written, disagreements, f"{name}/{subject_key}")
        for page in _pages(wanted):
            contents = look_up_segments(connection, dataset, subject_key, segments=page)
            for content in contents.values():
                reader.next_segment()
                found_at = f"{name}/{subject_key} {datetime_of(content.entry.segment_us):%Y-%m-%dT%H:%M:%SZ}"
                try:
                    read = LakeReadings(lake, dataset, reader).read(subject_key, content)
                except (DisarrayError, pa.ArrowException, OSError) as error:
                    yield Finding("segments_read_as_they_were_scanned", found_at, str(error))
                    continue
                digest = None if read is None else digest_readings(read.readings)
                if digest != content.entry.digest:
                    yield Finding(
                        "segments_read_as_they_were_scanned",
                        found_at,
                        f"digest {digest}, scanned was {content.entry.digest}",
                    )
                elif read is not None:
                    yield from find_wrong_summaries(read, content.entry, written, found_at)
                    yield from find_wrong_disagreements(read, content.entry, written, disagreements, found_at)
                    if content.entry.revision == revisions[content.entry.segment_us]:
                        yield from promised.find_wrong_values(read, content.entry.segment_us)
                    yield from find_wrong_fragments(reader, content.fragments, lake, found_at)


def _what_is_wrong(path: Path, file: LiveLakeFile) -> str | None:
    try:
        size = path.stat().st_size
        if size != file.bytes:
            return f"{size:,} bytes, not {file.bytes:,}"
        with closing(pq.ParquetFile(path)) as opened:
            footer = opened.metadata
            rows = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
            needed = zip(file.row_groups, file.readings, file.first_rows, strict=True)
            for number, readings, first_row in needed:
                if number >= len(rows) or (
                    rows[number] != readings if first_row is None else rows[number] < first_row + readings
                ):
                    return f"row group {number} does not have {(first_row or 0) + readings:,} readings"
    except OSError as error:
        return error.strerror or str(error)
    except pa.ArrowException as error:
        return f"its footer cannot be read: {error}"
    return None


def _pages(entries: Iterable[_Entry]) -> Iterator[list[_Entry]]:
    left = iter(entries)
    while page := list(islice(left, _PAGE)):
        yield page
