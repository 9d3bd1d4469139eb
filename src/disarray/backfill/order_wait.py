"""A chunk whose effect is the commit of a subject: its order is queued, and waited for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, TypeVar

from disarray.errors import BackfillChunkError

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOK_SECONDS = 0.1
_LONGEST_LOOK_SECONDS = 2.0


class OrderProgress(Protocol):
    """How far the order of a subject is, and why one failed meanwhile."""

    @property
    def is_pending(self) -> bool: ...
    @property
    def is_queued(self) -> bool: ...
    @property
    def last_error(self) -> str | None: ...


Found = TypeVar("Found", bound=OrderProgress)


def await_order(
    find: Callable[[], Found],
    *,
    queue: Callable[[], object],
    on_look: Callable[[], None],
    on_wait: Callable[[Found], None] | None = None,
) -> None:
    """Queue an order and wait for its commit; `BackfillChunkError` with the reason where it fails.

    One that waits after a failure of before is due now. `on_look` is called again and again: it raises where the
    process ends. `on_wait` is told how far the order is once it takes longer than a moment.
    """
    look = _LOOK_SECONDS
    is_due = False
    while True:
        progress = find()
        if not progress.is_pending:
            return
        if progress.last_error is not None:
            raise BackfillChunkError(progress.last_error)
        if not (is_due and progress.is_queued):
            queue()
            is_due = True
        elif on_wait is not None and look >= _LONGEST_LOOK_SECONDS:
            on_wait(progress)
        on_look()
        time.sleep(look)
        look = min(look * 1.5, _LONGEST_LOOK_SECONDS)
