"""The server on a real socket."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx
import pytest

from disarray.errors import PortUnavailableError
from disarray.web import protocol
from disarray.web.http_server import Server
from tests.web.conftest import LOCAL_TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.applications import Starlette

pytestmark = pytest.mark.postgres

WHOLE = b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def server(embedded_app: Starlette) -> Iterator[Server]:
    running = Server(embedded_app, host="127.0.0.1", port=0)
    running.start()
    yield running
    running.stop()


def test_it_answers_between_start_and_stop_and_leaves_the_port(embedded_app: Starlette) -> None:
    server = Server(embedded_app, host="127.0.0.1", port=0)
    server.start()
    url, port = server.url, server.port
    assert httpx.get(f"{url}/api/v1/health").status_code == 200
    server.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/api/v1/health")
    again = Server(embedded_app, host="127.0.0.1", port=port)
    again.start()
    again.stop()


def test_a_port_that_is_taken_is_told(server: Server, embedded_app: Starlette) -> None:
    with pytest.raises(PortUnavailableError, match=f"port {server.port}: Address already in use"):
        Server(embedded_app, host="127.0.0.1", port=server.port).start()


def test_what_a_proxy_header_says_is_not_believed(server: Server) -> None:
    here = {"Host": f"127.0.0.1:{server.port}", "Authorization": f"Bearer {LOCAL_TOKEN.text}"}
    assert httpx.get(f"{server.url}/api/v1/status", headers=here).status_code == 200
    for forged in ({"X-Forwarded-For": "127.0.0.1"}, {"Host": "evil.example"}):
        assert httpx.get(f"{server.url}/api/v1/status", headers=here | forged).status_code == 401


def test_answers_come_without_nagles_delay(server: Server) -> None:
    with httpx.Client() as client:
        durations = []
        for _ in range(20):
            began = time.perf_counter()
            client.get(f"{server.url}/api/v1/health")
            durations.append(time.perf_counter() - began)
    # 40 ms each where a small answer waits for an acknowledgement; the fastest are spared a busy machine.
    assert sorted(durations)[5] < 0.03


def test_garbage_on_the_socket_is_refused_and_harms_nobody(server: Server) -> None:
    for garbage in (
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000,
        b"\0" * 1000,
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
            client.sendall(garbage + b"\r\n\r\n")
            assert client.recv(20).startswith(b"HTTP/1.1 400")
    assert httpx.get(f"{server.url}/api/v1/health").status_code == 200


HALF_REQUESTS = [
    b"",
    b"GET /api/v1/status HTTP/1.1\r\nHost: 127",
    b"POST /api/v1/tokens/revoke HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{",
]


def half_open(server: Server, count: int) -> list[socket.socket]:
    """Clients who connect, send a part of a request or nothing, and wait."""
    opened = []
    for number in range(count):
        client = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        client.sendall(HALF_REQUESTS[number % len(HALF_REQUESTS)])
        opened.append(client)
    return opened


def test_hundreds_of_half_open_connections_keep_nobody_out(server: Server) -> None:
    opened = half_open(server, protocol.MOST_CONNECTIONS + 100)
    try:
        headers = {"Authorization": f"Bearer {LOCAL_TOKEN.text}"}
        for path in ("health", "ready", "status"):
            response = httpx.get(f"{server.url}/api/v1/{path}", headers=headers, timeout=60)
            assert response.status_code == 200, path
    finally:
        for client in opened:
            client.close()


def test_the_oldest_of_too_many_connections_is_hung_up_on_for_each_new_one(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "REQUEST_SECONDS", 600.0)
    monkeypatch.setattr(protocol, "MOST_CONNECTIONS", 20)
    opened = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(60)]
    try:
        # Each waits until the server has hung up; the newest stay.
        for client in opened[:40]:
            with suppress(ConnectionResetError):
                assert client.recv(1) == b""
        opened[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            opened[-1].recv(1)
    finally:
        for client in opened:
            client.close()


@pytest.mark.parametrize(
    "begun", [b"", b"GET / HTTP/1.1\r\n", WHOLE + b"GET / HTT"], ids=["silent", "half", "second"]
)
def test_a_client_that_does_not_ask_is_hung_up_on(
    server: Server, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "REQUEST_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(begun)
        received = b""
        with suppress(ConnectionResetError):
            while piece := client.recv(65_536):
                received += piece
    assert received.startswith(b"HTTP/1.1 200") if begun.startswith(WHOLE) else received == b""


def test_a_client_that_does_not_take_its_answers_is_hung_up_on(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "ANSWER_SECONDS", 0.2)
    connections = server._server.server_state.connections
    asked = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1_000
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.settimeout(60)
        client.connect(("127.0.0.1", server.port))
        # Far more than what lies in the buffers of both sides.
        with suppress(ConnectionError):
            client.sendall(asked)
        deadline = time.monotonic() + 60
        while not connections and time.monotonic() < deadline:
            time.sleep(0.01)
        assert connections
        while connections and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not connections
