"""Calls that may be made twice are made again when the database was busy or away for a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import stamina

from disarray.control.translation import translated_errors
from disarray.errors import DatabaseBusyError, DatabaseUnavailableError

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
    for attempt in stamina.retry_context(
        on=(DatabaseBusyError, DatabaseUnavailableError),
        attempts=attempts,
        timeout=timeout_seconds,
        wait_initial=0.1,
        wait_max=5.0,
        wait_jitter=0.5,
    ):
        with attempt, translated_errors(), pool.connection() as connection:
            return operation(connection)
    raise AssertionError("retry_context either returns or raises")
