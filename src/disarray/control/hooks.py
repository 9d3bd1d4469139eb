"""Hooks as they are configured: who is to be told of what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from disarray.control.calls import fetch_records, fetch_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class HookRecord:
    """A hook as a person sees it in a listing, with what became of the messages to it."""

    hook_name: str
    kind: str
    causes: list[str]
    subject_patterns: list[str]
    dataset_patterns: list[str]
    larger_than: dict[str, float]
    no_data_since: timedelta | None
    stale_longer_than: timedelta | None
    definition: dict[str, Any]
    registered_at: datetime
    ended_at: datetime | None
    pending: int
    sending: int
    done: int
    dead: int
    last_done_at: datetime | None
    last_reason: str | None


def register_hooks(connection: Connection, hooks: Sequence[Mapping[str, Any]]) -> int:
    """Make these hooks known, and no others; how many there are. What waits for one that is gone is given up."""
    return fetch_value(connection, int, "select disarray.register_hooks(%s)", [Jsonb(list(hooks))])


def list_hooks(connection: Connection, *, hook_name: str | None = None) -> list[HookRecord]:
    """The hooks that there are or were."""
    return fetch_records(connection, HookRecord, "select * from disarray.list_hooks(%s)", [hook_name])
