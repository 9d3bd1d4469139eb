"""The table of a destination in somebody's PostgreSQL: checked, created where that is asked for, and loaded.

The one module of this room that imports psycopg: a target may be a database that is not ours.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

import psycopg

from disarray.control.connections import SessionLimits, refuse_unreadable, session_parameters
from disarray.errors import (
    ConfigError,
    DestinationError,
    DestinationMisfitError,
    DestinationUnavailableError,
    LeaseLostError,
    TargetFencedError,
    UnloadableRowsError,
    UnstorableTextError,
)
from disarray.failpoints import failpoint
from disarray.kernels.binary_copy import HEADER, TRAILER, encode_rows
from disarray.model.description.destination import Load
from disarray.model.segments import FIRST_US, datetime_of
from disarray.sinks.destination_changes import END_US, EVERYTHING, WHOLE, without
from disarray.sinks.destination_deletes import NEVER_REFUSED, KeptShare, is_guarded
from disarray.sinks.destination_table_check import check_table, has_our_types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from disarray.control.connections import Connection
    from disarray.control.destinations import LoadTurn
    from disarray.model.description.destination import Destination
    from disarray.sinks.destination_changes import Changes, Span
    from disarray.sinks.destination_rows import SubjectRows
    from disarray.sinks.destination_shape import Shape
    from disarray.sinks.destination_statements import Statements

# Statements may take long where much is loaded: the lease is renewed meanwhile by another thread.
_LONGEST_STATEMENT_MS = 1_800_000


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did to its target."""

    rows_loaded: int
    rows_deleted: int
    is_whole: bool = False  # more than was asked for, because the target had not what it was believed to have
    is_target_touched: bool = True


UNTOUCHED = Loaded(0, 0, is_target_touched=False)


class Rows(Protocol):
    """What a target is to have in some spans; `kept` are those of them that it keeps as they are."""

    @property
    def shape(self) -> Shape: ...
    @property
    def changes(self) -> Changes: ...
    @property
    def kept(self) -> Sequence[Span]: ...
    def __iter__(self) -> Iterator[pa.Table]: ...


@dataclass(frozen=True, slots=True)
class TableLoader:
    """Loads subjects into one table over one connection; `is_same` where that is our own database."""

    connection: Connection
    destination: Destination
    statements: Statements
    is_same: bool
    most_deleted_percent: int = NEVER_REFUSED

    def prepare(self) -> None:
        """Check the table before anything is loaded, and make what is missing where that is asked for."""
        with target_errors(self.destination):
            check_table(self.connection, self.destination, self.statements, needs_positions=not self.is_same)

    def load(
        self, turn: LoadTurn, rows: SubjectRows, *, finish: Callable[[Loaded], None] | None = None
    ) -> Loaded:
        """Make the target have these rows and no others in their spans, in one transaction, or change nothing.

        `finish` is the last thing in the transaction.
        """
        with target_errors(self.destination), self.connection.transaction():
            self.give_time()
            former = 0 if self.is_same else self._take_position(turn)
            if not self.is_same and not turn.follows(former):
                rows = replace(rows, changes=WHOLE)
            kept = self.kept_share(turn, former)
            loaded = self._put(turn, rows, is_whole=rows.changes.is_whole, kept=kept)
            if finish is not None:
                finish(loaded)
        failpoint("destination.committed", self.connection, about=self.destination.name)
        return loaded

    def find_former(self, turn: LoadTurn) -> int:
        """The fence of the last load of the subject, as it looks now; 0 where none is known."""
        with target_errors(self.destination):
            query = self.statements.find_position()
            found = self.connection.execute(query.encode(), _about(turn)).fetchone()
        return found[0] if found is not None else 0

    def kept_share(self, turn: LoadTurn, former: int) -> KeptShare | None:
        """How many rows of the subject this load has to leave; None where we know what is there, or all may go."""
        percent = self.most_deleted_percent
        if not is_guarded(turn, former, has_fences=not self.is_same, percent=percent):
            return None
        with target_errors(self.destination):
            [before] = self.connection.execute(
                self.statements.count_shown().encode(), _about(turn)
            ).fetchone() or [0]
        return KeptShare(self.destination.name, turn.subject_key, before, percent)

    def begin_pieces(self, turn: LoadTurn, *, is_whole: bool) -> bool:
        """Let pieces be loaded under the fence of a turn; false where more has to be loaded than was thought."""
        with target_errors(self.destination), self.connection.transaction() as transaction:
            is_begun = turn.follows(self._take_position(turn)) or is_whole
            if not is_begun:
                raise psycopg.Rollback(transaction)
            self.connection.execute(self.statements.begin_pieces().encode(), _about(turn))
            if is_whole:
                self.connection.execute(self.statements.delete_timeless().encode(), _about(turn))
        return is_begun

    def load_piece(self, turn: LoadTurn, rows: Rows, *, number: int, is_whole: bool) -> Loaded:
        """As `load`, of one piece and without moving the position; refused unless its load is under way."""
        with target_errors(self.destination), self.connection.transaction():
            self.connection.execute(self.statements.hold_piece().encode(), _about(turn) | {"number": number})
            # Until the piece is committed nobody can begin another load.
            query = self.statements.find_position() + " for share"
            found = self.connection.execute(query.encode(), _about(turn)).fetchone()
            if found != (-turn.fence,):
                raise self._fenced(turn, abs(found[0]) if found is not None else 0)
            return self._put(turn, rows, is_whole=is_whole)

    def end_pieces(self, turn: LoadTurn) -> None:
        """Note that all pieces are loaded."""
        with target_errors(self.destination):
            ended = self.connection.execute(self.statements.end_pieces().encode(), _about(turn)).rowcount
        if not ended:
            raise LeaseLostError(
                f"another load of {turn.subject_key} began before the last piece of this one (fence {turn.fence}) was "
                "loaded. It loads all of them"
            )

    def vacuum(self) -> int:
        """Delete rows of an appended table that have been superseded for long; how many."""
        if self.destination.load is not Load.APPEND:
            return 0
        keep = timedelta(microseconds=self.destination.keep_superseded_us)
        with target_errors(self.destination), self.connection.transaction():
            return sum(
                self.connection.execute(statement.encode(), {"keep": keep}).rowcount
                for statement in self.statements.vacuum()
            )

    def give_time(self) -> None:
        """Let this transaction take as long as it needs: connections to our own database are cut off early."""
        if self.is_same:
            self.connection.execute(f"set local statement_timeout = {_LONGEST_STATEMENT_MS}")
            self.connection.execute("set local idle_in_transaction_session_timeout = 0")

    def _take_position(self, turn: LoadTurn) -> int:
        """The fence of the last load of the subject; 0 where none is known."""
        lock, move = self.statements.lock_position(), self.statements.move_position()
        [former] = self.connection.execute(lock.encode(), _about(turn)).fetchone() or [0]
        if abs(former) > turn.fence:
            raise self._fenced(turn, abs(former))
        self.connection.execute(move.encode(), _about(turn))
        return int(former)

    def _fenced(self, turn: LoadTurn, target_fence: int) -> TargetFencedError:
        return TargetFencedError(
            fenced_message(self.destination, turn, target_fence), target_fence=target_fence
        )

    def _put(self, turn: LoadTurn, rows: Rows, *, is_whole: bool, kept: KeptShare | None = None) -> Loaded:
        """Make the target have these rows and no others in their spans, within the transaction."""
        is_bare = (is_whole or rows.changes.is_whole) and self._is_bare(turn, rows)
        if not is_bare:
            self.connection.execute(self.statements.create_staged().encode())
        try:
            staged = self._copy(
                rows, self.statements.copy_into_table() if is_bare else self.statements.copy_staged()
            )
        except UnstorableTextError as error:
            raise UnloadableRowsError(str(error)) from error
        failpoint("destination.staged", self.connection, about=self.destination.name)
        if is_bare:
            loaded = Loaded(staged, 0, is_whole=is_whole)
        else:
            loaded = self._merge(turn, rows, staged, is_whole=is_whole, kept=kept)
        failpoint("destination.merged", self.connection, about=self.destination.name)
        return loaded

    def _is_bare(self, turn: LoadTurn, rows: Rows) -> bool:
        """Whether rows can go where they belong at once: nothing is there, and every type is ours to the bit."""
        if self.destination.load is Load.APPEND:
            return False
        self.connection.execute(self.statements.lock_table().encode())
        if not has_our_types(self.connection, self.statements):
            return False
        spans = rows.changes.spans
        check = self.statements.has_rows(is_everything=spans == (EVERYTHING,))
        return self.connection.execute(check.encode(), _in_spans(turn, spans)).fetchone() == (False,)

    def _copy(self, rows: Rows, statement: str) -> int:
        staged = 0
        theirs = rows.shape.theirs
        with self.connection.cursor().copy(statement.encode()) as copy:
            copy.write(HEADER)
            for table in rows:
                staged += table.num_rows
                named = table.rename_columns([theirs[name] for name in table.column_names])
                for part in encode_rows(named):
                    copy.write(part)
            copy.write(TRAILER)
        return staged

    def _merge(
        self, turn: LoadTurn, rows: Rows, staged: int, *, is_whole: bool, kept: KeptShare | None
    ) -> Loaded:
        spans = without(rows.changes.spans, rows.kept)
        if not spans and not staged:
            return Loaded(0, 0)
        if staged:
            self.connection.execute(b"analyze pg_temp.disarray_staged")
        is_everything = spans == (EVERYTHING,)
        if kept is not None:
            query = self.statements.count_lost(is_everything=is_everything)
            [gone] = self.connection.execute(query.encode(), _in_spans(turn, spans)).fetchone() or [0]
            kept.check(gone)
        *deleted, loaded = (
            self.connection.execute(statement.encode(), _in_spans(turn, spans)).rowcount
            for statement in self.statements.merge(is_whole=is_whole, is_everything=is_everything)
        )
        return Loaded(loaded, sum(deleted), is_whole=is_whole)


@contextmanager
def open_target(
    destination: Destination,
    statements: Statements,
    *,
    dsn: str,
    lease_seconds: int,
    most_deleted_percent: int = NEVER_REFUSED,
) -> Iterator[TableLoader]:
    """A loader into another database."""
    try:
        refuse_unreadable(dsn)
    except ConfigError as error:
        raise DestinationMisfitError(str(error)) from None
    limits = SessionLimits.for_lease(lease_seconds)
    parameters = session_parameters(
        SessionLimits(_LONGEST_STATEMENT_MS, limits.lock_ms, limits.idle_in_transaction_ms, limits.tcp_ms),
        f"disarray {destination.name}",
    )
    with target_errors(destination):
        connection: Connection = psycopg.connect(dsn, autocommit=True, **parameters)
    try:
        yield TableLoader(
            connection,
            destination,
            statements,
            is_same=False,
            most_deleted_percent=most_deleted_percent,
        )
    finally:
        connection.close()


@contextmanager
def target_errors(destination: Destination) -> Iterator[None]:
    """Let nothing of psycopg reach a caller: an error of the target says which target it is."""
    try:
        yield
    except psycopg.Error as error:
        raise _translated(error, destination) from error


def _translated(error: psycopg.Error, destination: Destination) -> DestinationError:
    code, shown = error.sqlstate, destination.target.shown
    message = error.diag.message_primary or _without_secrets(error)
    if code is not None and code.startswith("53"):
        return DestinationUnavailableError(
            f"{shown} has no room for it: {message}. Nothing was changed. What is due waits"
        )
    if code is None or code.startswith(("08", "57", "28")) or code in ("3D000", "40001", "40P01", "55P03"):
        # What is missing at the door (a database, a password) may come back like what is away.
        return DestinationUnavailableError(f"{shown} does not answer: {message}. What is due waits")
    if code.startswith(("22", "23")):
        return UnloadableRowsError(f"{shown} refuses a row: {message}. Nothing of this subject was loaded")
    return DestinationMisfitError(f"{shown} cannot be loaded: {message}. Nothing was loaded")


def fenced_message(destination: Destination, turn: LoadTurn, target_fence: int) -> str:
    """For whoever looks why a subject is not loaded."""
    return (
        f"{destination.target.shown} knows a later load of {turn.subject_key} than this one (fence {target_fence} "
        f"after {turn.fence}). Nothing was changed. Unless another worker did it meanwhile, the database of disarray "
        "was restored from a backup, its clock was set back, or another installation loads under this name. Everything "
        "is loaded at the next attempt"
    )


def _without_secrets(error: psycopg.Error) -> str:
    """The message of libpq: hosts and users, never a password. One line of it."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:500].rstrip(".?")


def _about(turn: LoadTurn) -> dict[str, object]:
    return {
        "destination": turn.destination,
        "subject": turn.subject_key,
        "fence": turn.fence,
        "commit_seq": turn.newest_seq,
    }


def _in_spans(turn: LoadTurn, spans: Sequence[Span]) -> dict[str, object]:
    return _about(turn) | {
        "from": [_instant(span.from_us) for span in spans],
        "to": [_instant(span.to_us) for span in spans],
        "first": _instant(spans[0].from_us) if spans else "infinity",
        "last": _instant(spans[-1].to_us) if spans else "-infinity",
    }


def _instant(at_us: int) -> str:
    if at_us <= FIRST_US:
        return "-infinity"
    return "infinity" if at_us >= END_US else datetime_of(at_us).isoformat()
