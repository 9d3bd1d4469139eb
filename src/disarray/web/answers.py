"""Answers as JSON: floats with every bit, instants in UTC."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from disarray.model.documents import plain
from disarray.model.segments import datetime_of

if TYPE_CHECKING:
    from datetime import datetime


def encode(answer: Any) -> bytes:
    """One JSON document."""
    return json.dumps(plain(answer), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def instant(us: int | None) -> datetime | None:
    """Microseconds since 1970 as an instant."""
    return None if us is None else datetime_of(us)
