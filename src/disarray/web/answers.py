"""Answers as JSON: floats with every bit, instants in UTC."""

from __future__ import annotations

import json
from typing import Any

from disarray.model.documents import plain


def encode(answer: Any) -> bytes:
    """One JSON document."""
    return json.dumps(plain(answer), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
