"""The server on a real socket."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from disarray.errors import PortUnavailableError
from disarray.web.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.applications import Starlette

pytestmark = pytest.mark.postgres


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
    here = {"Host": f"127.0.0.1:{server.port}"}
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
