"""JSON on its way into the database, refused here when PostgreSQL would refuse or choke on it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from disarray.errors import InvalidRequestError
from disarray.model.notification import Metadata as Metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES = 16_384
MAX_DEPTH = 8

_ENCODER = json.JSONEncoder(allow_nan=False, ensure_ascii=False)


def as_jsonb(metadata: Mapping[str, Any]) -> Jsonb:
    """Metadata as a parameter, or a clear refusal.

    Python writes NaN, NUL characters and lone surrogates without a word, and ``jsonb`` takes none of them.
    """
    try:
        text = _ENCODER.encode(metadata)
        size = len(text.encode())
    except RecursionError:
        raise _too_deep() from None
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(f"metadata is not plain JSON: {error}. Nothing was stored.") from error
    if size > MAX_BYTES:
        raise InvalidRequestError(
            f"metadata has {size} bytes, at most {MAX_BYTES} are stored. Nothing was stored."
        )
    # A NUL is always written as this escape, and few brackets cannot nest deeply: most metadata needs no closer look.
    if "\\u0000" in text or text.count("{") + text.count("[") >= MAX_DEPTH:
        _check_shape(metadata)
    return Jsonb(metadata, dumps=lambda _: text)


def _check_shape(metadata: Mapping[str, Any]) -> None:
    # Level by level rather than by recursion: the sender decides how deep this goes.
    level: list[Any] = [metadata]
    for _ in range(MAX_DEPTH):
        if any(isinstance(value, str) and "\0" in value for value in level):
            raise InvalidRequestError("metadata contains a NUL character. Nothing was stored.")
        level = [child for value in level for child in _parts_of(value)]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> InvalidRequestError:
    return InvalidRequestError(f"metadata is nested more than {MAX_DEPTH} levels deep. Nothing was stored.")


def _parts_of(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        return list(value)
    return []
