"""Tokens: which there are, and their end. They are made on the command line alone, where no answer is stored."""

from dataclasses import dataclass
from typing import Annotated

from disarray.control import tokens
from disarray.queries.tokens import Tokens, list_tokens
from disarray.web.parameters import PageAsked
from disarray.web.route import API, Call, Nothing, Route, Scope, on_connection
from disarray.web.schema import PLAIN, About


@dataclass(frozen=True)
class Caller:
    """Who calls, and what they may do."""

    token_name: str
    scope: Scope


@dataclass(frozen=True)
class TokenEnd:
    """Which token is to end."""

    token_name: Annotated[
        str, About(text="The name of a token.", min_length=1, max_length=128, pattern=PLAIN)
    ]


@dataclass(frozen=True)
class TokenEnded:
    """The token can do nothing more; `revoked_now` is false where it was revoked before."""

    token_name: str
    revoked_now: bool


def show_caller(call: Call, _: Nothing) -> Caller:
    """Who calls."""
    return Caller(call.who, call.scope)


def revoke_token(call: Call, asked: TokenEnd) -> TokenEnded:
    """End a token at once."""
    return TokenEnded(asked.token_name, tokens.revoke_token(call.connection, asked.token_name, by=call.who))


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/whoami",
        scope=Scope.READ,
        summary="The name and the scope of the token that is sent",
        asks=Nothing,
        answers=Caller,
        handle=show_caller,
    ),
    Route(
        method="GET",
        path=f"{API}/tokens",
        scope=Scope.ADMIN,
        summary="Every token that was ever made, without its secret",
        asks=PageAsked,
        answers=Tokens,
        handle=on_connection(list_tokens),
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
