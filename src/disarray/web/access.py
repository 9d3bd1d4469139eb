"""Who calls, and whether they may: bearer tokens, and in the embedded mode the token of this machine."""

from __future__ import annotations

import hmac
import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control import tokens
from disarray.model.api_token import read_token
from disarray.web.problems import Problem
from disarray.web.route import Scope

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from disarray.model.api_token import ApiToken
    from disarray.web.route import Call

LOCAL_CALLER = "local"
# Whatever came through a proxy is not from this machine, whoever its last hop was. There is no list of what they send.
_FORWARDED = re.compile(
    r"via|forwarded.*|proxy-.*|.*client-ip|.*-forwarded-.*|x-forwarded.*|x-(origin|real|client|cluster|proxy|remote|host|"
    r"scheme|url-scheme|envoy|amzn|amz|azure|appengine|arr|varnish|nginx|traefik|haproxy|lb|ssl|tls).*|front-end-.*|"
    r"cf-.*|fastly-.*|akamai-.*|cdn-.*"
)


@dataclass(frozen=True)
class Access:
    """The rule. `local_token` is for the embedded mode: whoever can read the state folder may do everything."""

    local_token: ApiToken | None = None


@dataclass(frozen=True)
class Caller:
    """Whose request it is."""

    name: str
    scope: Scope


def identify(access: Access, call: Call, *, headers: Headers, peer: str | None) -> Caller:
    """Whose request it is."""
    given = headers.get("authorization")
    if given is None:
        raise _unknown("no token was given")
    if access.local_token is not None and _is_token(access.local_token, given):
        if is_local(headers, peer):
            return Caller(LOCAL_CALLER, Scope.ADMIN)
        raise _unknown("the token of this machine is for those who call from it, and through no proxy")
    return _bearer(call, given)


def _is_token(token: ApiToken, given: str) -> bool:
    kind, _, text = given.partition(" ")
    return kind.lower() == "bearer" and hmac.compare_digest(text.strip().encode(), token.text.encode())


def require(caller: Caller, scope: Scope) -> None:
    """Refuse a caller whose scope is too small."""
    if not caller.scope.includes(scope):
        raise Problem(
            403,
            "not allowed",
            f"{caller.name} has the scope {caller.scope}, and this needs {scope}. Nothing was done. "
            f"Make a token that may: disarray token create NAME --scope {scope}",
            {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'},
        )


def _bearer(call: Call, given: str) -> Caller:
    kind, _, text = given.partition(" ")
    token = read_token(text.strip())
    if kind.lower() != "bearer" or token is None:
        raise _unknown("what was given is no token of disarray")
    known = tokens.find_token(call.connection, token.token_id)
    if known is None or not token.matches(known.token_hash):
        raise _unknown("the token is not known, has expired or was revoked")
    return Caller(known.token_name, Scope(known.scope))


def _unknown(why: str) -> Problem:
    return Problem(
        401,
        "who are you?",
        f"{why}. Nothing was done. Make one with 'disarray token create NAME --scope read' and send it as "
        "'Authorization: Bearer …'; beside an embedded database 'disarray token local' prints that of this machine.",
        {"WWW-Authenticate": 'Bearer realm="disarray"'},
    )


def is_local(headers: Headers, peer: str | None) -> bool:
    """Whether a request was made on this machine, by a program or by a page of our own.

    The peer alone does not tell: a page from anywhere can make a browser here send requests. With its own name
    rebound to 127.0.0.1 it sends that name as Host; from its own origin it sends that as Origin.
    """
    if any(_FORWARDED.fullmatch(name.lower()) for name in headers):
        return False
    host = headers.get("host", "")
    if not is_loopback(peer or "") or not is_loopback(_host_name(host)):
        return False
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return False
    return headers.get("sec-fetch-site", "none") in ("none", "same-origin")


def _host_name(host: str) -> str:
    name, colon, port = host.rpartition(":")
    bare = name if colon and port.isdigit() else host
    return bare.removeprefix("[").removesuffix("]")


def is_loopback(host: str) -> bool:
    """Whether a host stands for this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
