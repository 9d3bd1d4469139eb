"""Tokens of the REST server, without their secrets."""

from dataclasses import dataclass
from datetime import datetime

from disarray.control import tokens
from disarray.control.connections import Connection
from disarray.model.api_token import Scope
from disarray.model.documents import document_of
from disarray.queries.pages import Order

ORDER = Order("tokens", {"token_name": str})


@dataclass(frozen=True, kw_only=True)
class Token:
    """A token without its secret; last used to five minutes."""

    token_name: str
    scope: Scope
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None


@dataclass(frozen=True)
class Tokens:
    """Every token that was ever made; `next` is the cursor of the next page, null on the last."""

    tokens: list[Token]
    next: str | None


def list_tokens(connection: Connection, *, limit: int = 100, after: str | None = None) -> Tokens:
    """Every token that was ever made, by name."""
    found, following = ORDER.page_of(tokens.list_tokens(connection), after=after, limit=limit)
    return Tokens([document_of(Token, each, scope=Scope(each.scope)) for each in found], following)
