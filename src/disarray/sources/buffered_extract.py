"""An extract for databases that show no snapshots: what lies behind the cursor, and a stretch before it once more.

A row that commits later than the buffer is long is missed; docs/sources.md says so. Rows of the buffer that were taken
before are known by their hash.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from disarray.errors import SourceLayoutError
from disarray.model.description.table_source import Start, instant_us
from disarray.sources.settled_extract import start_settled
from disarray.sources.table_columns import SQLITE, STAMPS, WHOLE_NUMBERS, quoted, read_layout, relation_of
from disarray.sources.table_pages import PagedTable, value_of
from disarray.sources.taken_rows import TakenRows
from disarray.sources.watermark import BufferMark

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.table_source import TableSource
    from disarray.sources.table_columns import TableLayout
    from disarray.sources.table_session import TableSession
    from disarray.sources.watermark import Position, Value

# Hashes of 8 bytes: as many as the row of a source has room for.
MOST_KNOWN = 60_000


@dataclass(frozen=True, slots=True)
class BufferedExtract:
    """What one extract found, and the watermark to go on from once it is delivered."""

    rows: TakenRows
    mark: BufferMark
    layout: TableLayout
    is_complete: bool
    cursor_from: str | None
    cursor_to: str | None


def extract_buffered(
    session: TableSession,
    source: TableSource,
    dataset: Dataset,
    mark: BufferMark,
    *,
    on_page: Callable[[], None] = lambda: None,
) -> BufferedExtract:
    """Read on, at most `limit` rows; once the end is reached, the next extract begins in the buffer again."""
    with session.snapshot():
        layout = read_layout(session, source, dataset)
        _refuse_cursor(source, layout)
        table = PagedTable(session, source, layout, has_transactions=False)
        table.refuse_missing_keys()
        rows = TakenRows(source, source.limit)
        known = set(mark.known)
        _refuse_buffer(source, layout, mark.high)
        hashes: list[int] = []
        reached: Position | None = None
        first: Value | None = None
        last = high = mark.high
        for page, _ in table.pages(mark.sweep or window(source, mark), None):
            if page.num_rows:
                numbers = _hashes(page)
                used = rows.add(page, np.array([number not in known for number in numbers]))
                hashes += numbers[:used]
                cursor = page.column(str(source.cursor))
                first = value_of(cursor[0]) if first is None else first
                _refuse_buffer(source, layout, first)
                last = value_of(cursor[used - 1])
                high = last if high is None or _number(last) > _number(high) else high
                if rows.is_full:
                    reached = table.position(page, used - 1)
                    break
            on_page()
    # A sweep of several extracts keeps what the earlier ones knew; the next sweep forgets what left the buffer.
    kept = [*(mark.known if mark.sweep or reached else ()), *hashes][-MOST_KNOWN:]
    if len(hashes) > MOST_KNOWN:
        rows.notices.append(
            f"the buffer holds more than {MOST_KNOWN:,} rows, so that rows are delivered again and again; they count "
            "once. A shorter buffer helps"
        )
    return BufferedExtract(
        rows,
        # Where nothing was there yet, the next extract begins where this one did.
        BufferMark(
            sweep=mark.sweep if high is None else reached, high=high, known=frozenset(kept), floor=mark.floor
        ),
        layout,
        reached is None,
        None if first is None else str(first),
        None if last is None else str(last),
    )


def begin_buffered(session: TableSession, source: TableSource, at: Start | int | str) -> BufferMark:
    """The watermark of a source that was never read."""
    match at:
        case Start.BEGINNING:
            return BufferMark()
        case Start.NOW:
            relation, cursor = relation_of(source), quoted(str(source.cursor))
            found = session.rows(f"select max({cursor}) as high from {relation}").column("high")  # noqa: S608
            return BufferMark(high=value_of(found[0]) if found.null_count == 0 else None)
        case _:
            settled = start_settled(source, at).settled
            assert settled is not None
            return BufferMark(sweep=settled, floor=settled[0])


def before(value: Value, buffer: int) -> Value:
    """A value of the cursor, less the buffer; a time is written as it was."""
    if not isinstance(value, str):
        return value - buffer
    instant = datetime.fromisoformat(value) - timedelta(microseconds=buffer)
    digits = len(found[1]) if (found := re.search(r"\.([0-9]+)", value)) else 0
    written = instant.isoformat(sep=value[10] if len(value) > 10 else "T", timespec="microseconds")
    head, tail = written[:19], written[19:]
    zone = re.sub(r"^\.[0-9]+", "", tail)
    fraction = f"{tail[: digits + 1]:0<{digits + 1}}" if digits else ""
    return head + fraction + ("Z" if value.endswith("Z") else zone)


def window(source: TableSource, mark: BufferMark) -> Position | None:
    """Where the buffer begins: so far before the greatest cursor, but not before what was ever wanted."""
    if mark.high is None:
        return None
    try:
        begin = before(mark.high, source.buffer)
        # Whoever resets a source writes a number as text too.
        floor = float(mark.floor or 0) if not isinstance(begin, str) else _number(mark.floor or "0001-01-01")
        if mark.floor is not None and floor > _number(begin):
            begin = mark.floor
    except (ValueError, OverflowError):
        raise SourceLayoutError.of(
            source.name,
            f"its cursor {source.cursor} holds {mark.high!r}, which is neither a number nor an ISO time",
        ) from None
    return (begin,)


def _number(value: Value) -> float:
    return instant_us(value) if isinstance(value, str) else value


def _refuse_cursor(source: TableSource, layout: TableLayout) -> None:
    found = layout.column(str(source.cursor)).type_name
    if found not in (*WHOLE_NUMBERS, *STAMPS, "float8", SQLITE):
        raise SourceLayoutError.of(
            source.name, f"its cursor {source.cursor} is of type {found}; it has to be a number or a time"
        )


def _refuse_buffer(source: TableSource, layout: TableLayout, value: Value | None) -> None:
    """Refuse a length of time before a number: microseconds would be taken for a count, and read the table again."""
    found = layout.column(str(source.cursor)).type_name
    is_number = found in (*WHOLE_NUMBERS, "float8") or (value is not None and not isinstance(value, str))
    if is_number and not source.has_counted_buffer:
        raise SourceLayoutError.of(
            source.name,
            f"its cursor {source.cursor} is a number and it is read with a buffer, which has to say how many numbers "
            "before the greatest are read again, such as buffer = 1000: as many as can be written at the same time",
        )


def _hashes(page: pa.Table) -> list[int]:
    columns = [column.to_pylist() for column in page.columns]
    return [
        int.from_bytes(hashlib.blake2b(repr(row).encode(), digest_size=8).digest(), "little")
        for row in zip(*columns, strict=True)
    ]
