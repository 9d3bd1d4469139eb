"""A large load in pieces: spans of a subject's readings, each read from fragments and loaded by a Spark task.

Each piece is a transaction of its own, under the fence of the load that it is a piece of. Loaded twice, or by two tasks
at once of which one was given up, it is loaded once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from disarray.control import catalog
from disarray.errors import (
    DestinationMisfitError,
    DestinationUnavailableError,
    ReadingsGoneError,
    TargetFencedError,
    UnloadableRowsError,
)
from disarray.model.description.destination import TableTarget
from disarray.model.segments import FIRST_US, segment_start
from disarray.queries.readings import readings
from disarray.sinks.destination_changes import END_US, Changes, Span, intersection, without
from disarray.sinks.destination_database import Loaded, open_target
from disarray.sinks.destination_rows import reading_rows, with_subject
from disarray.sinks.destination_secrets import destination_secret
from disarray.sinks.destination_statements import Statements

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from disarray.control.destinations import LoadTurn
    from disarray.model.description.destination import Destination
    from disarray.queries.readings import Readings
    from disarray.sinks.destination_rows import SubjectRows
    from disarray.sinks.destination_shape import Shape

# What a task loads: about a second of work, so that a pass which needs the cores waits no longer.
PIECE_READINGS = 200_000
_TOLD = (
    DestinationUnavailableError,
    DestinationMisfitError,
    UnloadableRowsError,
    ReadingsGoneError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceRows:
    """Rows of one piece, from fragments that were looked up before; as `SubjectRows`."""

    shape: Shape
    subject_key: str
    commit_seq: int
    changes: Changes
    parts: tuple[Readings, ...]
    kept: Sequence[Span] = ()

    def __iter__(self) -> Iterator[pa.Table]:
        """Tables with the columns that are loaded, none of them empty."""
        for part in self.parts:
            for table in reading_rows(part, self.shape):
                if table.num_rows:
                    yield with_subject(table, self.shape, self.subject_key, self.commit_seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What one task needs: descriptors, under which turn, and where the url of the target is, never the url."""

    destination: Destination
    turn: LoadTurn
    number: int
    rows: PieceRows
    is_whole: bool
    lease_seconds: int


@dataclass(frozen=True, slots=True)
class PieceOutcome:
    """What a task did, or the error that it met: an exception would come back from Spark as a text."""

    loaded: Loaded | None
    error: str = ""
    message: str = ""
    target_fence: int = 0

    def result(self) -> Loaded:
        """What was loaded, or the error as it was raised."""
        if self.loaded is not None:
            return self.loaded
        if self.error == TargetFencedError.__name__:
            raise TargetFencedError(self.message, target_fence=self.target_fence)
        raise next(kind for kind in _TOLD if kind.__name__ == self.error)(self.message)


def count_readings(rows: SubjectRows) -> int:
    """How many readings the catalog has of a subject, dropped ones as well: a target keeps those."""
    entries = catalog.load_segments(
        rows.connection, rows.destination.dataset.name, rows.subject_key, from_us=FIRST_US, to_us=END_US - 1
    )
    return sum(entry.readings for entry in entries)


def cut_into_pieces(rows: SubjectRows, turn: LoadTurn, *, lease_seconds: int, at_least: int) -> list[Piece]:
    """The pieces of a load of readings, or none where it has fewer readings than that.

    Together they cover all spans that are loaded, also where nothing is: rows that a target has there have to go.
    """
    return [
        Piece(
            destination=rows.destination,
            turn=turn,
            number=number,
            rows=piece,
            is_whole=rows.changes.is_whole,
            lease_seconds=lease_seconds,
        )
        for number, piece in enumerate(cut_rows(rows, at_least=at_least))
    ]


def cut_rows(rows: SubjectRows, *, at_least: int) -> list[PieceRows]:
    """Readings in pieces that are read without a connection, in their order; none where there are fewer than that.

    Spans of which nobody knows the rows any more are in no piece.
    """
    dataset = replace(rows.destination.dataset, metrics=())
    length_us = dataset.segment_length_us
    first, last = rows.changes.spans[0].from_us, rows.changes.spans[-1].to_us
    entries = [
        entry
        for entry in catalog.load_segments(
            rows.connection,
            dataset.name,
            rows.subject_key,
            from_us=segment_start(max(first, FIRST_US), length_us),
            to_us=min(last, END_US) - 1,
        )
        if intersection(rows.changes.spans, [Span(entry.segment_us, entry.segment_us + length_us)])
    ]
    if sum(entry.readings for entry in entries if not entry.is_sealed) < at_least:
        return []
    sealed = [Span(entry.segment_us, entry.segment_us + length_us) for entry in entries if entry.is_sealed]
    loaded = without(rows.changes.spans, sealed)
    found = readings(
        rows.connection, rows.lake, dataset=dataset, subject_key=rows.subject_key, from_us=first, to_us=last
    )
    if any(not content.fragments for content in found.contents.values()):
        # Only the table of the database has them, and no task is connected to it.
        return []
    pieces = []
    for window in _windows([(entry.segment_us, entry.readings) for entry in entries]):
        if not (spans := intersection(loaded, [window])):
            continue
        parts = tuple(found.detached(span.from_us, span.to_us) for span in spans)
        pieces.append(
            PieceRows(
                shape=rows.shape,
                subject_key=rows.subject_key,
                commit_seq=rows.commit_seq,
                changes=Changes(spans),
                parts=tuple(part for part in parts if part.contents),
            )
        )
    return pieces


def load_piece(piece: Piece) -> PieceOutcome:
    """The kernel: load one piece into the target, or change nothing of it."""
    target = piece.destination.target
    assert isinstance(target, TableTarget)
    assert target.url is not None
    statements = Statements(target, piece.rows.shape, piece.destination.load)
    try:
        dsn = destination_secret(target.url, where=" where the tasks of Spark run")
        with open_target(piece.destination, statements, dsn=dsn, lease_seconds=piece.lease_seconds) as loader:
            return PieceOutcome(
                loader.load_piece(piece.turn, piece.rows, number=piece.number, is_whole=piece.is_whole)
            )
    except TargetFencedError as error:
        return PieceOutcome(None, type(error).__name__, str(error), error.target_fence)
    except _TOLD as error:
        return PieceOutcome(None, type(error).__name__, str(error))


def _windows(segments: Sequence[tuple[int, int]]) -> Iterator[Span]:
    """All of time, cut at starts of segments so that no window has many more readings than a piece should."""
    from_us, held = FIRST_US, 0
    for segment_us, count in segments:
        if held and held + count > PIECE_READINGS:
            yield Span(from_us, segment_us)
            from_us, held = segment_us, 0
        held += count
    yield Span(from_us, END_US)
