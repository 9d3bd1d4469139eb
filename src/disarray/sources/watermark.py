"""How far a table was read: which region under which snapshot, and up to where nothing can appear any more."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from disarray.model.description.table_source import WatermarkKind, instant_us

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

# A value of an ordering column: numbers as they are, all else as text that the server reads back.
Value = str | int | float
# The values of the columns in whose order a table is read; perhaps only the first of them.
Position = tuple[Value, ...]

# A snapshot so many transactions old says nothing about a row: transaction ids of rows have 32 bits.
_HORIZON = 2**31
_MASK = 2**32 - 1
_OLDEST_ORDINARY = 3
_MOST_SEEN_BYTES = 600_000  # of all spans together; the row of a source takes a megabyte
_MOST_SPANS = 32


@dataclass(frozen=True, slots=True)
class SnapshotRead:
    """A snapshot under which rows were read. Transactions below `xmin` had ended, those from `xmax` on had not begun.

    Of those between, `seen` are those of which a row was read. Nothing else can tell: the list of open transactions
    names a savepoint's parent alone, and rows carry the number of the savepoint. None: they were too many to keep.
    """

    xmin: int
    xmax: int
    seen: frozenset[int] | None = frozenset()

    def unseen(self, transactions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows were not read under it, by the transactions that wrote them."""
        later = transactions >= self.xmax
        between = (transactions >= self.xmin) & ~later
        if self.seen:
            between &= ~np.isin(transactions, np.fromiter(self.seen, np.int64, len(self.seen)))
        return np.asarray(later | between)

    def is_usable(self, xmax: int) -> bool:
        """Whether rows can still be told apart by it, seen from a later snapshot."""
        return 0 <= xmax - self.xmax < _HORIZON


@dataclass(frozen=True, slots=True)
class Span:
    """A region up to a position (None: to the end) and what it was last read under; None: never."""

    to: Position | None
    read: SnapshotRead | None


@dataclass(frozen=True, slots=True)
class Pending:
    """Nothing up to `bound` can appear once all of these transactions have ended."""

    bound: Value
    open: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledMark:
    """The state of an exact watermark: before `settled` nothing is looked at again; spans cover what is behind it."""

    kind: WatermarkKind
    settled: Position | None = None
    spans: tuple[Span, ...] = (Span(None, None),)
    pending: Pending | None = None
    high: Value | None = None  # the greatest cursor that was read
    server: str = ""

    def read_up_to(
        self, position: Position | None, read: SnapshotRead, rest: tuple[Span, ...]
    ) -> SettledMark:
        """Everything up to a position (None: to the end) was read under one snapshot; `rest` is as it was."""
        spans = (Span(position, read), *rest)
        while len(spans) > _MOST_SPANS:
            # Together under the older snapshot: rows may come twice, none is left out.
            spans = (*spans[:-2], Span(spans[-1].to, spans[-1].read))
        return replace(self, spans=spans)

    def document(self) -> dict[str, Any]:
        """As it is kept."""
        spans: list[dict[str, Any]] = []
        room = _MOST_SEEN_BYTES
        for span in self.spans:
            read = read_document(span.read, room)
            room -= len(read["seen"] or "") if read else 0
            spans.append({"to": None if span.to is None else list(span.to), "read": read})
        return {
            "kind": str(self.kind),
            "settled": None if self.settled is None else list(self.settled),
            "spans": spans,
            "pending": self.pending and {"bound": self.pending.bound, "open": sorted(self.pending.open)},
            "high": self.high,
            "server": self.server,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferMark:
    """The state of a watermark with a buffer: reading goes on behind `sweep`, or from the buffer before `high` on."""

    sweep: Position | None = None
    high: Value | None = None
    known: frozenset[int] = field(default_factory=frozenset)  # hashes of the rows that the buffer holds

    def document(self) -> dict[str, Any]:
        """As it is kept."""
        packed = np.sort(np.fromiter(self.known, np.uint64, len(self.known))).tobytes()
        return {
            "kind": str(WatermarkKind.BUFFER),
            "sweep": None if self.sweep is None else list(self.sweep),
            "high": self.high,
            "known": base64.b64encode(packed).decode(),
        }


def restore_settled(written: Mapping[str, Any]) -> SettledMark:
    """An exact watermark as it was kept."""
    pending = written["pending"]
    return SettledMark(
        kind=WatermarkKind(written["kind"]),
        settled=_position(written["settled"]),
        spans=tuple(Span(_position(span["to"]), restore_read(span["read"])) for span in written["spans"]),
        pending=pending and Pending(pending["bound"], frozenset(pending["open"])),
        high=written["high"],
        server=written["server"],
    )


def restore_buffer(written: Mapping[str, Any]) -> BufferMark:
    """A watermark with a buffer as it was kept."""
    known = np.frombuffer(base64.b64decode(written["known"]), np.uint64)
    return BufferMark(
        sweep=_position(written["sweep"]), high=written["high"], known=frozenset(known.tolist())
    )


def cursor_number(value: Value) -> int:
    """A value of the cursor as a number that grows with it."""
    return instant_us(value) if isinstance(value, str) else int(value)


def still_open(former: Collection[str], now: Collection[str]) -> frozenset[str]:
    """Those of some transactions that have not ended. One that was prepared since goes on under another name."""
    left = {each for each in former if each in now}
    if any(not is_prepared(each) for each in former):
        left |= {each for each in now if is_prepared(each)}
    return frozenset(left)


def is_prepared(transaction: str) -> bool:
    """Whether it waits for COMMIT PREPARED."""
    return transaction.startswith("-1/")


def whole_transactions(short: NDArray[np.int64], xmax: int) -> NDArray[np.int64]:
    """Transaction ids of rows with the bits that rows leave out: none of them is later than the snapshot."""
    whole = xmax - ((xmax - short) & _MASK)
    # What was written when the cluster was made, or frozen by an old release.
    return np.where(short < _OLDEST_ORDINARY, 0, whole)


def _position(written: list[Value] | None) -> Position | None:
    return None if written is None else tuple(written)


def read_document(read: SnapshotRead | None, room: int = _MOST_SEEN_BYTES) -> dict[str, Any] | None:
    """A snapshot as it is kept, what was seen in so many bytes."""
    if read is None:
        return None
    return {"xmin": read.xmin, "xmax": read.xmax, "seen": _packed(read, room)}


def _packed(read: SnapshotRead, room: int) -> str | None:
    if read.seen is None:
        return None
    numbers = np.sort(np.fromiter(read.seen, np.int64, len(read.seen))) - read.xmin
    steps = np.diff(numbers, prepend=0).astype("<u4")
    packed = base64.b64encode(zlib.compress(steps.tobytes())).decode()
    return packed if len(packed) <= room else None


def restore_read(written: Mapping[str, Any] | None) -> SnapshotRead | None:
    """A snapshot as it was kept."""
    if written is None:
        return None
    seen: frozenset[int] | None = None
    if written["seen"] is not None:
        steps = np.frombuffer(zlib.decompress(base64.b64decode(written["seen"])), "<u4")
        seen = frozenset((np.cumsum(steps.astype(np.int64)) + written["xmin"]).tolist())
    return SnapshotRead(written["xmin"], written["xmax"], seen)
