"""Tokens: which there are, and their end. They are made on the command line alone, where no answer is stored."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from disarray.control import tokens
from disarray.web.route import API, Call, Nothing, Route, Scope
from disarray.web.schema import PLAIN, About


@dataclass(frozen=True, kw_only=True)
class Token:
    """A token without its secret; last used to five minutes."""

    name: str
    scope: Scope
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None


@dataclass(frozen=True)
class Tokens:
    """Every token that was ever made."""

    tokens: list[Token]


@dataclass(frozen=True)
class TokenEnd:
    """Which token is to end."""

    name: Annotated[str, About(text="The name of a token.", min_length=1, max_length=128, pattern=PLAIN)]


@dataclass(frozen=True)
class TokenEnded:
    """The token can do nothing more; `now` is false where it was revoked before."""

    name: str
    now: bool


def list_tokens(call: Call, _: Nothing) -> Tokens:
    """Every token that was ever made, by name."""
    return Tokens(
        [
            Token(
                name=each.token_name,
                scope=Scope(each.scope),
                created_at=each.created_at,
                created_by=each.created_by,
                expires_at=each.expires_at,
                last_used_at=each.last_used_at,
                revoked_at=each.revoked_at,
                revoked_by=each.revoked_by,
            )
            for each in tokens.list_tokens(call.connection)
        ]
    )


def revoke_token(call: Call, asked: TokenEnd) -> TokenEnded:
    """End a token at once."""
    return TokenEnded(asked.name, tokens.revoke_token(call.connection, asked.name, by=call.who))


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/tokens",
        scope=Scope.ADMIN,
        summary="Every token that was ever made, without its secret",
        asks=Nothing,
        answers=Tokens,
        handle=list_tokens,
    ),
    Route(
        method="POST",
        path=f"{API}/tokens/revoke",
        scope=Scope.ADMIN,
        summary="End a token at once",
        asks=TokenEnd,
        answers=TokenEnded,
        handle=revoke_token,
        refusals=(404,),
    ),
)
