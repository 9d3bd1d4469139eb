"""Files that belong to another dataset or subject than before, and those that no dataset takes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.calls import call, fetch_records, fetch_value, find_value
from disarray.control.translation import translated_errors
from disarray.model.fingerprints import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder, QueueId

_PAGE = 5_000


@dataclass(frozen=True, slots=True)
class Home:
    """A dataset and subject that a generation of a file has readings in, the first that may leave at `first_us`."""

    source_uri: str
    dataset: str
    subject_key: str
    generation: int
    first_us: int
    is_sealed: bool  # all of them: they count here for ever, wherever the file belongs
    is_known: bool  # as where the file belongs


@dataclass(frozen=True, slots=True)
class MovingFile:
    """A file that is still to come to a subject or to leave it; `generation` is what leaves, None for all of it.

    With a `decision` it does neither: that is still to be done to what an earlier generation said of the subject.
    """

    subject_key: str
    dataset: str
    source_uri: str
    is_arriving: bool
    generation: int | None
    decision: str | None


@dataclass(frozen=True, slots=True)
class HandOver:
    """A claimed item whose file is about another subject."""

    queue_id: QueueId
    subject_key: str
    dataset: str


@dataclass(frozen=True, slots=True)
class Move:
    """A file, and the subject and dataset that it belongs to now."""

    source_uri: str
    subject_key: str
    dataset: str


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file that was taken in: where it is known to belong, and where the readings of its newest generation are."""

    source_uri: str
    dataset: str | None
    subject_key: str
    homes: tuple[tuple[str, str], ...]  # dataset, subject
    is_rebuild_pending: bool
    is_queued: bool
    fingerprint: Fingerprint | None


@dataclass(frozen=True, slots=True)
class UnmatchedFile:
    """A file that no dataset takes any more; `readings` of it still count, and there are `files` such files."""

    source_uri: str
    dataset: str | None
    subject_key: str
    readings: int
    files: int


def hand_over_items(connection: Connection, handed: Sequence[HandOver], holder: Holder) -> None:
    """Give claimed items to the subjects that their files are about, all or none; each counts as an attempt."""
    call(
        connection,
        "select disarray.hand_over_items(%s::bigint[], %s::text[], %s::text[], %s, %s)",
        (
            [each.queue_id for each in handed],
            [each.subject_key for each in handed],
            [each.dataset for each in handed],
            holder.instance_name,
            holder.incarnation,
        ),
    )


def load_file_homes(connection: Connection, source_uris: Sequence[str]) -> dict[str, list[Home]]:
    """Where some files have readings, by uri; what counted in segments that were sealed since stays there."""
    rows = fetch_records(
        connection, Home, "select * from disarray.load_file_homes(%s::text[])", (list(source_uris),)
    )
    found: dict[str, list[Home]] = defaultdict(list)
    for home in rows:
        found[home.source_uri].append(home)
    return dict(found)


def load_moving_files(connection: Connection, subject_keys: Sequence[str]) -> list[MovingFile]:
    """Files that are still to come to some subjects, or to leave them, and decisions about what they said earlier."""
    return fetch_records(
        connection, MovingFile, "select * from disarray.load_moving_files(%s::text[])", (list(subject_keys),)
    )


def count_moving_files(connection: Connection) -> int:
    """How many files are on their way from one dataset or subject to another."""
    return fetch_value(connection, int, "select disarray.count_moving_files()")


def list_known_files(connection: Connection, *, with_fingerprints: bool) -> Iterator[KnownFile]:
    """Every file that was taken in and is not blacklisted, by uri."""
    after = ""
    while True:
        with translated_errors():
            rows = connection.execute(
                "select * from disarray.list_known_files(%s, %s, %s)", (after, _PAGE, with_fingerprints)
            ).fetchall()
        for uri, dataset, subject, homes, is_rebuild_pending, is_queued, fingerprint in rows:
            yield KnownFile(
                source_uri=uri,
                dataset=dataset,
                subject_key=subject,
                homes=tuple((name, key) for name, key in homes),
                is_rebuild_pending=is_rebuild_pending,
                is_queued=is_queued,
                fingerprint=None if fingerprint is None else Fingerprint.from_bytes(fingerprint),
            )
        if len(rows) < _PAGE:
            return
        after = rows[-1][0]


def queue_moves(connection: Connection, moves: Sequence[Move]) -> None:
    """Have files that were taken in read again for the dataset and subject that they belong to now."""
    call(
        connection,
        "select disarray.queue_moves(%s::text[], %s::text[], %s::text[])",
        (
            [move.source_uri for move in moves],
            [move.subject_key for move in moves],
            [move.dataset for move in moves],
        ),
    )


def matching_rules(connection: Connection) -> str | None:
    """The rules that all known files were last held against."""
    return find_value(connection, str, "select disarray.matching_rules()")


def note_matching(connection: Connection, rules: str, *, unmatched_uris: Sequence[str]) -> None:
    """Note that all known files were held against these rules, and which of them no dataset takes."""
    call(connection, "select disarray.note_matching(%s, %s::text[])", (rules, list(unmatched_uris)))


def list_unmatched_files(connection: Connection, *, limit: int = 100) -> list[UnmatchedFile]:
    """Files that no dataset takes any more."""
    return fetch_records(
        connection, UnmatchedFile, "select * from disarray.list_unmatched_files(%s)", (limit,)
    )
