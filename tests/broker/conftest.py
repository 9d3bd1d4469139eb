"""The real broker, under names of the test's own, and a door in front of it that can be shut."""

from __future__ import annotations

import os
import socket
import threading
import uuid
from typing import TYPE_CHECKING, Any

import pika  # type: ignore[import-untyped]
import pytest

from disarray.broker.topology import Names

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS = ("127.0.0.1", 5672)


@pytest.fixture(scope="session")
def broker_url() -> str:
    """The broker of DISARRAY_TEST_BROKER, or the one on this machine."""
    if given := os.environ.get("DISARRAY_TEST_BROKER"):
        return given
    try:
        socket.create_connection(ADDRESS, timeout=2).close()
    except OSError as error:
        pytest.skip(
            f"no RabbitMQ on {ADDRESS[0]}:{ADDRESS[1]} ({error}); set DISARRAY_TEST_BROKER or start one"
        )
    return f"amqp://guest:guest@{ADDRESS[0]}:{ADDRESS[1]}/%2F"


@pytest.fixture
def channel(broker_url: str) -> Iterator[Any]:
    """A channel of the test's own."""
    connection = pika.BlockingConnection(pika.URLParameters(broker_url))
    yield connection.channel()
    connection.close()


@pytest.fixture
def names(channel: Any) -> Iterator[Names]:
    """Exchanges and queues that no other test knows, gone after the test."""
    names = Names(f"test-{uuid.uuid4().hex[:12]}")
    yield names
    for queue in (names.dead_queue, *(names.worker_queue(worker) for worker in ("Worker01", "Worker02"))):
        channel.queue_delete(queue)
    for exchange in (names.exchange, names.dead_exchange):
        channel.exchange_delete(exchange)


class Door:
    """Passes bytes on to the broker until it is told to cut, or to swallow what the broker says."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._is_open = True
        self.swallow_answers = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self._listener.getsockname()[1]}/%2F"

    def shut(self) -> None:
        """Cut every connection and let no new one through."""
        self._is_open = False
        for pair in self._pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue
        self._pairs.clear()

    def reopen(self) -> None:
        """Let connections through again."""
        self._is_open, self.swallow_answers = True, False

    def close(self) -> None:
        self.shut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if not self._is_open:
                near.close()
                continue
            far = socket.create_connection(ADDRESS)
            self._pairs.append((near, far))
            threading.Thread(target=self._pump, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, True), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        try:
            while data := source.recv(65_536):
                if not (is_answer and self.swallow_answers):
                    sink.sendall(data)
        except OSError:
            pass
        finally:
            source.close()
            sink.close()


@pytest.fixture
def door(broker_url: str) -> Iterator[Door]:
    """A way to the broker that the test can cut; the broker itself is left alone."""
    if "DISARRAY_TEST_BROKER" in os.environ:
        pytest.skip("the door leads to the broker of this machine, DISARRAY_TEST_BROKER is another")
    door = Door()
    yield door
    door.close()
