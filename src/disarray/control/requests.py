"""Requests that may be sent twice, and the answers that were given to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.translation import translated_errors

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
    with translated_errors():
        row = connection.execute(
            "select disarray.begin_request(%s, %s, %s, %s)",
            (request.caller, request.route, request.idempotency_key, request_hash),
        ).fetchone()
    assert row is not None
    answer: str | None = row[0]
    return answer


def keep_answer(connection: Connection, request: Request, *, request_hash: bytes, answer: str) -> None:
    """Store an answer for a day, together with what was done."""
    with translated_errors():
        connection.execute(
            "select disarray.keep_answer(%s, %s, %s, %s, %s)",
            (request.caller, request.route, request.idempotency_key, request_hash, answer),
        )
