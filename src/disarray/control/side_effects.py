"""The ledger of messages that leave: noted with their cause, claimed, sent, settled with the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NewType

from psycopg.types.json import Jsonb

from disarray.control.calls import fetch_records, fetch_value, find_record
from disarray.model.side_effect import EffectState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from disarray.control.connections import Connection
    from disarray.control.metadata import Metadata
    from disarray.control.queue import Holder
    from disarray.model.side_effect import EffectOutcome, HookCause

EffectId = NewType("EffectId", int)


@dataclass(frozen=True, slots=True)
class ClaimedEffect:
    """A message in the hands of a sender; `accepted` are recipients that have it already."""

    effect_id: EffectId
    idempotency_key: str
    hook_name: str
    cause: str
    subject_key: str | None
    dataset: str | None
    summary: str
    details: dict[str, Any]
    noted_at: datetime
    attempts: int
    accepted: list[str]
    fence: int


@dataclass(frozen=True, slots=True)
class SideEffect:
    """A message as a person sees it in a listing."""

    effect_id: EffectId
    idempotency_key: str
    hook_name: str
    cause: str
    subject_key: str | None
    dataset: str | None
    summary: str
    details: dict[str, Any]
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


def note_side_effects(
    connection: Connection,
    cause: HookCause,
    *,
    subject_key: str | None,
    dataset: str | None,
    occasion: str,
    summary: str,
    details: Mapping[str, Any],
) -> int:
    """Note what hooks are to be told, in the transaction of the cause; how many messages that makes.

    `occasion` tells two causes of one kind in one subject and dataset apart: noted twice, it is sent once.
    """
    return fetch_value(
        connection,
        int,
        "select disarray.note_side_effects(%s, %s, %s, %s, %s, %s)",
        [cause.value, subject_key, dataset, occasion, summary, Jsonb(dict(details))],
    )


def note_conditions(connection: Connection, *, every_seconds: int) -> int:
    """Look for subjects that are silent or stale for too long, unless somebody just did; how many are told of."""
    return fetch_value(connection, int, "select disarray.note_conditions(%s)", [every_seconds])


def claim_side_effect(
    connection: Connection,
    hook_name: str,
    holder: Holder,
    *,
    definition_digest: str,
    lease_seconds: int,
    max_attempts: int,
) -> ClaimedEffect | None:
    """Claim the next message of a hook; None where nothing is due, or the hook is defined otherwise meanwhile."""
    return find_record(
        connection,
        ClaimedEffect,
        "select * from disarray.claim_side_effect(%s, %s, %s, %s, %s, %s)",
        [
            hook_name,
            definition_digest,
            holder.instance_name,
            holder.incarnation,
            lease_seconds,
            max_attempts,
        ],
    )


def settle_side_effect(
    connection: Connection,
    effect: ClaimedEffect,
    outcome: EffectOutcome,
    *,
    retry_seconds: float,
    max_attempts: int,
) -> EffectState:
    """Record what became of a claimed message; where it stands now."""
    state = fetch_value(
        connection,
        str,
        "select disarray.settle_side_effect(%s, %s, %s, %s, %s, %s, %s::text[], %s, %s)",
        [
            effect.effect_id,
            effect.fence,
            outcome.is_done,
            outcome.status,
            outcome.answer,
            outcome.reason,
            list(outcome.accepted),
            retry_seconds,
            max_attempts,
        ],
    )
    return EffectState(state)


def release_side_effect(connection: Connection, effect: ClaimedEffect) -> bool:
    """Give back a message of which nothing was sent, without counting an attempt; whether it was still held."""
    return fetch_value(
        connection, bool, "select disarray.release_side_effect(%s, %s)", [effect.effect_id, effect.fence]
    )


def list_side_effects(
    connection: Connection,
    *,
    state: str | None = None,
    hook_name: str | None = None,
    limit: int = 100,
    after: Sequence[str] | None = None,
) -> list[SideEffect]:
    """Messages in the order in which they were noted."""
    return fetch_records(
        connection,
        SideEffect,
        "select * from disarray.list_side_effects(%s, %s, %s, %s::text[])",
        [state, hook_name, limit, after],
    )


def count_side_effects(connection: Connection) -> Metadata:
    """How many messages wait, are being sent, or were given up."""
    return fetch_value(connection, dict, "select disarray.count_side_effects()")


def resend_side_effects(connection: Connection, effect_ids: Sequence[int], *, reason: str, by: str) -> int:
    """Send messages that were given up once more, with a full set of attempts; how many, all or none."""
    return fetch_value(
        connection,
        int,
        "select disarray.resend_side_effects(%s::bigint[], %s, %s)",
        [list(effect_ids), reason, by],
    )


def forget_side_effects(connection: Connection, *, keep: timedelta, is_rehearsal: bool = False) -> int:
    """Forget messages that have been done for so long; how many."""
    return fetch_value(connection, int, "select disarray.forget_side_effects(%s, %s)", [keep, is_rehearsal])
