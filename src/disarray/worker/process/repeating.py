"""What a worker does beside its files, again and again: whatever fails waits, and holds nobody else up."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

from disarray.errors import DatabaseUnavailableError, DisarrayError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from disarray.model.breaker import Breaker

log = logging.getLogger(__name__)

_SHORTEST_PAUSE_SECONDS = 0.3


def repeat(
    step: Callable[[threading.Event], None],
    stop: threading.Event,
    *,
    breakers: Sequence[Breaker],
    every_seconds: float,
    failure: str,
    away: tuple[type[DisarrayError], ...] = (DatabaseUnavailableError,),
    awake: threading.Event | None = None,
) -> None:
    """Do a step every so often until told to stop, or sooner where it is woken.

    `breakers` are of the servers that it needs, and `away` the errors that they tell of themselves; `failure` says
    what became of the work when anything else goes wrong.
    """
    while all(breaker.await_turn(stop) for breaker in breakers):
        if awake is not None:
            awake.clear()
        try:
            with ExitStack() as guards:
                for breaker in breakers:
                    guards.enter_context(breaker.guard())
                step(stop)
        except away:
            continue  # the breaker has said so
        except DisarrayError as error:
            log.warning("%s: %s", failure, error)
        except Exception:
            # The worker goes on with its files.
            log.exception("%s", failure)
        if awake is None:
            stop.wait(every_seconds)
        else:
            # What comes in quick succession is one step.
            pause = min(every_seconds, _SHORTEST_PAUSE_SECONDS)
            if not stop.wait(pause):
                awake.wait(every_seconds - pause)
