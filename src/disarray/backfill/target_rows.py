"""The rows of a subject in the target of a destination and as they are answered here: count and checksum of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.backfill.row_sums import RowSum, sum_of, sum_rows
from disarray.backfill.user_database.target_table import measure_table
from disarray.errors import ReadingsGoneError
from disarray.model.description.destination import Content
from disarray.sinks.destination_changes import EVERYTHING, WHOLE, Changes, without
from disarray.sinks.destination_pieces import cut_rows
from disarray.sinks.destination_rows import SubjectRows
from disarray.sinks.destination_shape import COMMIT, shape_of
from disarray.sinks.destination_targets import Elsewhere, SameDatabase

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from disarray.sinks.destination_changes import Span
    from disarray.sinks.destination_loader import DestinationLoader
    from disarray.sinks.destination_pieces import PieceRows
    from disarray.sinks.destination_shape import Shape
    from disarray.sinks.destination_targets import OpenTarget


@dataclass(frozen=True, slots=True)
class SummedPiece:
    """What a task found, or why it could not: an exception would come back from Spark as a text."""

    found: RowSum
    gone: str = ""

    def result(self) -> RowSum:
        """What was found, or the error as it was raised."""
        if self.gone:
            raise ReadingsGoneError(self.gone)
        return self.found


def answered_rows(
    loader: DestinationLoader, subject_key: str, *, commit_seq: int
) -> tuple[RowSum, Sequence[Span]]:
    """What is answered here of a subject, and the spans of which nobody knows the rows any more.

    All that is loaded counts but the number of the commit. Many readings are read and hashed by tasks.
    """
    shape = shape_of(loader.destination)
    with loader.pool.connection() as connection:
        rows = SubjectRows(
            connection=connection,
            lake=loader.lake,
            destination=loader.destination,
            shape=shape,
            subject_key=subject_key,
            commit_seq=commit_seq,
            changes=WHOLE,
        )
        if loader.runner is not None and loader.destination.content is Content.READINGS:
            pieces = cut_rows(rows, at_least=loader.settings.cut_readings)
            if pieces:
                summed = loader.runner.beside("backfills").run(sum_piece, pieces)
                known = [span for piece in pieces for span in piece.changes.spans]
                return sum_of(each.result() for each in summed), without((EVERYTHING,), known)
        return sum_of(_sum(table, shape) for table in rows), rows.kept


def sum_piece(piece: PieceRows) -> SummedPiece:
    """The kernel: read one piece, and hash its rows."""
    try:
        return SummedPiece(sum_of(_sum(table, piece.shape) for table in piece))
    except ReadingsGoneError as error:
        return SummedPiece(RowSum(), str(error))


def target_rows(target: OpenTarget, subject_key: str, spans: Sequence[Span]) -> RowSum:
    """What a target has of a subject in some spans."""
    if isinstance(target, SameDatabase | Elsewhere):
        return measure_table(target.loader, subject_key, spans)
    from disarray.sinks.destination_delta import DeltaLoader

    assert isinstance(target, DeltaLoader)
    return _sum(target.rows_of(subject_key, Changes(tuple(spans))), target.shape)


def compared_columns(shape: Shape) -> list[pa.Field[Any]]:
    """All that is loaded but the commit, which says when a row became what it is."""
    return [field for field in shape.loaded if field.name != COMMIT]


def _sum(table: pa.Table, shape: Shape) -> RowSum:
    return sum_rows(table.select([field.name for field in compared_columns(shape)]))
