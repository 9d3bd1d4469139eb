"""Hooks, and what became of the messages to them."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from disarray.control import hooks, side_effects
from disarray.control.connections import Connection
from disarray.errors import UnknownNameError
from disarray.model.description.spec_table import near_miss
from disarray.model.documents import document_of
from disarray.model.side_effect import EffectState
from disarray.queries.pages import Order

ORDER = Order("side effects", {"effect_id": int})
HOOK_ORDER = Order("hooks", {"hook_name": str})


@dataclass(frozen=True, kw_only=True)
class Hook:
    """A hook and how many messages to it stand where; `ended_at` where it is no longer configured.

    `definition` says how it is told; secrets are named, never shown. `larger_than` is by metric, "*" for all others.
    """

    hook_name: str
    kind: str
    causes: list[str]
    subject_patterns: list[str]
    dataset_patterns: list[str]
    larger_than: dict[str, float]
    no_data_since_seconds: float | None
    stale_longer_than_seconds: float | None
    definition: dict[str, object]
    registered_at: datetime
    ended_at: datetime | None
    pending: int
    sending: int
    done: int
    dead: int
    last_done_at: datetime | None
    last_reason: str | None  # of the newest failure that is not mended


@dataclass(frozen=True)
class Hooks:
    """The hooks that there are or were, by name; `next` is the cursor of the next page, null on the last."""

    hooks: list[Hook]
    next: str | None


@dataclass(frozen=True, kw_only=True)
class SideEffect:
    """A message to a hook: what it is about, where it stands, and the answer to the last attempt.

    `accepted` are the recipients of a mail that have it. `reason` is why the last attempt failed.
    """

    effect_id: int
    idempotency_key: str
    hook_name: str
    cause: str
    subject_key: str | None
    dataset: str | None
    summary: str
    details: dict[str, object]
    noted_at: datetime
    state: str
    attempts: int
    available_at: datetime
    claimed_by_instance_name: str | None
    accepted: list[str]
    answer_status: str | None
    answer: str | None
    reason: str | None
    settled_at: datetime | None


@dataclass(frozen=True)
class SideEffects:
    """Messages in the order in which they were noted; `next` is the cursor of the next page, null on the last."""

    side_effects: list[SideEffect]
    next: str | None


def list_hooks(connection: Connection, *, limit: int = 100, after: str | None = None) -> Hooks:
    """The hooks that there are or were, by name."""
    found, following = HOOK_ORDER.page_of(hooks.list_hooks(connection), after=after, limit=limit)
    return Hooks([_hook_document(each) for each in found], following)


def show_hook(connection: Connection, name: str) -> Hook:
    """One hook; an unknown name is answered with the nearest."""
    known = hooks.list_hooks(connection)
    for each in known:
        if each.hook_name == name:
            return _hook_document(each)
    raise UnknownNameError(
        f"no worker ever made a hook '{name}' known; {near_miss(name, [each.hook_name for each in known])}"
    )


def list_side_effects(
    connection: Connection,
    *,
    state: EffectState | None = None,
    hook_name: str | None = None,
    limit: int = 100,
    after: str | None = None,
) -> SideEffects:
    """Messages in the order in which they were noted, of one state or hook where one is named."""
    read = partial(side_effects.list_side_effects, connection, state=state, hook_name=hook_name)
    found, following = ORDER.page(read, after=after, limit=limit)
    return SideEffects([document_of(SideEffect, each) for each in found], following)


def _hook_document(stored: hooks.HookRecord) -> Hook:
    return document_of(
        Hook,
        stored,
        no_data_since_seconds=_seconds(stored.no_data_since),
        stale_longer_than_seconds=_seconds(stored.stale_longer_than),
    )


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()
