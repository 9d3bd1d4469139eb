"""Targets opened: a table of this database or of another one, or a Delta table, all loaded in the same way."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, assert_never

from disarray.errors import DestinationMisfitError
from disarray.model.description.destination import DeltaTarget, TableTarget
from disarray.sinks.destination_database import UNTOUCHED, Loaded, TableLoader, open_target
from disarray.sinks.destination_statements import Statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from disarray.control.connections import Connection, Pool
    from disarray.control.destinations import LoadTurn
    from disarray.model.description.destination import Destination, Secret
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

    def sweep(self, turn: LoadTurn, list_unasked: ListUnasked) -> None:
        """Delete rows of subjects that it is not to have, of those that may have any."""
        ...

    def vacuum(self) -> int:
        """Delete what nobody asks for any more."""
        ...


@dataclass(frozen=True, slots=True)
class SameDatabase:
    """A table beside our own: the position moves in the transaction of the load."""

    loader: TableLoader

    def prepare(self) -> None:
        self.loader.prepare()

    def load(self, turn: LoadTurn, rows: SubjectRows, *, advance: Advance) -> Loaded:
        return self.loader.load(turn, rows, finish=lambda loaded: advance(self.loader.connection, loaded))

    def sweep(self, turn: LoadTurn, list_unasked: ListUnasked) -> None:
        self.loader.sweep(turn, list_unasked)

    def vacuum(self) -> int:
        return self.loader.vacuum()


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A target that has its own commits: the position moves after the load, and a load that is repeated is harmless."""

    loader: TableLoader
    pool: Pool

    def prepare(self) -> None:
        self.loader.prepare()

    def load(self, turn: LoadTurn, rows: SubjectRows, *, advance: Advance) -> Loaded:
        loaded = self.loader.load(turn, rows) if rows.changes.spans else UNTOUCHED
        with self.pool.connection() as connection:
            advance(connection, loaded)
        return loaded

    def sweep(self, turn: LoadTurn, list_unasked: ListUnasked) -> None:
        self.loader.sweep(turn, list_unasked)

    def vacuum(self) -> int:
        return self.loader.vacuum()


@contextmanager
def opened_target(
    destination: Destination, shape: Shape, *, pool: Pool, lease_seconds: int
) -> Iterator[OpenTarget]:
    """The target of a destination, connected and not checked yet."""
    target = destination.target
    match target:
        case TableTarget(url=None):
            statements = Statements(target, shape, destination.load)
            with pool.connection() as connection:
                yield SameDatabase(TableLoader(connection, destination, statements, is_same=True))
        case TableTarget(url=url):
            statements = Statements(target, shape, destination.load)
            assert url is not None
            with open_target(
                destination, statements, dsn=read_secret(url), lease_seconds=lease_seconds
            ) as loader:
                yield Elsewhere(loader, pool)
        case DeltaTarget():
            from disarray.sinks.destination_delta import DeltaLoader

            yield DeltaLoader(destination, shape, pool)
        case _:
            assert_never(target)


def read_secret(secret: Secret) -> str:
    """What an environment variable or a file says; the error names where it was sought and nothing else."""
    if secret.variable:
        value = os.environ.get(secret.variable, "")
    else:
        try:
            value = Path(secret.file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise DestinationMisfitError(
                f"{secret.shown} cannot be read: {reason}. Nothing was loaded"
            ) from None
    if not value:
        raise DestinationMisfitError(f"{secret.shown} says nothing. Nothing was loaded")
    return value


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
