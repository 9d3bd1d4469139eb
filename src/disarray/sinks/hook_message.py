"""One message to a hook: the same bytes at every attempt."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.control.side_effects import ClaimedEffect
    from disarray.model.description.hook import Hook

# What stands for "of no one subject" where a name is needed.
NO_NAME = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookMessage:
    """What a hook is told; the key is the same however often it is sent."""

    key: str
    hook_name: str
    cause: str
    subject_key: str | None
    dataset: str | None
    summary: str
    details: Mapping[str, Any]
    noted_at: datetime
    is_test: bool = False

    def document(self) -> dict[str, Any]:
        """The message for programs."""
        return {
            "key": self.key,
            "hook": self.hook_name,
            "cause": self.cause,
            "subject": self.subject_key,
            "dataset": self.dataset,
            "noted_at": self.noted_at.astimezone(UTC).isoformat(),
            "summary": self.summary,
            "is_test": self.is_test,
            "details": self.details,
        }

    def json_bytes(self) -> bytes:
        """The same as JSON, in one spelling."""
        return json.dumps(self.document(), sort_keys=True, ensure_ascii=False).encode()

    def fields(self) -> dict[str, str]:
        """What templates can ask for."""
        noted_at = self.noted_at.astimezone(UTC)
        return {
            "hook": self.hook_name,
            "cause": f"TEST {self.cause}" if self.is_test else self.cause,
            "subject": self.subject_key or NO_NAME,
            "dataset": self.dataset or NO_NAME,
            "noted_at": noted_at.isoformat(timespec="seconds"),
            "date": noted_at.date().isoformat(),
            "summary": self.summary,
            "key": self.key,
            "details": json.dumps(self.details, sort_keys=True, ensure_ascii=False, indent=2),
        }


def message_of(effect: ClaimedEffect) -> HookMessage:
    """The message of an entry of the ledger."""
    return HookMessage(
        key=effect.idempotency_key,
        hook_name=effect.hook_name,
        cause=effect.cause,
        subject_key=effect.subject_key,
        dataset=effect.dataset,
        summary=effect.summary,
        details=effect.details,
        noted_at=effect.noted_at,
    )


def example_message(hook: Hook) -> HookMessage:
    """A message about nothing, marked as a test, with a key of its own."""
    return HookMessage(
        key=f"test-{uuid.uuid4().hex}",
        hook_name=hook.name,
        cause=hook.causes[0].value,
        subject_key=None,
        dataset=None,
        summary=f"This is a test of the hook {hook.name}. Nothing happened.",
        details={},
        noted_at=datetime.now(UTC),
        is_test=True,
    )
