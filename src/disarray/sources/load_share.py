"""Which row versions an initial load takes: they are cut off once, and all others are the watermark's.

By the cursor, where a watermark settles: rows up to a bound are the load's. Those that can still appear there are
written by transactions that were open when the bound was noted; they are listed. By the transaction, where none does:
rows that had been written before the oldest transaction that was open.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from disarray.model.description.table_source import Start, WatermarkKind
from disarray.sources.buffered_extract import before
from disarray.sources.server_snapshots import (
    current_snapshot,
    known_server,
    open_transactions,
    server_clock_us,
    written_since,
)
from disarray.sources.settled_extract import settling_bound, start_settled
from disarray.sources.table_columns import literal, quoted, relation_of
from disarray.sources.table_pages import value_of
from disarray.sources.watermark import (
    BufferMark,
    SettledMark,
    SnapshotRead,
    Span,
    Value,
    cursor_number,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.model.description.table_source import TableSource
    from disarray.sources.table_columns import TableLayout
    from disarray.sources.table_session import TableSession


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadShare:
    """The row versions of a load: cursors behind `after` and up to `up_to`, written before transaction `below`."""

    up_to: Value | None = None
    after: Value | None = None
    below: int | None = None
    server: str = ""  # whose transactions these are; empty: rows are not told apart by them

    def condition(self, source: TableSource, xmax: int) -> str:
        """What is true of its rows, in a snapshot that ends at this transaction."""
        found = []
        if self.up_to is not None:
            found.append(f"{quoted(str(source.cursor))} <= {literal(str(self.up_to))}")
        if self.after is not None:
            found.append(f"{quoted(str(source.cursor))} > {literal(str(self.after))}")
        if self.below is not None:
            former = SnapshotRead(self.below, self.below)
            # A load that took 2^31 transactions cannot tell: what is new comes twice, and counts once.
            if former.is_usable(xmax):
                found.append(f"not {written_since(former, xmax)}")
        return " and ".join(found)

    def document(self) -> dict[str, Any]:
        """As it is kept."""
        return asdict(self)


def restore_share(written: Mapping[str, Any]) -> LoadShare:
    """A share as it was kept."""
    return LoadShare(**written)


@dataclass(frozen=True, slots=True)
class Division:
    """The share of a load, the transactions that may still write into it, and the watermark that begins behind it."""

    share: LoadShare
    open: frozenset[str]
    mark: SettledMark | BufferMark


def divide_settled(
    session: TableSession,
    source: TableSource,
    layout: TableLayout,
    at: Start | int | str,
    *,
    can_settle: bool,
) -> Division | None:
    """Divide a table whose rows tell who wrote them; None where all of it is the watermark's."""
    start = start_settled(source, at)
    after = None if start.settled is None else start.settled[0]
    if not can_settle or source.watermark is WatermarkKind.SNAPSHOT:
        with session.snapshot(lock=relation_of(source)):
            below = current_snapshot(session).xmin
            server = known_server(session, source, "")
        # Numbers alone divide them: whatever is below the oldest open transaction had ended.
        mark = SettledMark(
            kind=source.watermark,
            settled=start.settled,
            spans=(Span(None, SnapshotRead(below, below)),),
            server=server,
        )
        return Division(LoadShare(after=after, below=below, server=server), frozenset(), mark)
    # The bound first, then who is open: whoever begins later writes behind it.
    high = _highest(session, source, layout) if source.watermark is WatermarkKind.SEQUENCE else None
    bound = settling_bound(source, layout, clock_us=server_clock_us(session), high=high)
    transactions = open_transactions(session)
    server = known_server(session, source, "")
    if bound is None or (after is not None and cursor_number(bound) <= cursor_number(after)):
        return None
    return Division(
        LoadShare(after=after, up_to=bound, server=server),
        transactions,
        SettledMark(kind=source.watermark, settled=(bound,), high=high, server=server),
    )


def divide_buffered(
    session: TableSession, source: TableSource, layout: TableLayout, at: Start | int | str
) -> Division | None:
    """Divide a table that is read with a buffer: the buffer is the watermark's, what is before it the load's."""
    high = _highest(session, source, layout)
    if high is None or at is not Start.BEGINNING:
        return None
    try:
        bound = before(high, source.buffer)
    except (ValueError, OverflowError):
        return None  # the extract says what is wrong with the cursor
    return Division(LoadShare(up_to=bound), frozenset(), BufferMark(sweep=(bound,), high=high))


def _highest(session: TableSession, source: TableSource, layout: TableLayout) -> Value | None:
    column = layout.column(str(source.cursor))
    found = session.rows(
        f"select {column.expression} as high "  # noqa: S608 - names are quoted
        f"from (select max({column.quoted}) as {column.quoted} from {relation_of(source)}) as extracted"
    ).column("high")
    return None if found.null_count else value_of(found[0])
