"""Answers as JSON: floats with every bit, instants in UTC."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from disarray.model.segments import datetime_of
from disarray.web.schema import public_name


def encode(answer: Any) -> bytes:
    """One JSON document."""
    return json.dumps(plain(answer), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def plain(value: Any) -> Any:
    """A value made of what JSON knows."""
    if is_dataclass(value) and not isinstance(value, type):
        return {public_name(each.name): plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def instant(us: int | None) -> datetime | None:
    """Microseconds since 1970 as an instant."""
    return None if us is None else datetime_of(us)
