"""What goes wrong, told as application/problem+json: what happened, what state the data is in, what to do next."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from disarray import errors
from disarray.model.documents import plain
from disarray.web.request_numbers import request_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
TYPES = "urn:disarray:problem:"
MOST_DETAIL = 4000


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """What is wrong with one value: `pointer` leads to it in the body (RFC 6901), `parameter` names it in the query."""

    pointer: str | None = None
    parameter: str | None = None
    detail: str


@dataclass(frozen=True, kw_only=True)
class ProblemDocument:
    """A refusal (RFC 9457): what happened, what state the data is in, what to do next.

    `type` tells kinds of refusals apart and stays; `detail` is for people. The log has `request_id`, which is also in
    the header `X-Request-Id`.
    """

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[Misfit]


class Problem(Exception):  # noqa: N818 (the name of RFC 9457)
    """A refusal on its way to the client. Its type is its title where it has no other one."""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        headers: Mapping[str, str] | None = None,
        *,
        kind: str | None = None,
        misfits: Sequence[Misfit] = (),
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.headers = headers
        self.kind = kind or re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        self.misfits = misfits

    def response(self, request_id: str) -> Response:
        """The answer that tells it."""
        document = ProblemDocument(
            type=f"{TYPES}{self.kind}",
            title=self.title,
            status=self.status,
            detail=self.detail[:MOST_DETAIL],
            request_id=request_id,
            errors=list(self.misfits),
        )
        return JSONResponse(
            plain(document), self.status, headers=dict(self.headers or {}), media_type=MEDIA_TYPE
        )


# The nearest ancestor of an error decides.
_ANSWERS: dict[type[Exception], tuple[int, str]] = {
    errors.InvalidRequestError: (422, "cannot be done"),
    errors.DurationError: (422, "cannot be done"),
    errors.KeyReusedError: (422, "the Idempotency-Key was used for another request"),
    errors.RequestRunningError: (409, "the same request is under way"),
    errors.UnknownNameError: (404, "not known"),
    errors.UnknownInstanceError: (404, "not known"),
    errors.UnknownFileError: (404, "not known"),
    errors.UnknownBackfillError: (404, "not known"),
    errors.UnknownTokenError: (404, "not known"),
    errors.NoEventsTakenError: (404, "not known"),
    errors.NotBlacklistedError: (409, "not so now"),
    errors.NotQuarantinedError: (409, "not so now"),
    errors.NotDeadLetterError: (409, "not so now"),
    errors.AmbiguousNameError: (409, "not unique"),
    errors.DefinitionChangedError: (409, "not so now"),
    errors.NotBuiltYetError: (409, "not so now"),
    errors.ReadingsGoneError: (409, "readings are gone"),
    errors.FragmentDamagedError: (409, "readings are damaged"),
    errors.StalePlanError: (409, "not so now"),
    errors.DatabaseBusyError: (503, "busy"),
    errors.DatabaseUnreachableError: (503, "the database cannot be used"),
    errors.ControlError: (503, "the database cannot be used"),
    errors.DisarrayError: (409, "cannot be done"),
}


def problem_kinds() -> list[tuple[str, int, str]]:
    """The kinds of refusals of what is done for a request, with status and title."""
    return sorted((_kind_of(error), status, title) for error, (status, title) in _ANSWERS.items())


def problem_of(error: Exception, request_id: str) -> Problem:
    """The problem behind an error; what was not raised on purpose is logged and tells the client nothing of itself."""
    if isinstance(error, Problem):
        return error
    for kind in type(error).__mro__:
        if kind in _ANSWERS:
            status, title = _ANSWERS[kind]
            headers = {"Retry-After": "5"} if status == 503 else None
            if status == 503:
                log.warning("request %s: %s", request_id, error)
            return Problem(status, title, str(error), headers, kind=_kind_of(kind))
    log.error("request %s failed", request_id, exc_info=error)
    return Problem(
        500,
        "an error of disarray",
        f"Something went wrong that should not; whether the action took effect is not known. "
        f"The log has the cause under {request_id}. A POST with an Idempotency-Key can be repeated.",
    )


def _kind_of(error: type[Exception]) -> str:
    """`UnknownNameError` is `unknown-name`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", error.__name__.removesuffix("Error")).lower()


def http_problem(request: Request, error: Exception) -> Response:
    """What Starlette itself refuses: unknown paths and methods."""
    refused: HTTPException = error  # type: ignore[assignment]  # registered for these alone
    title = {404: "no such path", 405: "no such method here"}.get(refused.status_code, "refused")
    detail = (
        f"{request.method} {request.url.path[:500]}: {title}. Nothing was done. See /api/v1/openapi.json."
    )
    return Problem(refused.status_code, title, detail, refused.headers).response(request_number(request))


def too_large(limit: int) -> Problem:
    """For a body beyond what is read."""
    return Problem(413, "too large", f"A body has at most {limit} bytes. Nothing was done.")


def too_many(requests: int) -> Problem:
    """For a request that would have to wait behind too many others."""
    return Problem(
        503,
        "busy",
        f"{requests} requests are under way or waiting. Nothing was done. Send it again in a moment.",
        {"Retry-After": "5"},
    )


def too_slow(seconds: float) -> Problem:
    """For a request that took too long. The thread that works on it is left to its own time limits."""
    return Problem(
        503,
        "took too long",
        f"No answer within {seconds:g} s; whether a POST took effect is not known. "
        "Repeat it with the same Idempotency-Key, or ask for less.",
        {"Retry-After": "5"},
    )
