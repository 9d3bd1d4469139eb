"""Requests that may be sent twice, and the answers that were given to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.calls import call, find_value

if TYPE_CHECKING:
    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class Request:
    """What makes a request the same one as before."""

    caller: str
    route: str
    idempotency_key: str


def begin_request(connection: Connection, request: Request, *, request_hash: bytes) -> str | None:
    """The stored answer, or None: then act, and call ``keep_answer`` in the same transaction."""
    return find_value(
        connection,
        str,
        "select disarray.begin_request(%s, %s, %s, %s)",
        (request.caller, request.route, request.idempotency_key, request_hash),
    )


def keep_answer(connection: Connection, request: Request, *, request_hash: bytes, answer: str) -> None:
    """Store an answer for a day, together with what was done."""
    call(
        connection,
        "select disarray.keep_answer(%s, %s, %s, %s, %s)",
        (request.caller, request.route, request.idempotency_key, request_hash, answer),
    )
