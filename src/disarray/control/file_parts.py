"""Files about several subjects: their parts, and what splits delivered to these."""

from __future__ import annotations

import base64
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.control.calls import fetch_dicts, fetch_records, fetch_rows
from disarray.model.fingerprints import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disarray.control.connections import Connection

_PAGE = 100


@dataclass(frozen=True, slots=True)
class FilePart:
    """What a file says about one of its subjects, by name."""

    part_uri: str
    parent_uri: str
    subject_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDelivery:
    """What a split found out about a part; `delivery_no` is None until it is committed.

    What the part said from `seam_position` on is replaced by `fragments`; in a new generation nothing is.
    """

    part_uri: str
    parent_uri: str
    subject_key: str
    seam_position: int
    change: str
    replacement: str
    fragments: Sequence[dict[str, Any]]  # as `Fragment` has them, with paths relative to the lake
    fingerprint: Fingerprint
    delivery_no: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it says all that the newest generation of the file says."""
        return self.seam_position == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartState:
    """Where a part stands beside its file."""

    part_uri: str
    subject_key: str
    fingerprint: Fingerprint | None  # None where nothing was taken in of it
    is_known: bool
    is_waiting: bool
    is_queued: bool
    is_blacklisted: bool
    is_failed: bool


@dataclass(frozen=True, slots=True)
class SplitFile:
    """A file that was split, and its parts."""

    parent_uri: str
    fingerprint: Fingerprint | None
    parts: tuple[PartState, ...]


def load_file_parts(connection: Connection, parent_uris: Sequence[str]) -> dict[str, list[FilePart]]:
    """The parts that some files were ever split into, by file."""
    found: dict[str, list[FilePart]] = defaultdict(list)
    for part in fetch_records(
        connection, FilePart, "select * from disarray.load_file_parts(%s::text[])", (list(parent_uris),)
    ):
        found[part.parent_uri].append(part)
    return found


def load_part_deliveries(
    connection: Connection, parts: Sequence[tuple[str, str]]
) -> dict[str, list[PartDelivery]]:
    """What nobody has taken in yet of some parts, by uri, oldest first; `parts` are uris with their subjects."""
    subjects = dict(parts)
    rows = fetch_dicts(
        connection, "select * from disarray.load_part_deliveries(%s::text[])", (list(subjects),)
    )
    found: dict[str, list[PartDelivery]] = defaultdict(list)
    for row in rows:
        uri = row["part_uri"]
        found[uri].append(
            PartDelivery(
                part_uri=uri,
                parent_uri=row["parent_uri"],
                subject_key=subjects[uri],
                seam_position=row["seam_position"],
                change=row["change"],
                replacement=row["replacement"],
                fragments=row["fragments"],
                fingerprint=Fingerprint.from_bytes(row["fingerprint"]),
                delivery_no=row["delivery_no"],
            )
        )
    return found


def load_part_parents(connection: Connection, part_uris: Sequence[str]) -> dict[str, Fingerprint]:
    """What is remembered of the bytes of the files that some parts are parts of, by part."""
    rows = fetch_rows(
        connection,
        "select part_uri, fingerprint from disarray.load_part_parents(%s::text[])",
        (list(part_uris),),
    )
    return {uri: Fingerprint.from_bytes(fingerprint) for uri, fingerprint in rows}


def list_split_files(connection: Connection) -> Iterator[SplitFile]:
    """Every file that was split, by uri."""
    after = ""
    while True:
        rows = fetch_rows(
            connection,
            "select parent_uri, fingerprint, parts from disarray.list_split_files(%s, %s)",
            (after, _PAGE),
        )
        for uri, fingerprint, parts in rows:
            known = None if fingerprint is None else Fingerprint.from_bytes(fingerprint)
            yield SplitFile(uri, known, tuple(_state(part) for part in parts))
        if len(rows) < _PAGE:
            return
        after = rows[-1][0]


def _state(row: dict[str, Any]) -> PartState:
    packed = row.pop("fingerprint")
    fingerprint = None if packed is None else Fingerprint.from_bytes(base64.b64decode(packed))
    return PartState(**row, fingerprint=fingerprint)
