"""A hook as declared: who is told, how, and of what."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from disarray.model.description.secret import SecretSource
from disarray.model.duration import SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.model.side_effect import HookCause

ALL = ("*",)
# Of every metric that `larger_than` does not name.
OTHER_METRICS = "*"


class HookKind(StrEnum):
    """How a message leaves."""

    WEBHOOK = "webhook"
    MAIL = "mail"
    REPORT = "report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A POST to a url, signed where there is a secret; `ca_file` holds certificates to trust beside the usual ones."""

    url: str | SecretSource
    secret: SecretSource | None = None
    ca_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A mail to several, through one server. `subject` and `body` are templates."""

    host: str
    port: int
    starttls: bool
    sender: str
    recipients: tuple[str, ...]
    subject: str
    body: str
    user: SecretSource | str | None = None
    password: SecretSource | None = None
    ca_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A file of its own for each message; `path` and `body` are templates, without a body it is the message as JSON."""

    path: str
    body: str | None = None


Target = Webhook | Mail | Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One `[[hook]]`; limits by metric, lengths in microseconds."""

    name: str
    target: Target
    causes: tuple[HookCause, ...]
    subject_patterns: tuple[str, ...] = ALL
    dataset_patterns: tuple[str, ...] = ALL
    larger_than: Mapping[str, float] = field(default_factory=dict)
    no_data_since_us: int | None = None
    stale_longer_than_us: int | None = None
    timeout_us: int = 10 * SECOND

    @property
    def kind(self) -> HookKind:
        match self.target:
            case Webhook():
                return HookKind.WEBHOOK
            case Mail():
                return HookKind.MAIL
            case Report():
                return HookKind.REPORT

    @property
    def timeout_seconds(self) -> float:
        return self.timeout_us / SECOND

    def definition(self, *, shown_url: str | None = None) -> dict[str, Any]:
        """All of it for people and for the digest: secrets by the name of their variable or file."""
        written = {
            name: value.document() if isinstance(value, SecretSource) else value
            for name in type(self.target).__slots__
            if (value := getattr(self.target, name)) is not None
        }
        if shown_url is not None:
            written["url"] = shown_url
        return {"kind": self.kind.value, "timeout_seconds": self.timeout_seconds, **written}

    def digest(self) -> str:
        """What tells whether two workers would send the same message to the same receiver."""
        written = json.dumps(self.definition(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(written.encode()).hexdigest()
