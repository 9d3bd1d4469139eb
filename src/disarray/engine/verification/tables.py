"""Tables of readings beside the catalog: whether each row is there, as it was written, and says what the files say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control.catalog import SegmentEntry
from disarray.engine.verification.comparison import Difference
from disarray.kernels.scanning.digests import digest_readings
from disarray.store.contract import SegmentContent
from disarray.store.timescale import TableReadings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset


def table_differences(
    connection: Connection, dataset: Dataset, segments: Sequence[Mapping[str, Any]]
) -> Iterator[Difference]:
    """Segments whose rows are not those of the catalog, which was itself compared with the files.

    Rows that a commit has changed meanwhile are left out: they are no longer those that were looked up.
    """
    table = TableReadings.of(connection, dataset)
    for row in segments:
        if row["table_digest"] is None:
            continue
        entry = SegmentEntry(**{name: row[name] for name in SegmentEntry.__slots__})
        rows = table.rows(row["subject_key"], SegmentContent(entry, ()))
        if rows is None:
            continue
        compared = {
            "table readings": (digest_readings(table.readings(rows).readings), entry.digest),
            "table rows": (table.digest(rows), entry.table_digest),
        }
        for what, (stored, wanted) in compared.items():
            if stored != wanted:
                yield Difference(
                    dataset=dataset.name,
                    subject_key=row["subject_key"],
                    what=what,
                    name=f"telemetry.{table.table.name}",
                    channel="",
                    segment_us=entry.segment_us,
                    stored=f"{rows.num_rows} rows, {stored}",
                    recomputed=f"{entry.readings} rows, {wanted}",
                )
