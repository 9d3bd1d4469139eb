"""How notifications leave an agent: one contract, met by RabbitMQ and by PostgreSQL directly."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.model.notification import Notification


@dataclass(frozen=True, slots=True)
class Announcement:
    """A notification with an id of its own, by which a copy is told from a second notification that says the same."""

    id: str
    notification: Notification

    @property
    def digest(self) -> bytes:
        """By what a copy is known: all that it says. Whoever guesses the id of another says something else by it."""
        file = self.notification
        parts = [self.id, file.source_uri, file.subject_key, str(file.reason), file.metadata]
        return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a batch; whatever is in none of the three stays with the sender, and is sent again."""

    delivered: frozenset[str] = frozenset()
    unroutable_subjects: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)  # id → why it can never be taken


class Transport(Protocol):
    """Takes notifications over for good, or says that it did not."""

    def publish(self, announcements: Sequence[Announcement]) -> Receipt:
        """Hand over in order; `TransportUnavailableError` if nothing was taken, and then all are sent again."""
        ...

    def idle(self) -> None:
        """Called between publications, so that a connection stays alive."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
