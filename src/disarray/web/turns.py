"""Whose request is at work, and whose waits: so many threads for all, and fewer for any one caller."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from disarray.web.problems import too_many

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response


class Threads:
    """Not the event loop's own: there are as many as connections, and one that was given up still counts."""

    def __init__(self, count: int, *, most_requests: int) -> None:
        self._count = count
        self._most_requests = most_requests
        self._requests = 0
        self._executor: ThreadPoolExecutor | None = None

    def run(self, work: Callable[[], Response], *, on_end: Callable[[], None]) -> asyncio.Future[Response]:
        """Begin as soon as a thread is free. Only ever called in the event loop.

        `on_end` is called there once the thread has ended, which is later than the answer where that was given up.
        """
        if self._requests >= self._most_requests:
            on_end()
            raise too_many(self._most_requests)
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._count, thread_name_prefix="disarray-web")
        loop = asyncio.get_running_loop()

        def ended(_: object) -> None:
            try:
                loop.call_soon_threadsafe(on_end)
            except RuntimeError:
                # The loop is closed, and nobody waits in it any more.
                on_end()

        begun = self._executor.submit(work)
        begun.add_done_callback(ended)
        future = asyncio.wrap_future(begun)
        self._requests += 1
        future.add_done_callback(self._end_one)
        return future

    def _end_one(self, _: asyncio.Future[Response]) -> None:
        self._requests -= 1

    def end(self) -> None:
        """Let the threads go once they have ended what they do."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)


class Shares:
    """At most so many requests of one caller at a time; its others wait, and those of other callers go on."""

    def __init__(self, count: int, *, most_requests: int) -> None:
        self._count = count
        self._most_requests = most_requests
        self._gates: dict[bytes, tuple[asyncio.Semaphore, int]] = {}

    async def enter(self, caller: bytes) -> Callable[[], None]:
        """Wait for a turn; what is given back ends it. Only ever called in the event loop."""
        gate, users = self._gates.get(caller, (asyncio.Semaphore(self._count), 0))
        if users >= self._most_requests:
            raise too_many(self._most_requests)
        self._gates[caller] = gate, users + 1
        try:
            await gate.acquire()
        except BaseException:
            self._leave(caller)
            raise

        def end() -> None:
            gate.release()
            self._leave(caller)

        return end

    def _leave(self, caller: bytes) -> None:
        gate, users = self._gates.pop(caller)
        if users > 1:
            self._gates[caller] = gate, users - 1
