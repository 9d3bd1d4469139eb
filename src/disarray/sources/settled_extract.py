"""An extract that misses no row and takes none twice: what a snapshot shows and the last one did not.

Rows are read in the order of cursor and key, each region compared with the snapshot under which it was last read. The
watermark settles at a bound once every transaction that could write before it has ended *and* a snapshot that was taken
after that has read the region. Transactions are listed before the snapshot is taken: whatever ended by then is in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from disarray.errors import SourceLayoutError
from disarray.model.description.table_source import Start, WatermarkKind
from disarray.model.duration import HOUR
from disarray.sources.server_snapshots import (
    current_snapshot,
    known_server,
    open_transactions,
    server_clock_us,
    written_since,
)
from disarray.sources.table_columns import WHOLE_NUMBERS, literal, quoted, read_layout, relation_of
from disarray.sources.table_pages import TRANSACTION, PagedTable, value_of
from disarray.sources.taken_rows import TakenRows
from disarray.sources.watermark import (
    Pending,
    SettledMark,
    SnapshotRead,
    Span,
    cursor_number,
    still_open,
    whole_transactions,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.table_source import TableSource
    from disarray.sources.table_columns import TableLayout
    from disarray.sources.table_session import TableSession
    from disarray.sources.watermark import Position, Value

# No local clock is further behind UTC. A stamp without a zone is that of any of them.
_FURTHEST_ZONE_US = 12 * HOUR
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CACHE = """
select coalesce(max(known.seqcache), 1)::int8 as cache
from pg_sequence as known
where known.seqrelid in (
    select link.objid from pg_depend as link
    join pg_attribute as named on named.attrelid = link.refobjid and named.attnum = link.refobjsubid
    where link.classid = 'pg_class'::regclass and link.refclassid = 'pg_class'::regclass
        and link.refobjid = {table}::regclass and named.attname = {column}
    union all
    select link.refobjid from pg_depend as link
    join pg_attrdef as preset on link.classid = 'pg_attrdef'::regclass and link.objid = preset.oid
    join pg_attribute as named on named.attrelid = preset.adrelid and named.attnum = preset.adnum
    where preset.adrelid = {table}::regclass and named.attname = {column}
)
"""


@dataclass(frozen=True, slots=True)
class SettledExtract:
    """What one extract found, and the watermark to go on from once it is delivered."""

    rows: TakenRows
    mark: SettledMark
    layout: TableLayout
    is_complete: bool
    cursor_from: str | None
    cursor_to: str | None


def extract_settled(
    session: TableSession,
    source: TableSource,
    dataset: Dataset,
    mark: SettledMark,
    *,
    can_settle: bool = True,
    on_page: Callable[[], None] = lambda: None,
) -> SettledExtract:
    """Read what the last extracts did not see, at most `limit` rows; without `can_settle`, of the whole table."""
    clock_us = server_clock_us(session)
    transactions = open_transactions(session)
    with session.snapshot(lock=relation_of(source)):
        read = current_snapshot(session)
        layout = read_layout(session, source, dataset)
        mark = replace(mark, server=known_server(session, source, mark.server))
        refuse_cursor(source, layout)
        bound = settling_bound(source, layout, clock_us=clock_us, high=mark.high) if can_settle else None
        mark = _with_pending(mark, bound, transactions)
        table = PagedTable(session, source, layout, has_transactions=True)
        table.refuse_missing_keys()
        walk = _Walk(table, mark, read, TakenRows(source, source.limit))
        reached = walk.go(on_page)
    after = mark.read_up_to(reached, replace(read, seen=frozenset(walk.seen)), walk.rest)
    if mark.pending is not None and not mark.pending.open:
        after = _settle(after, mark.pending.bound, reached)
    return SettledExtract(
        walk.rows, replace(after, high=walk.high), layout, reached is None, walk.cursor_from, walk.cursor_to
    )


def begin_settled(session: TableSession, source: TableSource) -> SettledMark:
    """The watermark of a source that was never read, as its `at` says. `now` means: what commits after now."""
    if source.at is not Start.NOW:
        return start_settled(source, source.at)
    with session.snapshot(lock=relation_of(source)):
        read = current_snapshot(session)
        relation = relation_of(source)
        found = session.rows(
            f"select distinct xmin::text::int8 as {TRANSACTION} from {relation} where {written_since(read, read.xmax)}"  # noqa: S608
        )
        seen = whole_transactions(found.column(TRANSACTION).to_numpy(), read.xmax)
        high: Value | None = None
        if source.watermark is WatermarkKind.SEQUENCE:
            column = quoted(str(source.cursor))
            highest = session.rows(f"select max({column})::int8 as high from {relation}")  # noqa: S608
            high = highest.column("high")[0].as_py()
    spans = (Span(None, replace(read, seen=frozenset(seen.tolist()))),)
    return SettledMark(kind=source.watermark, spans=spans, high=high)


def start_settled(source: TableSource, at: Start | int | str) -> SettledMark:
    """A watermark behind a value of the cursor."""
    settled: Position | None = None
    if at is not Start.BEGINNING:
        assert not isinstance(at, Start)
        is_stamp = source.watermark is WatermarkKind.TIMESTAMP and isinstance(at, int)
        settled = (_stamp(at, is_zoned=True) if is_stamp else at,)  # type: ignore[arg-type]
    return SettledMark(kind=source.watermark, settled=settled)


def cached_numbers(session: TableSession, source: TableSource) -> int:
    """How many numbers of the sequence a session takes at once: with more than 1, low ones come late."""
    names = {"table": literal(relation_of(source)), "column": literal(str(source.cursor))}
    [cache] = session.rows(_CACHE.format(**names)).column("cache").to_pylist()
    return int(cache)


@dataclass(slots=True)
class _Walk:
    """One way through all that is not settled, in order, until the limit or the end."""

    table: PagedTable
    mark: SettledMark
    read: SnapshotRead
    rows: TakenRows
    rest: tuple[Span, ...] = ()
    high: Value | None = None
    cursor_from: str | None = None
    cursor_to: str | None = None
    seen: set[int] = field(default_factory=set)

    def go(self, on_page: Callable[[], None]) -> Position | None:
        """The position that was reached; None at the end."""
        self.high = self.mark.high
        begin = self.mark.settled
        for index, span in enumerate(self.mark.spans):
            before = span.read if span.read and span.read.is_usable(self.read.xmax) else None
            condition = "" if before is None else written_since(before, self.read.xmax)
            for page, _ in self.table.pages(begin, span.to, condition=condition):
                reached = self._take(page, before)
                on_page()
                if reached is not None:
                    self.rest = (span, *self.mark.spans[index + 1 :])
                    return reached
            begin = span.to
        return None

    def _take(self, page: pa.Table, before: SnapshotRead | None) -> Position | None:
        if not page.num_rows:
            return None
        transactions = whole_transactions(page.column(TRANSACTION).to_numpy(), self.read.xmax)
        fresh = np.ones(page.num_rows, dtype=bool) if before is None else before.unseen(transactions)
        used = self.rows.add(page, fresh)
        within = (transactions >= self.read.xmin) & (transactions < self.read.xmax)
        self.seen.update(transactions[within].tolist())
        self._note_cursor(page.slice(0, used))
        return self.table.position(page, used - 1) if self.rows.is_full else None

    def _note_cursor(self, page: pa.Table) -> None:
        name = self.table.source.cursor
        if name is None:
            return
        first, last = value_of(page.column(name)[0]), value_of(page.column(name)[page.num_rows - 1])
        if self.high is None or cursor_number(last) > cursor_number(self.high):
            self.high = last
        self.cursor_from = self.cursor_from or str(first)
        self.cursor_to = str(last)


def settling_bound(
    source: TableSource, layout: TableLayout, *, clock_us: int, high: Value | None
) -> Value | None:
    """The greatest cursor that a transaction which begins from now on cannot have; None: there is none.

    `high` is the greatest cursor that was read.
    """
    match source.watermark:
        case WatermarkKind.TIMESTAMP:
            is_zoned = layout.column(str(source.cursor)).type_name == "timestamptz"
            behind = source.buffer + (0 if is_zoned else _FURTHEST_ZONE_US)
            return _stamp(clock_us - behind, is_zoned=is_zoned)
        case WatermarkKind.SEQUENCE:
            return high
        case _:
            return None


def refuse_cursor(source: TableSource, layout: TableLayout) -> None:
    """Refuse a cursor of a type by which its watermark cannot settle."""
    if source.cursor is None:
        return
    expected = WHOLE_NUMBERS if source.watermark is WatermarkKind.SEQUENCE else ("timestamp", "timestamptz")
    found = layout.column(source.cursor).type_name
    if found not in expected:
        raise SourceLayoutError.of(
            source.name,
            f"its cursor {source.cursor} is of type {found}; watermark = '{source.watermark}' needs one of "
            f"{', '.join(expected)}",
        )


def _with_pending(mark: SettledMark, bound: Value | None, transactions: frozenset[str]) -> SettledMark:
    if mark.pending is not None:
        pending = Pending(mark.pending.bound, still_open(mark.pending.open, transactions))
        return replace(mark, pending=pending)
    if bound is None or (mark.settled is not None and cursor_number(bound) <= cursor_number(mark.settled[0])):
        return mark
    return replace(mark, pending=Pending(bound, transactions))


def _settle(mark: SettledMark, bound: Value, reached: Position | None) -> SettledMark:
    if reached is not None and cursor_number(reached[0]) <= cursor_number(bound):
        # Only so far was it read; the bound holds for the rest as well.
        return replace(mark, settled=reached, spans=mark.spans[1:])
    return replace(mark, settled=(bound,), pending=None)


def _stamp(us: int, *, is_zoned: bool) -> str:
    instant = _EPOCH + timedelta(microseconds=us)
    return (instant if is_zoned else instant.replace(tzinfo=None)).isoformat(sep=" ")
