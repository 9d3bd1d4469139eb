"""Requests that are malformed, too large or too slow; answers that tell nothing of the inside."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from disarray.store.lake import Lake
from disarray.web import app as app_module
from disarray.web.app import Limits, create_app
from disarray.web.route import Call, Nothing, Scope, Sources
from disarray.web.routes import ROUTES
from tests.web.conftest import Client, add_token

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.applications import Starlette

    from disarray.control.connections import Pool

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def token(shared_pool: Pool) -> str:
    return add_token(shared_pool, "reader and more", Scope.ADMIN)


@pytest.fixture
def client(empty_app: Starlette, token: str) -> Client:
    return Client(empty_app, token=token)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"limit": "0"}, "limit: expected 1 to 1000"),
        ({"limit": "1e3"}, "limit: expected a whole number"),
        ({"limit": "٣"}, "limit: expected a whole number"),
        ({"status": "lost"}, "status: expected one of pending, processed"),
        ({"subject_key": ""}, "subject_key: expected 1 to 256 characters"),
        ({"subject_key": "a\x00b"}, "subject_key: expected a text like"),
        ({"nonsense": "1"}, "nonsense: expected no such name; there are limit, after, status, subject_key"),
    ],
    ids=str,
)
def test_a_parameter_that_is_not_as_documented_is_refused(
    client: Client, parameters: dict[str, str], expected: str
) -> None:
    response = client.http.get("/api/v1/files", params=parameters)
    assert (response.status_code, expected in response.json()["detail"]) == (400, True)


def test_a_parameter_that_is_given_twice_is_refused(client: Client) -> None:
    response = client.http.get("/api/v1/files?limit=1&limit=2")
    assert (response.status_code, "limit is given twice" in response.text) == (400, True)


@pytest.mark.parametrize("at", ["2026-10-01T00:00:00", "yesterday", "2026-13-01T00:00:00Z"])
def test_an_instant_without_zone_is_refused(client: Client, at: str) -> None:
    client.get("values", expect=400, subject_key="TOOL07", metric="energy", at=at)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"source_uri": "a"}',
        b'{"source_uri": "a", "reason": null}',
        b'{"source_uri": "a", "reason": "b", "by": "somebody else"}',
        b'{"source_uri": "a", "source_uri": "b", "reason": "c"}',
        b'{"source_uri": "\\ud800", "reason": "c"}',
        b'{"source_uri": "a\\u0000", "reason": "c"}',
        b'{"source_uri": NaN, "reason": "c"}',
        b'{"source_uri": ' + b"9" * 5000 + b', "reason": "c"}',
        b'{"source_uri": ' + b"[" * 30_000 + b"]" * 30_000 + b', "reason": "c"}',
    ],
    ids=lambda body: body[:20].decode("latin-1"),
)
def test_a_body_that_is_not_as_documented_is_refused(client: Client, body: bytes) -> None:
    response = client.http.post(
        "/api/v1/files/reingest", content=body, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 400, response.text
    assert set(response.json()) == {"type", "title", "status", "detail", "request_id", "errors"}


def test_a_body_beyond_the_limit_is_refused_also_where_its_length_is_not_told(client: Client) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 1000

    for content in (b"x" * 100_000, pieces()):
        response = client.http.post(
            "/api/v1/files/reingest", content=content, headers={"Content-Type": "application/json"}
        )
        assert response.status_code == 413


def test_unknown_paths_and_methods_are_told_as_problems(client: Client) -> None:
    unknown = client.http.get("/api/v1/nonsense")
    assert (unknown.status_code, unknown.json()["title"]) == (404, "no such path")
    wrong = client.http.delete("/api/v1/files")
    # Starlette keeps them in a set: any order.
    assert (wrong.status_code, set(wrong.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})


def test_names_are_data_and_never_markup(client: Client) -> None:
    name = "<script>alert(1)</script>'; drop table disarray.file_info; --"
    response = client.http.get("/api/v1/values", params={"subject_key": name, "metric": "m"})
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert name in response.json()["detail"]


def with_handler(
    monkeypatch: pytest.MonkeyPatch, pool: Pool, folder: Path, handle: object, limits: Limits
) -> Starlette:
    """The application with another handler behind /status."""
    routes = tuple(
        replace(route, handle=handle) if route.path == "/api/v1/status" else route  # type: ignore[arg-type]
        for route in ROUTES
    )
    monkeypatch.setattr(app_module, "ROUTES", routes)
    return create_app(Sources(pool, Lake(folder), {}), limits=limits)


def test_an_error_that_nobody_meant_shows_nothing_of_itself(
    monkeypatch: pytest.MonkeyPatch, shared_pool: Pool, tmp_path: Path, token: str
) -> None:
    def fail(call: Call, _: Nothing) -> None:
        raise KeyError("s3cret")

    app = with_handler(monkeypatch, shared_pool, tmp_path, fail, Limits())
    response = Client(app, token=token).http.get("/api/v1/status")
    assert response.status_code == 500
    assert "s3cret" not in response.text
    assert "Traceback" not in response.text


def test_a_request_that_takes_too_long_is_answered_and_health_answers_meanwhile(
    monkeypatch: pytest.MonkeyPatch, shared_pool: Pool, tmp_path: Path, token: str
) -> None:
    def sleep(call: Call, _: Nothing) -> None:
        time.sleep(0.5)

    app = with_handler(monkeypatch, shared_pool, tmp_path, sleep, Limits(threads=1, seconds=0.1))
    client = Client(app, token=token)
    client.get("status", expect=503)
    # The only thread is still at it: what needs one is told so, and does not pile up.
    client.get("ready", expect=503)
    client.get("health")


def test_one_token_never_has_all_threads(
    monkeypatch: pytest.MonkeyPatch, shared_pool: Pool, tmp_path: Path, token: str
) -> None:
    other = add_token(shared_pool, "somebody else", Scope.READ)
    is_in, may_end = threading.Event(), threading.Event()

    def wait(call: Call, _: Nothing) -> Nothing:
        if call.who == "reader and more":
            is_in.set()
            may_end.wait(60)
        return Nothing()

    limits = Limits(threads=2, threads_of_caller=1, seconds=20)
    app = with_handler(monkeypatch, shared_pool, tmp_path, wait, limits)
    with (
        TestClient(app, base_url="http://127.0.0.1:8321", client=("127.0.0.1", 50_000)) as http,
        ThreadPoolExecutor(3) as callers,
    ):

        def ask(secret: str) -> int:
            return int(http.get("/api/v1/status", headers={"Authorization": f"Bearer {secret}"}).status_code)

        greedy = [callers.submit(ask, token) for _ in range(3)]
        assert is_in.wait(60)
        assert ask(other) == 200
        may_end.set()
        assert [each.result() for each in greedy] == [200, 200, 200]


def test_a_database_that_is_away_is_told_and_nothing_hangs(tmp_path: Path, token: str) -> None:
    from disarray.control.connections import open_pool

    with open_pool("postgresql://127.0.0.1:1/nowhere", max_size=1) as pool:
        client = Client(create_app(Sources(pool, Lake(tmp_path), {}), limits=Limits(seconds=3)), token=token)
        client.get("health")
        assert client.get("ready", expect=503)["status"] == 503
