"""JSON from outside: taken only where every reader of it would see the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class TooDeepError(ValueError):
    """A value is nested deeper than it may be."""


def read_strict(
    text: str,
    *,
    parse_int: Callable[[str], int] | None = None,
    parse_float: Callable[[str], float] | None = None,
) -> Any:
    """What a text says; `ValueError` where it is no JSON, names a key twice in one object, or contains NaN."""
    return json.loads(
        text,
        object_pairs_hook=_unambiguous,
        parse_constant=_refuse_constant,
        parse_int=parse_int,
        parse_float=parse_float,
    )


def parts_of(value: Any, *, most_levels: int) -> Iterator[Any]:
    """A value, its keys and all that it holds, level by level; `TooDeepError` once all levels that may be are given.

    Not by recursion: the sender of the value decided how deep it is.
    """
    level = [value]
    for _ in range(most_levels):
        yield from level
        level = [child for each in level for child in _children(each)]
        if not level:
            return
    raise TooDeepError


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return list(value) if isinstance(value, list | tuple) else []


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object names a key twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
