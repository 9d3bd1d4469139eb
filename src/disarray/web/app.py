"""The REST server as an ASGI application: every request checked, bounded and answered in the same way."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from disarray.control.connections import SessionLimits
from disarray.control.timings import TIMINGS
from disarray.control.translation import translated_errors
from disarray.web.access import Access, identify, require
from disarray.web.answers import check_accepted, compressed, encode, link_header, queued_status
from disarray.web.idempotency import HEADER, REPLAYED, act_once
from disarray.web.problems import Problem, http_problem, problem_of, too_large, too_slow
from disarray.web.request_numbers import RequestNumbers, request_number
from disarray.web.request_reader import read_body, read_query
from disarray.web.route import JSON, Call
from disarray.web.routes import ROUTES
from disarray.web.turns import Shares, Threads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from starlette.requests import Request

    from disarray.web.route import AnyRoute, Sources

# A person waits for the answer: what takes longer is cut off by the database, and told.
SESSION_LIMITS = SessionLimits(
    statement_ms=15_000, lock_ms=5_000, idle_in_transaction_ms=15_000, tcp_ms=15_000
)
# A path with a parameter matches these too, and a GET of it is none of a fixed path that only takes POSTs.
_FIXED_PATHS = {
    path: {route.method for route in ROUTES if route.path == path}
    for path in {route.path for route in ROUTES if "{" not in route.path}
}
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
    large_bodies: int = 16  # of those whose route takes more, in memory at a time


def create_app(sources: Sources, *, access: Access | None = None, limits: Limits | None = None) -> Starlette:
    """The application; `sources.pool` should have a connection for each of `limits.threads`."""
    access, limits = access or Access(), limits or Limits()
    threads = Threads(limits.threads, most_requests=limits.requests)
    shares = Shares(limits.threads_of_caller, most_requests=limits.requests_of_caller)
    large_bodies = asyncio.Semaphore(limits.large_bodies)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        threads.end()

    return Starlette(
        routes=[
            StarletteRoute(
                route.path,
                _endpoint(
                    route,
                    sources,
                    access=access,
                    limits=limits,
                    threads=threads,
                    shares=shares,
                    room=nullcontext() if route.body is None else large_bodies,
                ),
                methods=[route.method],
            )
            for route in ROUTES
        ],
        exception_handlers={HTTPException: http_problem},
        middleware=[Middleware(RequestNumbers)],
        lifespan=lifespan,
    )


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
    threads: Threads,
    shares: Shares,
    room: AbstractAsyncContextManager[None],
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        methods = _FIXED_PATHS.get(request.url.path, {route.method})
        if route.method not in methods:
            raise HTTPException(405, headers={"Allow": ", ".join(sorted(methods))})
        try:
            with TIMINGS.timed("request", kind=route.path):
                async with asyncio.timeout(limits.seconds), room:
                    most_bytes = limits.body_bytes if route.body is None else route.body.most_bytes
                    body = await _read_limited(request, most_bytes)
                    if route.is_instant:
                        return _answer(route, sources, access, request, body)
                    end = await shares.enter(_asker(request))
                    work = partial(_answer, route, sources, access, request, body)
                    return await threads.run(work, on_end=end)
        except TimeoutError:
            return too_slow(limits.seconds).response(request_number(request))
        except Problem as problem:
            return problem.response(request_number(request))

    return answer


async def _read_limited(request: Request, limit: int) -> bytes:
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit:
        raise too_large(limit)
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit:
            raise too_large(limit)
    return bytes(body)


def _answer(route: AnyRoute, sources: Sources, access: Access, request: Request, body: bytes) -> Response:
    """All of one request, in one thread: who asks, what for, and the answer."""
    try:
        with translated_errors(), Call(sources) as call:
            if route.scope is not None:
                peer = request.client.host if request.client is not None else None
                caller = identify(access, call, headers=request.headers, peer=peer)
                require(caller, route.scope)
                call.who, call.scope = caller.name, caller.scope
            return _act(route, call, request, body)
    except Exception as error:
        number = request_number(request)
        return problem_of(error, number).response(number)


def _act(route: AnyRoute, call: Call, request: Request, body: bytes) -> Response:
    check_accepted(route, request)
    headers = {**_HEADERS, **route.headers}
    status = 200
    if route.method == "POST":
        taken = (JSON,) if route.body is None else tuple(route.body.media_types)
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type not in taken:
            # Also what keeps a page of another site from posting through a browser on this machine.
            raise Problem(415, "not JSON", f"Send the body as {' or '.join(taken)}. Nothing was done.")
        if request.query_params:
            raise Problem(
                400, "not as documented", "A POST takes its parameters in the body. Nothing was done."
            )
        asked = (
            read_body(route.asks, body)
            if route.body is None
            else route.body.read(request.path_params, media_type, body)
        )
        content, is_replayed = act_once(
            call,
            route,
            asked,
            key=request.headers.get(HEADER),
            act=lambda: encode(route.handle(call, asked)),
        )
        if is_replayed:
            headers[REPLAYED] = "true"
        status, place = queued_status(route, content)
        headers |= place
    else:
        asked = read_query(route.asks, [*request.path_params.items(), *request.query_params.multi_items()])
        answered = route.handle(call, asked)
        headers |= link_header(request, answered)
        content = encode(answered) if route.media_type == JSON else answered.encode()
    content, compression = compressed(request, content)
    return Response(content, status, media_type=route.media_type, headers=headers | compression)
