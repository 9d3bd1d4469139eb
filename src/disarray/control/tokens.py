"""Who may call the REST server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from disarray.control.calls import fetch_records, fetch_value, find_record, find_value

if TYPE_CHECKING:
    from datetime import timedelta

    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A token that holds now; its hash is for comparing."""

    token_name: str
    scope: str
    token_hash: bytes


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token as a person sees it in a listing; last used to five minutes."""

    token_name: str
    scope: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None


def create_token(
    connection: Connection,
    *,
    token_id: str,
    token_name: str,
    token_hash: bytes,
    scope: str,
    by: str,
    valid_for: timedelta | None = None,
) -> datetime | None:
    """Let the holder of a secret call the REST server; until when."""
    return find_value(
        connection,
        datetime,
        "select disarray.create_token(%s, %s, %s, %s, %s, %s)",
        (token_id, token_name, token_hash, scope, by, valid_for),
    )


def find_token(connection: Connection, token_id: str) -> KnownToken | None:
    """The token of this id, None where it is unknown, expired or revoked."""
    return find_record(connection, KnownToken, "select * from disarray.find_token(%s)", (token_id,))


def list_tokens(connection: Connection) -> list[TokenRecord]:
    """Every token that was ever made, by name."""
    return fetch_records(connection, TokenRecord, "select * from disarray.list_tokens()")


def revoke_token(connection: Connection, token_name: str, *, by: str) -> bool:
    """End a token at once; False where it was revoked before."""
    return fetch_value(connection, bool, "select disarray.revoke_token(%s, %s)", (token_name, by))
