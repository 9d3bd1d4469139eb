"""The REST server as an ASGI application: every request checked, bounded and answered in the same way."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from disarray.control.connections import SessionLimits
from disarray.control.timings import TIMINGS
from disarray.control.translation import translated_errors
from disarray.web.access import Access, identify, require
from disarray.web.answers import encode
from disarray.web.idempotency import HEADER, REPLAYED, act_once
from disarray.web.problems import Problem, http_problem, problem_of, too_large, too_many, too_slow
from disarray.web.request_reader import read_body, read_query
from disarray.web.route import JSON, Call
from disarray.web.routes import ROUTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request

    from disarray.web.route import AnyRoute, Sources

# A person waits for the answer: what takes longer is cut off by the database, and told.
SESSION_LIMITS = SessionLimits(
    statement_ms=15_000, lock_ms=5_000, idle_in_transaction_ms=15_000, tcp_ms=15_000
)
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one server takes on."""

    threads: int = 8  # and as many connections
    threads_of_caller: int = 4  # so that nobody has all of them
    requests: int = 256  # under way or waiting for a thread; /health is not one of them
    requests_of_caller: int = 64  # the same, of one token
    seconds: float = 30.0
    body_bytes: int = 65_536


def create_app(sources: Sources, *, access: Access | None = None, limits: Limits | None = None) -> Starlette:
    """The application; `sources.pool` should have a connection for each of `limits.threads`."""
    access, limits = access or Access(), limits or Limits()
    threads = _Threads(limits.threads, most_requests=limits.requests)
    shares = _Shares(limits.threads_of_caller, most_requests=limits.requests_of_caller)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        threads.end()

    return Starlette(
        routes=[
            StarletteRoute(
                route.path,
                _endpoint(route, sources, access=access, limits=limits, threads=threads, shares=shares),
                methods=[route.method],
            )
            for route in ROUTES
        ],
        exception_handlers={HTTPException: http_problem},
        lifespan=lifespan,
    )


class _Threads:
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


class _Shares:
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


def _asker(request: Request) -> bytes:
    """Who asks, as far as it can be told without the database: by token, or else by address."""
    token = request.headers.get("authorization")
    peer = request.client.host if request.client is not None else ""
    return sha256((f"token {token}" if token else f"peer {peer}").encode()).digest()


def _endpoint(
    route: AnyRoute,
    sources: Sources,
    *,
    access: Access,
    limits: Limits,
    threads: _Threads,
    shares: _Shares,
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            with TIMINGS.timed("request", kind=route.path):
                async with asyncio.timeout(limits.seconds):
                    body = await _read_limited(request, limits.body_bytes)
                    if route.is_instant:
                        return _answer(route, sources, access, request, body)
                    end = await shares.enter(_asker(request))
                    work = partial(_answer, route, sources, access, request, body)
                    return await threads.run(work, on_end=end)
        except TimeoutError:
            return too_slow(limits.seconds).response()
        except Problem as problem:
            return problem.response()

    return answer


async def _read_limited(request: Request, limit: int) -> bytes:
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit:
        raise too_large(limit)
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > limit:
            raise too_large(limit)
    return body


def _answer(route: AnyRoute, sources: Sources, access: Access, request: Request, body: bytes) -> Response:
    """All of one request, in one thread: who asks, what for, and the answer."""
    try:
        with translated_errors(), Call(sources) as call:
            if route.scope is not None:
                peer = request.client.host if request.client is not None else None
                caller = identify(access, call, headers=request.headers, peer=peer)
                require(caller, route.scope)
                call.who = caller.name
            return _act(route, call, request, body)
    except Exception as error:
        return problem_of(error).response()


def _act(route: AnyRoute, call: Call, request: Request, body: bytes) -> Response:
    headers = {**_HEADERS, **route.headers}
    if route.method == "POST":
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            # Also what keeps a page of another site from posting through a browser on this machine.
            raise Problem(415, "not JSON", f"Send the body as {JSON}. Nothing was done.")
        if request.query_params:
            raise Problem(
                400, "not as documented", "A POST takes its parameters in the body. Nothing was done."
            )
        asked = read_body(route.asks, body)
        content, is_replayed = act_once(
            call,
            route,
            asked,
            key=request.headers.get(HEADER),
            act=lambda: encode(route.handle(call, asked)),
        )
        if is_replayed:
            headers[REPLAYED] = "true"
        return Response(content, media_type=JSON, headers=headers)
    asked = read_query(route.asks, request.query_params.multi_items())
    answered = route.handle(call, asked)
    content = encode(answered) if route.media_type == JSON else answered.encode()
    return Response(content, media_type=route.media_type, headers=headers)
