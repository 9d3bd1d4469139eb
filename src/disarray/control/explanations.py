"""Where a number comes from: the segment it lies in, the files in it, and those to the left that make its base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control.calls import fetch_rows, find_value
from disarray.control.values import Restatement, restatement_of

if TYPE_CHECKING:
    from disarray.control.connections import Connection
    from disarray.control.metadata import Metadata


def explain_segment(
    connection: Connection, dataset: str, subject_key: str, *, segment_us: int, limit: int = 10
) -> Metadata | None:
    """A segment with its run, its files, and the files before it, those that changed last first; None for none."""
    return find_value(
        connection,
        dict,
        "select disarray.explain_segment(%s, %s, %s, %s)",
        (dataset, subject_key, segment_us, limit),
    )


def list_metric_restatements(
    connection: Connection,
    dataset: str,
    subject_key: str,
    *,
    metric: str,
    channel: str,
    at_us: int,
    limit: int = 10,
    reading_us: int | None = None,
) -> list[Restatement]:
    """Restatements that changed the value at an instant, newest first."""
    rows = fetch_rows(
        connection,
        """
        select
            dataset, subject_key, metric, channel, changed_from, changed_to,
            first_old_int, first_old_float, first_new_int, first_new_float,
            old_int, old_float, new_int, new_float, delta_int, delta_float,
            least_int, least_float, greatest_int, greatest_float, source_uris, is_redefined, restated_at,
            restatement_id
        from disarray.list_metric_restatements(%s, %s, %s, %s, %s, %s, %s)
        """,
        (dataset, subject_key, metric, channel, at_us, limit, reading_us),
    )
    return [restatement_of(row) for row in rows]
