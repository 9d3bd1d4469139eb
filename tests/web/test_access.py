"""Deny by default: who may call what, and from where."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import tokens
from disarray.web.route import AnyRoute, Scope
from disarray.web.routes import ROUTES
from tests.web.conftest import LOCAL_TOKEN, Client, add_token

if TYPE_CHECKING:
    import httpx
    from starlette.applications import Starlette

    from disarray.control.connections import Pool

pytestmark = pytest.mark.postgres

OPEN = {"/", "/api/v1/health", "/api/v1/ready", "/api/v1/openapi.json"}


def name_of(route: AnyRoute) -> str:
    return f"{route.method} {route.path}"


def send(client: Client, route: AnyRoute, **headers: str) -> httpx.Response:
    response: httpx.Response = client.http.request(
        route.method, route.path, json={} if route.method == "POST" else None, headers=headers
    )
    return response


def test_open_to_everybody_is_only_what_tells_nothing() -> None:
    assert {route.path for route in ROUTES if route.scope is None} == OPEN


@pytest.mark.parametrize("route", ROUTES, ids=name_of)
def test_every_other_route_refuses_a_caller_without_token_or_with_a_wrong_one(
    route: AnyRoute, empty_app: Starlette
) -> None:
    wrong = "dsr_0123456789abcdef_" + "x" * 43
    for authorization in (None, f"Bearer {wrong}", "Bearer nonsense", "Basic YTpi", f"bearer  {wrong}\t"):
        headers = {} if authorization is None else {"Authorization": authorization}
        response = send(Client(empty_app, token=None), route, **headers)
        if route.scope is None:
            assert response.status_code == 200
        else:
            assert response.status_code == 401
            assert response.headers["www-authenticate"].startswith("Bearer")
            assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("route", [route for route in ROUTES if route.scope is not None], ids=name_of)
def test_every_route_refuses_a_scope_that_is_too_small_and_takes_the_rest(
    route: AnyRoute, empty_app: Starlette, shared_pool: Pool
) -> None:
    assert route.scope is not None
    for scope in Scope:
        client = Client(empty_app, token=add_token(shared_pool, uuid.uuid4().hex, scope))
        status = send(client, route).status_code
        assert (status == 403) == (not scope.includes(route.scope)), scope
        assert status != 401


def test_what_changes_something_needs_more_than_reading() -> None:
    assert {route.scope for route in ROUTES if route.method == "POST"} == {
        Scope.PRODUCE,
        Scope.OPERATE,
        Scope.ADMIN,
    }


def test_a_caller_can_ask_who_they_are(empty_app: Starlette, shared_pool: Pool) -> None:
    client = Client(empty_app, token=add_token(shared_pool, "grace hopper", Scope.OPERATE))
    assert client.get("whoami") == {"token_name": "grace hopper", "scope": "operate"}


def test_a_token_ends_when_it_is_revoked_or_has_expired(empty_app: Starlette, shared_pool: Pool) -> None:
    brief = Client(empty_app, token=add_token(shared_pool, "brief", Scope.READ, valid_for=timedelta(hours=1)))
    lasting = Client(empty_app, token=add_token(shared_pool, "lasting", Scope.READ))
    brief.get("status")
    lasting.get("status")
    with shared_pool.connection() as connection:
        connection.execute("update disarray.test_clock set ahead = '2 hours'")
        try:
            brief.get("status", expect=401)
            lasting.get("status")
            assert tokens.revoke_token(connection, "lasting", by="grace")
            lasting.get("status", expect=401)
        finally:
            connection.execute("update disarray.test_clock set ahead = '0'")


def test_the_database_keeps_no_secret(shared_pool: Pool) -> None:
    text = add_token(shared_pool, "kept", Scope.READ)
    secret = text.rpartition("_")[2]
    with shared_pool.connection() as connection:
        rows = connection.execute("select api_token::text from disarray.api_token").fetchall()
    assert rows
    assert not any(secret in row for (row,) in rows)


def test_a_name_is_never_given_twice(shared_pool: Pool) -> None:
    from disarray.errors import InvalidRequestError

    add_token(shared_pool, "once", Scope.READ)
    with shared_pool.connection() as connection:
        tokens.revoke_token(connection, "once", by="grace")
    with pytest.raises(InvalidRequestError, match="there is, or was, a token named 'once'"):
        add_token(shared_pool, "once", Scope.READ)


def test_the_embedded_mode_takes_the_token_of_this_machine_on_it(embedded_app: Starlette) -> None:
    for peer in ("127.0.0.1", "::1"):
        client = Client(embedded_app, token=LOCAL_TOKEN.text, peer=peer)
        assert client.get("tokens")["tokens"] is not None
        Client(embedded_app, token=None, peer=peer).get("tokens", expect=401)


@pytest.mark.parametrize(
    ("peer", "headers"),
    [
        ("192.0.2.7", {}),
        ("127.0.0.1", {"Host": "evil.example:8321"}),
        ("127.0.0.1", {"Host": "127.0.0.1.evil.example"}),
        ("127.0.0.1", {"Host": ""}),
        ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}),
        ("127.0.0.1", {"Forwarded": "for=127.0.0.1"}),
        ("127.0.0.1", {"X-Forwarded-Proto": "https"}),
        ("127.0.0.1", {"X-Forwarded-Server": "proxy"}),
        ("127.0.0.1", {"Via": "1.1 proxy"}),
        ("127.0.0.1", {"X-Real-IP": "127.0.0.1"}),
        ("127.0.0.1", {"X-Client-IP": "127.0.0.1"}),
        ("127.0.0.1", {"True-Client-IP": "127.0.0.1"}),
        ("127.0.0.1", {"CF-Connecting-IP": "127.0.0.1"}),
        ("127.0.0.1", {"X-Envoy-External-Address": "127.0.0.1"}),
        ("127.0.0.1", {"X-Original-URL": "/"}),
        ("127.0.0.1", {"X-Originating-IP": "127.0.0.1"}),
        ("127.0.0.1", {"X-Nginx-Proxy": "true"}),
        ("127.0.0.1", {"Front-End-Https": "on"}),
        ("127.0.0.1", {"Origin": "https://evil.example"}),
        ("127.0.0.1", {"Origin": "null"}),
        ("127.0.0.1", {"Sec-Fetch-Site": "cross-site"}),
        ("127.0.0.1", {"Authorization": "Bearer nonsense"}),
    ],
    ids=str,
)
def test_the_embedded_mode_refuses_whoever_is_not_surely_on_this_machine(
    embedded_app: Starlette, peer: str, headers: dict[str, str]
) -> None:
    client = Client(embedded_app, token=LOCAL_TOKEN.text, peer=peer)
    assert client.http.get("/api/v1/status", headers=headers).status_code == 401


def test_a_page_of_another_site_cannot_post_through_a_browser_here(embedded_app: Starlette) -> None:
    # What a form of a foreign page can send without asking first.
    for media_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        response = Client(embedded_app, token=LOCAL_TOKEN.text).http.post(
            "/api/v1/tokens/revoke", content=b'{"token_name": "x"}', headers={"Content-Type": media_type}
        )
        assert response.status_code == 415
