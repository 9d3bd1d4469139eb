"""Every request has a number: in its answer, in a refusal, and in what the log says of it."""

from __future__ import annotations

import logging
import re
import time
import uuid
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

HEADER = "X-Request-Id"
# What can be stored, logged and searched for as it is. Another one is not refused: the request gets its own.
PATTERN = r"^[A-Za-z0-9._:-]{1,64}$"


class RequestNumbers:
    """Takes the number that a client or proxy gives, or makes one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        number = given if re.fullmatch(PATTERN.strip("^$"), given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_number"] = number
        begun = time.monotonic()

        async def send_numbered(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = number
                _log(scope, message["status"], time.monotonic() - begun)
            await send(message)

        await self._app(scope, receive, send_numbered)


def request_number(request: Request) -> str:
    """The number of a request."""
    number: str = request.scope["state"]["request_number"]
    return number


def _log(scope: Scope, status: int, seconds: float) -> None:
    # What was changed or went wrong; what was looked at only for who wants to know.
    level = logging.INFO if scope["method"] != "GET" or status >= 500 else logging.DEBUG
    # The path is what a client sent: quoted, so that it cannot look like a line of ours.
    log.log(
        level,
        "%s %r answered %d in %.0f ms (request %s)",
        scope["method"],
        scope["path"][:200],
        status,
        seconds * 1000,
        scope["state"]["request_number"],
    )
