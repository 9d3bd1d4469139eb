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

from disarray.errors import SourceLayoutError, SourceReplacedError
from disarray.model.description.table_source import Start, WatermarkKind
from disarray.model.duration import HOUR
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
# All transactions of this database, and those that wait for COMMIT PREPARED, whose locks have a name of their own.
_OPEN = """
select distinct held.virtualtransaction::text as transaction
from pg_locks as held
left join pg_stat_activity as backend on held.pid = backend.pid
where held.pid is distinct from pg_backend_pid()
    and ((held.locktype = 'virtualxid' and held.mode = 'ExclusiveLock' and held.granted)
        or held.virtualtransaction like '-1/%')
    and (backend.datid is null or backend.datid = (select oid from pg_database where datname = current_database()))
"""
_SNAPSHOT = """
select pg_snapshot_xmin(now.snapshot)::text::int8 as xmin, pg_snapshot_xmax(now.snapshot)::text::int8 as xmax
from (select pg_current_snapshot() as snapshot) as now
"""
# After a restore or a failover numbers of transactions, and of sequences, may come a second time.
_SERVER = """
select (select system_identifier::text from pg_control_system())
    || '/' || (select timeline_id::text from pg_control_checkpoint()) as server
"""
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
    clock_us = (
        session.rows("select (extract(epoch from clock_timestamp()) * 1000000)::int8 as us")
        .column("us")[0]
        .as_py()
    )
    transactions = frozenset(session.rows(_OPEN).column("transaction").to_pylist())
    with session.snapshot(lock=relation_of(source)):
        snapshot = session.rows(_SNAPSHOT)
        read = SnapshotRead(snapshot.column("xmin")[0].as_py(), snapshot.column("xmax")[0].as_py())
        layout = read_layout(session, source, dataset)
        mark = _of_this_server(session, source, mark)
        _refuse_cursor(source, layout)
        bound = _bound(source, layout, mark, clock_us) if can_settle else None
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
        snapshot = session.rows(_SNAPSHOT)
        read = SnapshotRead(snapshot.column("xmin")[0].as_py(), snapshot.column("xmax")[0].as_py())
        relation = relation_of(source)
        found = session.rows(
            f"select distinct xmin::text::int8 as {TRANSACTION} from {relation} where {_since(read, read.xmax)}"  # noqa: S608
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
            condition = "" if before is None else _since(before, self.read.xmax)
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


def _since(read: SnapshotRead, xmax: int) -> str:
    """What is true of rows written by the oldest open transaction or a later one; rows keep 32 bits of its number."""
    return (
        f"((({xmax % 2**32} - xmin::text::int8) & 4294967295) <= {xmax - read.xmin} and xmin::text::int8 > 2)"
    )


def _of_this_server(session: TableSession, source: TableSource, mark: SettledMark) -> SettledMark:
    [server] = session.rows(_SERVER).column("server").to_pylist()
    if mark.server and mark.server != server:
        raise SourceReplacedError.of(
            source.name,
            "its database was restored, replaced or failed over since it was last read, so that transactions and "
            "sequence numbers may have come a second time",
        )
    return replace(mark, server=str(server))


def _bound(source: TableSource, layout: TableLayout, mark: SettledMark, clock_us: int) -> Value | None:
    """The greatest cursor that a transaction which begins from now on cannot have; None: there is none."""
    match source.watermark:
        case WatermarkKind.TIMESTAMP:
            is_zoned = layout.column(str(source.cursor)).type_name == "timestamptz"
            behind = source.buffer + (0 if is_zoned else _FURTHEST_ZONE_US)
            return _stamp(clock_us - behind, is_zoned=is_zoned)
        case WatermarkKind.SEQUENCE:
            return mark.high
        case _:
            return None


def _refuse_cursor(source: TableSource, layout: TableLayout) -> None:
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
