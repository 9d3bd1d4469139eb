"""Several questions, one moment: all of them see the database as it was at the first."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from disarray.control.translation import translated_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.control.connections import Connection


@contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    """Look-ups inside agree with each other, whatever is committed meanwhile; nothing can be changed.

    Fragments never change, and the vacuum leaves those that a reader may have found: they can be read afterwards.
    """
    with translated_errors(), connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        yield
