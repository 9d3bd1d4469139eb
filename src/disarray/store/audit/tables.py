"""Tables of readings held against the catalog: rows are those that were copied in, values of dimensions included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control import catalog, definitions
from disarray.control.audit import Finding
from disarray.control.verification_runs import subject_keys
from disarray.model.segments import FIRST_US, LAST_US, datetime_of
from disarray.store.contract import SegmentContent
from disarray.store.timescale import TableReadings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.control.connections import Connection

RULE = "tables_hold_what_was_written"


def find_changed_rows(connection: Connection) -> Iterator[Finding]:
    """Segments whose rows no longer have the digest that was written with them; reads every row.

    Rows that a commit has changed meanwhile are left out: they are no longer those that were looked up.
    """
    for subject_key in subject_keys(connection):
        for (name, _), made in definitions.load_subject_versions(connection, [subject_key]).items():
            entries = [
                entry
                for entry in catalog.load_segments(
                    connection, name, subject_key, from_us=FIRST_US, to_us=LAST_US
                )
                if entry.table_digest is not None
            ]
            if not entries:
                continue
            table = TableReadings.of(connection, definitions.load_definition(connection, name, made.version))
            for entry in entries:
                rows = table.rows(subject_key, SegmentContent(entry, ()))
                digest = None if rows is None else table.digest(rows)
                if rows is not None and digest != entry.table_digest:
                    yield Finding(
                        RULE,
                        f"{name}/{subject_key} {datetime_of(entry.segment_us):%Y-%m-%dT%H:%M:%SZ}",
                        f"{rows.num_rows} rows with digest {digest}, written were {entry.readings} with "
                        f"{entry.table_digest}",
                    )
