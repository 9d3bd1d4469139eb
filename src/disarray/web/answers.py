"""Answers: JSON with floats of every bit and instants in UTC, smaller for who takes that, and where to look next."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from disarray.model.documents import plain
from disarray.web.problems import Problem
from disarray.web.route import API

if TYPE_CHECKING:
    from starlette.requests import Request

    from disarray.web.route import AnyRoute

# Below that the headers cost as much.
LEAST_COMPRESSED = 1024


def encode(answer: Any) -> bytes:
    """One JSON document."""
    return json.dumps(plain(answer), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def link_header(request: Request, answered: object) -> dict[str, str]:
    """Where the next page of a list is."""
    following = getattr(answered, "next", None)
    if following is None:
        return {}
    asked = [(name, value) for name, value in request.query_params.multi_items() if name != "after"]
    return {"Link": f'<{request.url.path}?{urlencode([*asked, ("after", following)])}>; rel="next"'}


def queued_status(route: AnyRoute, content: bytes) -> tuple[int, dict[str, str]]:
    """The status of a POST: 202 where its work is done later, and where to look for that."""
    if route.followed_at is not None:
        return 202, {"Location": route.followed_at(json.loads(content))}
    items = (
        []
        if route.queued is None
        else [each for each in route.queued(json.loads(content)) if each is not None]
    )
    if not items:
        return 200, {}
    return 202, {"Location": f"{API}/queue/{items[0]}" if len(items) == 1 else f"{API}/queue"}


def check_accepted(route: AnyRoute, request: Request) -> None:
    """Refuse a request for a format that is not offered, before anything is done."""
    given = request.headers.get("accept", "").strip()
    offered = route.media_type.partition(";")[0]
    if given and not _weights(given).keys() & {offered, f"{offered.partition('/')[0]}/*", "*/*"}:
        raise Problem(
            406,
            "format not offered",
            f"{given[:200]!r} was asked for, and this is given as {offered}. Nothing was done.",
        )


def compressed(request: Request, content: bytes) -> tuple[bytes, dict[str, str]]:
    """An answer for who takes gzip, and its headers. In the thread of the request: it may be 10 MB."""
    headers = {"Vary": "Accept-Encoding"}
    takes = _weights(request.headers.get("accept-encoding", ""))
    if len(content) < LEAST_COMPRESSED or not takes.keys() & {"gzip", "*"}:
        return content, headers
    return gzip.compress(content, compresslevel=6, mtime=0), headers | {"Content-Encoding": "gzip"}


def _weights(header: str) -> dict[str, float]:
    """What a client takes, without what it refuses by a weight of 0."""
    found = {}
    for each in header.split(","):
        name, *parameters = (part.strip().lower() for part in each.split(";"))
        weight = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        try:
            found[name] = float(weight)
        except ValueError:
            found[name] = 1.0
    return {name: weight for name, weight in found.items() if name and weight > 0}
