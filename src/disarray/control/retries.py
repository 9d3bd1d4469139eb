"""Calls that may be made twice are made again when the database was busy or away for a moment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from disarray.control.translation import translated_errors
from disarray.errors import DatabaseBusyError, DatabaseUnavailableError
from disarray.model.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.control.connections import Connection, Pool

Result = TypeVar("Result")


def call_idempotent(
    pool: Pool,
    operation: Callable[[Connection], Result],
    *,
    attempts: int = 5,
    timeout_seconds: float = 60,
) -> Result:
    """Run an operation on a pooled connection, again after a growing pause while the database is busy or gone.

    Only for what may happen twice: notifications, renewals, questions. A commit whose reply was lost is settled by
    its run id, and a lost claim by ``return_unknown_claims``; neither is ever repeated blindly.
    """
    deadline = time.monotonic() + timeout_seconds
    backoff = Backoff(first_s=0.1, longest_s=5.0)
    while True:
        try:
            with translated_errors(), pool.connection() as connection:
                return operation(connection)
        except (DatabaseBusyError, DatabaseUnavailableError):
            attempts -= 1
            pause = backoff.failed()
            if attempts < 1 or time.monotonic() + pause > deadline:
                raise
            time.sleep(pause)
