"""What a kind of backfill has to be able to do; the engine does the rest: claims, retries, pace, progress, verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.control.backfills import ChunkRecord, ChunkResult, HeldChunk
    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class Cut:
    """The end of the next chunk and how many rows it has; `is_last` where no row of the job is behind it."""

    to: tuple[str, ...]
    rows: int
    is_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkCheck:
    """A chunk as it is now beside what it was when it was written."""

    chunk_no: int
    is_same: bool
    rows_before: int
    rows_now: int
    rows_changed_since: int  # written by later transactions, so by somebody else
    rows_broken: int | None  # do not hold what a transformed row holds; None: nothing is known that would


class BackfillKind(Protocol):
    """One kind of backfill, at work on one job. Every call gets a connection to the database that it works on."""

    def cut(
        self, connection: Connection, after: Sequence[str] | None, *, end: Sequence[str], rows: int
    ) -> Cut | None:
        """The next chunk behind a cursor; None where no row is left."""
        ...

    def read(self, connection: Connection, chunk: HeldChunk) -> object:
        """What `write` needs to know, read before its transaction begins."""
        ...

    def write(self, connection: Connection, chunk: HeldChunk, known: object) -> ChunkResult:
        """Have the effect of a chunk, inside the transaction that ends it."""
        ...

    def answer(self, connection: Connection) -> Any:
        """What the user's own query answers now, as JSON; the backfill must not change it. None: there is none."""
        ...

    def verify(self, connection: Connection, chunk: ChunkRecord) -> ChunkCheck:
        """Compare a chunk that is done with what is stored now."""
        ...
