"""What is stored about some subjects: descriptors in memory, summaries and rollup parts in files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.control import verification
from disarray.control.verification import SubjectRows
from disarray.engine.verification.comparison import ROLLUP_PARTS, SUMMARIES
from disarray.engine.verification.stored_rows import StoredRowsWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from disarray.control.connections import Connection
    from disarray.control.verification import StoredSubject
    from disarray.engine.verification.comparison import Comparison
    from disarray.engine.verification.selection import Selection
    from disarray.engine.verification.stored_rows import StoredRows

COMPARED: Mapping[SubjectRows, Comparison] = {
    SubjectRows.SUMMARIES: SUMMARIES,
    SubjectRows.ROLLUP_PARTS: ROLLUP_PARTS,
}


@dataclass(frozen=True, slots=True)
class StoredPage:
    """Some subjects, each seen at one moment; rows by dataset and subject."""

    subjects: tuple[StoredSubject, ...]
    summaries: Mapping[str, Mapping[str, StoredRows]]
    rollup_parts: Mapping[str, Mapping[str, StoredRows]]


def load_page(
    connection: Connection,
    subject_keys: Sequence[str],
    folder: Path,
    *,
    selection: Selection,
) -> StoredPage:
    """Look up subjects; their rows go into files in the folder as they come.

    A sample of a long history has few rollup parts; those of the other segments are not compared, and not loaded.
    """
    writers: dict[tuple[SubjectRows, str], StoredRowsWriter] = {}

    def write(table: SubjectRows, rows: Sequence[Sequence[Any]]) -> None:
        by_dataset: dict[str, list[Sequence[Any]]] = {}
        for dataset, *row in rows:
            by_dataset.setdefault(dataset, []).append(row)
        for dataset, own in by_dataset.items():
            if (table, dataset) not in writers:
                path = folder / f"{len(writers):03d}-{table}.parquet"
                writers[table, dataset] = StoredRowsWriter(str(path), COMPARED[table])
            writers[table, dataset].add(own)

    columns = {table: comparison.schema.names for table, comparison in COMPARED.items()}

    def load(key: str) -> StoredSubject:
        def takes(segment_us: int, length_us: int) -> bool:
            return selection.takes(key, segment_us, length_us=length_us)

        return verification.load_subject(
            connection,
            key,
            columns=columns,
            on_rows=write,
            takes=None if selection.is_everything else takes,
        )

    subjects = tuple(map(load, subject_keys))
    written = {key: writer.close() for key, writer in writers.items()}

    def of(table: SubjectRows) -> dict[str, Mapping[str, StoredRows]]:
        return {dataset: rows for (own, dataset), rows in written.items() if own is table}

    return StoredPage(subjects, of(SubjectRows.SUMMARIES), of(SubjectRows.ROLLUP_PARTS))
