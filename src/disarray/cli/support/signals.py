"""SIGTERM and Ctrl-C: the first ends in good order, the second at once."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# Whoever waits for the event looks up so often: a signal may be taken by another thread, and then its handler runs
# only when the main thread wakes up.
SIGNAL_SECONDS = 0.5


def stop_on_signals() -> threading.Event:
    """An event that the first SIGTERM or SIGINT sets; the second ends the process with 128 and its number."""
    stop = threading.Event()
    received: list[int] = []

    def on_signal(number: int, _frame: Any) -> None:
        received.append(number)
        if len(received) > 1:
            # Claims stay with the dead: the next life under this name takes them over at once.
            os.write(2, b"disarray: told twice, ending at once\n")
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return stop


@contextmanager
def interrupted() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets, beside the KeyboardInterrupt that it raises.

    Where it happens to be raised in a finalizer or a callback, Python prints the exception and goes on: whoever looks
    at the event in between ends all the same. It is taken also where the process was started with SIGINT ignored.
    """
    is_over = threading.Event()

    def on_signal(_number: int, _frame: Any) -> None:
        is_over.set()
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGINT, on_signal)
    try:
        yield is_over
    finally:
        signal.signal(signal.SIGINT, former)
