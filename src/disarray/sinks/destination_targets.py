"""Targets opened: a table of this database or of another one, or a Delta table, all loaded in the same way."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, assert_never

from disarray.failpoints import failpoint
from disarray.model.description.destination import Content, DeltaTarget, TableTarget
from disarray.sinks.destination_changes import WHOLE
from disarray.sinks.destination_database import UNTOUCHED, Loaded, TableLoader, open_target
from disarray.sinks.destination_deletes import NEVER_REFUSED
from disarray.sinks.destination_pieces import count_readings, cut_into_pieces, load_piece
from disarray.sinks.destination_secrets import destination_secret
from disarray.sinks.destination_statements import Statements
from disarray.sinks.destination_sweep import count_table_deletes, sweep_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from disarray.control.connections import Connection, Pool
    from disarray.control.destinations import LoadTurn
    from disarray.engine.runner import Runner
    from disarray.model.description.destination import Destination
    from disarray.sinks.destination_deletes import Deletes
    from disarray.sinks.destination_rows import SubjectRows
    from disarray.sinks.destination_shape import Shape

    Advance = Callable[[Connection, Loaded], None]
    ListUnasked = Callable[[Sequence[str]], Sequence[str]]


class OpenTarget(Protocol):
    """Somewhere to load to."""

    def prepare(self) -> None:
        """Check it before anything is loaded."""
        ...

    def load(self, turn: LoadTurn, rows: SubjectRows, *, advance: Advance) -> Loaded:
        """Load, and note it with `advance` on a connection to our database: with the load where that can be."""
        ...

    def count_deletes(self, list_unasked: ListUnasked) -> Deletes:
        """What a sweep would delete."""
        ...

    def sweep(self, fence: int, list_unasked: ListUnasked) -> None:
        """Delete rows of subjects that it is not to have, of those that may have any; who loads one is fenced."""
        ...

    def vacuum(self) -> int:
        """Delete what nobody asks for any more."""
        ...


@dataclass(frozen=True, slots=True)
class Cutting:
    """Who loads pieces, and of how many readings on a load is cut into them."""

    runner: Runner
    at_least: int
    lease_seconds: int


@dataclass(frozen=True, slots=True)
class SameDatabase:
    """A table beside our own: the position moves in the transaction of the load."""

    loader: TableLoader

    def prepare(self) -> None:
        self.loader.prepare()

    def load(self, turn: LoadTurn, rows: SubjectRows, *, advance: Advance) -> Loaded:
        return self.loader.load(turn, rows, finish=lambda loaded: advance(self.loader.connection, loaded))

    def count_deletes(self, list_unasked: ListUnasked) -> Deletes:
        return count_table_deletes(self.loader, list_unasked)

    def sweep(self, fence: int, list_unasked: ListUnasked) -> None:
        sweep_table(self.loader, fence, list_unasked)

    def vacuum(self) -> int:
        return self.loader.vacuum()


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A target that has its own commits: the position moves after the load, and a load that is repeated is harmless."""

    loader: TableLoader
    pool: Pool
    cutting: Cutting | None = None

    def prepare(self) -> None:
        self.loader.prepare()

    def load(self, turn: LoadTurn, rows: SubjectRows, *, advance: Advance) -> Loaded:
        loaded = UNTOUCHED
        if rows.changes.spans:
            loaded = self._load_in_pieces(turn, rows) or self.loader.load(turn, rows)
        with self.pool.connection() as connection:
            advance(connection, loaded)
        return loaded

    def _load_in_pieces(self, turn: LoadTurn, rows: SubjectRows) -> Loaded | None:
        """A large load as tasks of Spark, the position of the target before and after them; None where it is none."""
        cutting, destination = self.cutting, self.loader.destination
        if cutting is None or destination.content is not Content.READINGS:
            return None
        former = self.loader.find_former(turn)
        if not turn.follows(former):
            rows = replace(rows, changes=WHOLE)
        pieces = cut_into_pieces(rows, turn, lease_seconds=cutting.lease_seconds, at_least=cutting.at_least)
        kept = self.loader.kept_share(turn, former) if pieces else None
        if kept is not None and kept.before:
            # Fewer readings than rows: no row has to be sent to know that. Which ones go, one transaction finds out.
            kept.check(kept.before - count_readings(rows))
            return None
        if not pieces or not self.loader.begin_pieces(turn, is_whole=rows.changes.is_whole):
            return None
        failpoint("destination.begun", about=destination.name)
        outcomes = cutting.runner.run(load_piece, pieces)
        done = [outcome.result() for outcome in outcomes]
        failpoint("destination.pieced", about=destination.name)
        self.loader.end_pieces(turn)
        failpoint("destination.committed", about=destination.name)
        return Loaded(
            sum(each.rows_loaded for each in done),
            sum(each.rows_deleted for each in done),
            is_whole=rows.changes.is_whole,
        )

    def count_deletes(self, list_unasked: ListUnasked) -> Deletes:
        return count_table_deletes(self.loader, list_unasked)

    def sweep(self, fence: int, list_unasked: ListUnasked) -> None:
        sweep_table(self.loader, fence, list_unasked)

    def vacuum(self) -> int:
        return self.loader.vacuum()


@contextmanager
def opened_target(
    destination: Destination,
    shape: Shape,
    *,
    pool: Pool,
    lease_seconds: int,
    cutting: Cutting | None = None,
    most_deleted_percent: int = NEVER_REFUSED,
) -> Iterator[OpenTarget]:
    """The target of a destination, connected and not checked yet."""
    target = destination.target
    match target:
        case TableTarget(url=None):
            statements = Statements(target, shape, destination.load)
            with pool.connection() as connection:
                loader = TableLoader(
                    connection,
                    destination,
                    statements,
                    is_same=True,
                    most_deleted_percent=most_deleted_percent,
                )
                yield SameDatabase(loader)
        case TableTarget(url=url):
            statements = Statements(target, shape, destination.load)
            assert url is not None
            dsn = destination_secret(url)
            with open_target(
                destination,
                statements,
                dsn=dsn,
                lease_seconds=lease_seconds,
                most_deleted_percent=most_deleted_percent,
            ) as loader:
                yield Elsewhere(loader, pool, cutting)
        case DeltaTarget():
            from disarray.sinks.destination_delta import DeltaLoader

            yield DeltaLoader(destination, shape, pool, most_deleted_percent)
        case _:
            assert_never(target)


def definition_of(destination: Destination, shape: Shape) -> dict[str, object]:
    """What a destination is, for the database: when it changes, everything is loaded anew. No secret is in it."""
    return {
        "content": destination.content.value,
        "of": destination.content_name,
        "every_us": destination.every_us if destination.metric is not None else None,
        "target": destination.target.shown,
        "load": destination.load.value,
        "columns": {shape.theirs[field.name]: [field.name, str(field.type)] for field in shape.loaded},
    }
