"""What a hook may be told of, and where a message to one stands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class HookCause(StrEnum):
    """What happened, as in the enum `hook_cause`."""

    RESTATEMENT = "restatement"
    QUARANTINE = "quarantine"
    DEAD_LETTER = "dead_letter"
    NO_DATA_SINCE = "no_data_since"
    STALE_LONGER_THAN = "stale_longer_than"
    VERIFICATION_FAILED = "verification_failed"
    BACKFILL_ENDED = "backfill_ended"


class EffectState(StrEnum):
    """Pending → sending → done; a failure goes back to pending, or to dead once its attempts are used up."""

    PENDING = "pending"
    SENDING = "sending"
    DONE = "done"
    DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectOutcome:
    """What became of one attempt: `reason` is None where the other side took the message.

    `accepted` are the recipients of a mail that have it by now; `is_away` where nobody answers there at all, so that
    the next message need not be tried at once.
    """

    reason: str | None
    status: str | None = None
    answer: str | None = None
    accepted: tuple[str, ...] = ()
    is_away: bool = False

    @property
    def is_done(self) -> bool:
        return self.reason is None
