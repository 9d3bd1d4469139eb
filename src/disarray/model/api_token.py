"""Bearer tokens of the REST server: how they are made, read and compared."""

from __future__ import annotations

import enum
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

_TOKEN = re.compile(r"dsr_(?P<id>[0-9a-f]{16})_(?P<secret>[A-Za-z0-9_-]{43})", re.ASCII)


class Scope(enum.StrEnum):
    """What a caller may do: `produce` records events and nothing else; each of the others includes those before it."""

    PRODUCE = "produce"
    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"

    def includes(self, other: Scope) -> bool:
        """Whether this scope includes the other."""
        if other is Scope.PRODUCE and self is Scope.READ:
            return False
        order = list(Scope)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True)
class ApiToken:
    """A token in the hands of its holder. The id is no secret: it finds the row with the hash."""

    token_id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """The token as it is sent."""
        return f"dsr_{self.token_id}_{self.secret}"

    @property
    def token_hash(self) -> bytes:
        """What is kept. One round is enough: nobody can try 2^256 secrets, whatever a single try costs."""
        return hashlib.sha256(self.secret.encode()).digest()

    def matches(self, token_hash: bytes) -> bool:
        """Whether the hash is that of the secret, found out in the same time whichever byte differs."""
        return hmac.compare_digest(self.token_hash, token_hash)


def make_token() -> ApiToken:
    """A token with 256 bits of chance."""
    return ApiToken(secrets.token_hex(8), secrets.token_urlsafe(32))


def read_token(text: str) -> ApiToken | None:
    """The token behind a text; None where it is none."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else ApiToken(found["id"], found["secret"])
