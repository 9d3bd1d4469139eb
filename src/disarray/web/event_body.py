"""The body of a request that brings events, cut into their texts. What each of them says is not looked at."""

from __future__ import annotations

import json
import re

from disarray.control.raw_events import MOST_EVENTS
from disarray.web.problems import Problem
from disarray.web.route import JSON

JSON_LINES = "application/x-ndjson"

_BLANKS = re.compile(r"[ \t\n\r]*")
# Numbers stay texts: none is too long, and none is changed.
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str)


def split_events(media_type: str, body: bytes) -> list[str]:
    """The events of a JSON array, or of JSON lines, each as it was written; blank lines are none."""
    try:
        # A NUL cannot be sent to the database. As an escape it is what it was: no JSON that can be stored.
        text = body.decode("utf-8").replace("\0", "\\u0000")
    except UnicodeDecodeError as error:
        raise _refusal(f"the body is not UTF-8 at byte {error.start}") from None
    events = _elements(text) if media_type == JSON else [line for line in text.split("\n") if line.strip()]
    if len(events) > MOST_EVENTS:
        raise Problem(
            413, "too large", f"There are {len(events)} events, at most {MOST_EVENTS}. Nothing was stored."
        )
    return events


def _elements(text: str) -> list[str]:
    at = _after_blanks(text, 0)
    if text[at : at + 1] != "[":
        raise _refusal("the body is not a JSON array")
    at = _after_blanks(text, at + 1)
    elements: list[str] = []
    if text[at : at + 1] == "]":
        return _ended(text, at, elements)
    while True:
        try:
            _, end = _DECODER.raw_decode(text, at)
        except RecursionError:
            raise _refusal(f"the event with the index {len(elements)} is nested too deeply") from None
        except ValueError as error:
            raise _refusal(
                f"the body is not JSON: the event with the index {len(elements)}: {error}"
            ) from None
        elements.append(text[at:end])
        at = _after_blanks(text, end)
        following = text[at : at + 1]
        if following == "]":
            return _ended(text, at, elements)
        if following != ",":
            raise _refusal(f"the body is not JSON after the event with the index {len(elements) - 1}")
        at = _after_blanks(text, at + 1)


def _ended(text: str, at: int, elements: list[str]) -> list[str]:
    if _after_blanks(text, at + 1) != len(text):
        raise _refusal("the body is not JSON: something follows its end")
    return elements


def _after_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    assert found is not None
    return found.end()


def _refusal(what: str) -> Problem:
    return Problem(
        400,
        "not as documented",
        f"{what}. Nothing was stored. Send a JSON array of objects as {JSON}, or one object a line as {JSON_LINES}.",
    )
