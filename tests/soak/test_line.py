"""A line does to both ends what it says, and afterwards it is a line again."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest

from tests.soak.line import Line

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def line() -> Iterator[Line]:
    """A line to a server that sends back what it is told."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_answer_all, args=(server,), daemon=True).start()
        line = Line(server.getsockname()[1])
        yield line
        line.close()


def _answer_all(server: socket.socket) -> None:
    def answer(client: socket.socket) -> None:
        with client:
            while said := client.recv(100):
                client.sendall(said)

    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=answer, args=(client,), daemon=True).start()


def call(line: Line) -> socket.socket:
    return socket.create_connection(("127.0.0.1", line.port), timeout=5)


def echo(client: socket.socket, text: bytes = b"hello") -> bytes:
    client.sendall(text)
    return client.recv(100)


def is_over(client: socket.socket) -> bool:
    try:
        return client.recv(100) == b""
    except ConnectionResetError:
        return True


def test_it_passes_on_what_is_said(line: Line) -> None:
    with call(line) as first, call(line) as second:
        assert echo(first) == echo(second) == b"hello"


def test_a_cut_ends_every_connection_and_lets_new_ones_through(line: Line) -> None:
    with call(line) as first:
        echo(first)
        assert line.cut() == 1
        assert is_over(first)
    with call(line) as second:
        assert echo(second) == b"hello"


def test_a_line_that_is_shut_takes_nobody_until_it_is_open_again(line: Line) -> None:
    shut = threading.Thread(target=line.shut, args=(0.5,))
    shut.start()
    with call(line) as refused:
        assert is_over(refused)
    shut.join()
    with call(line) as client:
        assert echo(client) == b"hello"


def test_a_dead_line_is_silent_and_then_breaks(line: Line) -> None:
    with call(line) as client:
        echo(client)
        dead = threading.Thread(target=line.go_dead, args=(0.6,))
        dead.start()
        client.sendall(b"is anybody there")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(100)
        dead.join()
        client.settimeout(5)
        assert is_over(client)
