"""Whether a table is taken in by an initial load, and where its chunks end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.model.description.table_source import InitialLoad, Start
from disarray.sources.load_share import divide_buffered, divide_settled
from disarray.sources.settled_extract import refuse_cursor
from disarray.sources.table_columns import read_layout, relation_of
from disarray.sources.table_extract import DESCRIBED, exactness_of, starting_point, watermark_document
from disarray.sources.table_pages import PagedTable
from disarray.sources.table_session import Server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.table_source import TableSource
    from disarray.sources.load_share import Division
    from disarray.sources.table_session import TableSession
    from disarray.sources.watermark import Position

# A table with fewer rows is in before a second task would have begun.
FEWEST_ROWS = 250_000
_EXPECTED_ROWS = re.compile(r" rows=(\d+) ")
_SORTED = re.compile(r"(->\s+)?(Incremental )?Sort")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """An initial load, and the watermark that begins behind it; both are stored in one transaction."""

    division: Division
    layout: Mapping[str, Any]
    watermark: Mapping[str, Any]
    key_end: Position
    rows_estimated: int

    def document(self) -> dict[str, Any]:
        """What chunks are read by."""
        return {
            "share": self.division.share.document(),
            "layout": dict(self.layout),
            DESCRIBED: self.watermark[DESCRIBED],
        }


def plan_load(
    session: TableSession, source: TableSource, dataset: Dataset, watermark: Mapping[str, Any] | None
) -> LoadPlan | None:
    """The load of a table that was never read, or was reset; None where it is read in order, as any other time.

    In order: SQLite, which one process reads; a query, of which every chunk would compute the whole; what is small.
    """
    at = starting_point(source, watermark)
    if (
        at is None
        or at is Start.NOW
        or source.initial_load is InitialLoad.NEVER
        or source.table is None
        or session.server is not Server.POSTGRESQL
    ):
        return None
    exactness = exactness_of(session, source)
    layout = read_layout(session, source, dataset)
    table = PagedTable(session, source, layout, has_transactions=False, is_by_key=True)
    if source.initial_load is InitialLoad.AUTO and not (_is_large(session, source) and _has_index(table)):
        return None
    PagedTable(session, source, layout, has_transactions=False).refuse_missing_keys()
    table.refuse_missing_keys()
    if exactness.reason is None:
        refuse_cursor(source, layout)
        division = divide_settled(session, source, layout, at, can_settle=exactness.can_settle)
    else:
        division = divide_buffered(session, source, layout, at)
    key_end = table.last_position()
    if division is None or key_end is None:
        return None
    return LoadPlan(
        division=division,
        layout=layout.document(),
        watermark=watermark_document(source, division.mark),
        key_end=key_end,
        rows_estimated=estimated_rows(session, source),
    )


def cut_chunks(
    session: TableSession,
    source: TableSource,
    dataset: Dataset,
    *,
    after: Position | None,
    key_end: Position,
    chunks: int,
) -> tuple[Sequence[Position], bool]:
    """The ends of the next chunks of `limit` rows, and whether all was cut: what is left is open to the end.

    Keys that were added behind the greatest one meanwhile belong to the last chunk: what such rows hold of the load
    was written by transactions that were open when it began.
    """
    layout = read_layout(session, source, dataset)
    table = PagedTable(session, source, layout, has_transactions=False, is_by_key=True)
    ends: list[Position] = []
    while len(ends) < chunks:
        end = table.end_of(ends[-1] if ends else after, key_end, rows=source.limit)
        if end is None or end == key_end:
            return ends, True
        ends.append(end)
    return ends, False


def _is_large(session: TableSession, source: TableSource) -> bool:
    return _counted_rows(session, source) > FEWEST_ROWS


def _counted_rows(session: TableSession, source: TableSource) -> int:
    """How many rows a table has; of a large one it is known only that it is large."""
    counted = session.rows(
        f"select count(*) as rows from (select 1 from {relation_of(source)} limit {FEWEST_ROWS + 1}) as counted"  # noqa: S608
    )
    return int(counted.column("rows")[0].as_py())


def _has_index(table: PagedTable) -> bool:
    """Whether rows are found in the order of the key: without an index every chunk would sort the table."""
    plan = table.session.explain(table.statement(None, None, rows=table.source.limit))
    return not any(_SORTED.fullmatch(line.strip()) for line in plan)


def estimated_rows(session: TableSession, source: TableSource) -> int:
    """About how many rows a table has: what the planner expects, which asks nobody to have analysed it."""
    counted = _counted_rows(session, source)
    if counted <= FEWEST_ROWS:
        return counted
    plan = session.explain(f"select 1 from {relation_of(source)}", costs="on")  # noqa: S608 - names are quoted
    expected = _EXPECTED_ROWS.search(plan[0])
    return counted if expected is None else max(counted, int(expected[1]))
