"""Refusals that a program can tell apart, numbers of requests, and formats."""

from __future__ import annotations

import gzip
import json
import logging
import re
from typing import TYPE_CHECKING, Any

import pytest

from disarray.web.answers import LEAST_COMPRESSED
from disarray.web.route import Scope
from tests.web.conftest import Client, add_token

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from disarray.control.connections import Pool

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def token(shared_pool: Pool) -> str:
    return add_token(shared_pool, "who asks wrongly", Scope.ADMIN)


@pytest.fixture
def client(empty_app: Starlette, token: str) -> Client:
    return Client(empty_app, token=token)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"source_uris": ["a", 7], "reason": "x"}, "#/source_uris/1"),
        ({"source_uris": ["a"]}, "#/reason"),
        ({"source_uris": [], "reason": "x"}, "#/source_uris"),
        ({"source_uris": ["a"], "reason": "x", "a/b~c": 1}, "#/a~1b~0c"),
        ([], "#"),
    ],
    ids=str,
)
def test_a_refusal_points_to_the_value_of_the_body(client: Client, body: Any, pointer: str) -> None:
    refused = client.http.post("/api/v1/dead-letters/retry", json=body).json()
    assert refused["type"] == "urn:disarray:problem:not-as-documented"
    [error] = refused["errors"]
    assert (error["pointer"], error["parameter"]) == (pointer, None)
    assert error["detail"] in refused["detail"]


def test_a_refusal_names_the_parameter(client: Client) -> None:
    [error] = client.get("files", limit="0", expect=400)["errors"]
    assert error == {"pointer": None, "parameter": "limit", "detail": "expected 1 to 1000"}


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("values?subject_key=X&metric=m", 404, "unknown-name"),
        ("files?after=x", 422, "invalid-request"),
        ("nonsense", 404, "no-such-path"),
        ("files?limit=0", 400, "not-as-documented"),
    ],
)
def test_the_type_tells_refusals_apart(client: Client, path: str, status: int, kind: str) -> None:
    response = client.http.get(f"/api/v1/{path}")
    told = response.json()
    assert (response.status_code, told["type"]) == (status, f"urn:disarray:problem:{kind}")
    assert told["request_id"] == response.headers["x-request-id"]


@pytest.mark.parametrize("path", ["/api/v1/health", "/api/v1/status", "/api/v1/nonsense", "/"])
def test_the_number_that_is_sent_is_in_the_answer(client: Client, path: str) -> None:
    given = client.http.get(path, headers={"X-Request-Id": "edge-7:2026.10"})
    assert given.headers["x-request-id"] == "edge-7:2026.10"


@pytest.mark.parametrize("number", ["", "a b", "x" * 65, "a\tb", "<script>", "é".encode()])
def test_a_number_that_is_not_sane_is_replaced(client: Client, number: str | bytes) -> None:
    answers = [client.http.get("/api/v1/health", headers={"X-Request-Id": number}) for _ in range(2)]
    first, second = (answer.headers["x-request-id"] for answer in answers)
    assert re.fullmatch("[0-9a-f]{32}", first)
    assert first != second


def test_the_log_has_the_number_of_what_was_changed_and_a_path_cannot_forge_a_line(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "disarray.web")
    client.http.post("/api/v1/files/reingest", json={}, headers={"X-Request-Id": "n1"})
    client.http.post("/api/v1/x%0A2026-10-02 all is well", json={}, headers={"X-Request-Id": "n2"})
    first, second = caplog.messages
    assert first.startswith("POST '/api/v1/files/reingest' answered 400 in ")
    assert first.endswith("(request n1)")
    assert "\n" not in second
    assert second.endswith("(request n2)")


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json", 200),
        ("text/html, application/*;q=0.5", 200),
        ("*/*", 200),
        ("", 200),
        ("text/csv", 406),
        ("application/xml, text/*", 406),
        ("application/json;q=0, text/csv", 406),
    ],
)
def test_a_format_that_is_not_offered_is_refused(client: Client, accept: str, status: int) -> None:
    response = client.http.get("/api/v1/files", headers={"Accept": accept})
    assert response.status_code == status
    if status == 406:
        assert response.json()["type"] == "urn:disarray:problem:format-not-offered"


def test_nothing_is_done_where_the_format_of_the_answer_is_not_offered(client: Client, token: str) -> None:
    response = client.http.post(
        "/api/v1/tokens/revoke", json={"token_name": "who asks wrongly"}, headers={"Accept": "text/csv"}
    )
    assert response.status_code == 406
    assert client.get("whoami")["token_name"] == "who asks wrongly"


def test_what_prometheus_accepts_is_offered(client: Client) -> None:
    accept = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    assert client.http.get("/metrics", headers={"Accept": accept}).status_code == 200


@pytest.mark.parametrize(
    ("encoding", "is_compressed"),
    [
        ("gzip", True),
        ("br, gzip;q=0.5", True),
        ("*", True),
        ("gzip;q=0", False),
        ("identity", False),
        ("", False),
    ],
)
def test_a_long_answer_is_compressed_for_who_takes_it(
    client: Client, encoding: str, is_compressed: bool
) -> None:
    with client.http.stream("GET", "/api/v1/openapi.json", headers={"Accept-Encoding": encoding}) as response:
        content = b"".join(response.iter_raw())
        assert response.headers.get("content-encoding") == ("gzip" if is_compressed else None)
        assert response.headers["vary"] == "Accept-Encoding"
    document = json.loads(gzip.decompress(content) if is_compressed else content)
    assert document["openapi"] == "3.1.0"


def test_a_short_answer_is_not_compressed(client: Client) -> None:
    response = client.http.get("/api/v1/health", headers={"Accept-Encoding": "gzip"})
    assert len(response.content) < LEAST_COMPRESSED
    assert "content-encoding" not in response.headers
