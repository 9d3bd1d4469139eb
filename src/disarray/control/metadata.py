"""JSON on its way into the database, refused here when PostgreSQL would refuse or choke on it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from disarray.errors import InvalidRequestError
from disarray.model.notification import Metadata as Metadata
from disarray.model.strict_json import TooDeepError, parts_of

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
    try:
        for part in parts_of(metadata, most_levels=MAX_DEPTH):
            if isinstance(part, str) and "\0" in part:
                raise InvalidRequestError("metadata contains a NUL character. Nothing was stored.")
    except TooDeepError:
        raise _too_deep() from None


def _too_deep() -> InvalidRequestError:
    return InvalidRequestError(f"metadata is nested more than {MAX_DEPTH} levels deep. Nothing was stored.")
