"""What a kind of backfill has to be able to do; the engine does the rest: claims, retries, pace, progress, verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from disarray.backfill.description import BackfillSpec
    from disarray.control.backfill_chunks import ChunkRecord, ChunkResult, HeldChunk
    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much there is to do, before the first chunk: what is behind `last` is not the job's own; None: nothing is."""

    last: tuple[str, ...] | None
    rows: int
    is_estimate: bool
    bytes: int


@dataclass(frozen=True, slots=True)
class Cut:
    """The end of the next chunk and how many rows it has; `is_last` where no row of the job is behind it."""

    to: tuple[str, ...]
    rows: int
    is_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkCheck:
    """What became of a chunk since it was done, in sentences for people; a kind finds what its chunks should be."""

    rows: int
    failed: tuple[str, ...] = ()  # what must not be
    changed: tuple[str, ...] = ()  # what others changed since, so that it cannot be compared
    rows_changed_since: int = 0


class KindOpener(Protocol):
    """Opens the kind of a job, by its description, on a connection to the database that it works on."""

    def __call__(
        self, connection: Connection, spec: BackfillSpec, job_id: int | None = None, /
    ) -> AbstractContextManager[BackfillKind]:
        """Without a number, the job was not started yet.

        `ConfigError` where this process lacks what the kind needs; another may have it.
        """
        ...


class BackfillKind(Protocol):
    """One kind of backfill, at work on one job: how it is cut, how a chunk is processed, how it is verified.

    Every call gets a connection to the database that it works on. The engine is told of no row: a cursor is texts in
    an order that the kind knows, and what counts as a row is the kind's own (a row of a table, a subject).
    """

    @property
    def can_be_undone(self) -> bool:
        """Whether rolling back is all that it takes to undo `write`: then a plan tries a chunk."""
        ...

    def extent(self, connection: Connection) -> Extent:
        """How much there is to do; refused where it cannot be done."""
        ...

    def cut(
        self, connection: Connection, after: Sequence[str] | None, *, end: Sequence[str], rows: int
    ) -> Cut | None:
        """The next chunk behind a cursor; the last one reaches to `end`, with rows or without.

        None where it cannot be cut before those that were cut have ended.
        """
        ...

    def read(self, connection: Connection, chunk: HeldChunk) -> object:
        """What `write` needs to know, read or computed before its transaction begins; what takes long is done here."""
        ...

    def write(self, connection: Connection, chunk: HeldChunk, known: object) -> ChunkResult:
        """Have the effect of a chunk, inside the transaction that ends it.

        What has its effect elsewhere has to be harmless when it is done twice: the transaction may be rolled back.
        """
        ...

    def answer(self, connection: Connection) -> Any:
        """What the user's own query answers now, as JSON; the backfill must not change it. None: there is none."""
        ...

    def verify(self, connection: Connection, chunk: ChunkRecord) -> ChunkCheck:
        """Compare a chunk that is done with what is stored now."""
        ...
