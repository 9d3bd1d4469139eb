"""A line to a server that can be cut, shut, or go dead while both ends believe in it."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from typing import TYPE_CHECKING

from tests.wire import Cut

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 1 << 16
_LOOK_SECONDS = 0.5


class Line:
    """Passes bytes between the loopback and a server, a TCP port or the path of a socket."""

    def __init__(self, target: int | str) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._guard = threading.Lock()
        self._is_shut = False
        self._flows = threading.Event()
        self._flows.set()
        # Where the next transaction that commits a subject breaks; for lines to PostgreSQL.
        self.armed: Cut | None = None
        threading.Thread(target=self._accept, name="line", daemon=True).start()

    def cut(self) -> int:
        """Break every connection; how many there were."""
        with self._guard:
            pairs = list(self._pairs)
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        return len(pairs)

    def shut(self, seconds: float) -> None:
        """Break every connection, and let no new one through for a while."""
        self._is_shut = True
        try:
            self.cut()
            time.sleep(seconds)
        finally:
            self._is_shut = False

    def go_dead(self, seconds: float) -> None:
        """Pass nothing on for a while, and break what hung then: neither end hears of it before."""
        self._flows.clear()
        try:
            time.sleep(seconds)
            self.cut()
        finally:
            self._flows.set()

    def close(self) -> None:
        """Break all, for good."""
        self._is_shut = True
        self._flows.set()
        # Without the shutdown the thread would stay in its accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, contextlib.closing(self._server()) as server:
            pair = client, server
            with self._guard:
                if self._is_shut:
                    return
                self._pairs.add(pair)
            try:
                self._pass_on(client, server)
            finally:
                with self._guard:
                    self._pairs.discard(pair)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        in_commit = False
        for said, is_client in _messages(client, server):
            self._flows.wait()
            if is_client:
                in_commit |= b"disarray.commit_subject(" in said
                is_over = b"COMMIT\0" in said
                if in_commit and is_over and (armed := self.armed) is not None:
                    self.armed = None
                    if armed is Cut.AFTER_COMMIT:
                        server.sendall(said)
                        # Its answer is the proof that it was done; nobody gets to read it.
                        server.recv(_CHUNK)
                    return
                in_commit &= not is_over
            (server if is_client else client).sendall(said)

    def _server(self) -> socket.socket:
        if isinstance(self._target, int):
            return socket.create_connection(("127.0.0.1", self._target), timeout=10)
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self._target)
        except OSError:
            server.close()
            raise
        return server


def _messages(client: socket.socket, server: socket.socket) -> Iterator[tuple[bytes, bool]]:
    server.settimeout(None)
    while True:
        for ready in select.select([client, server], [], [], _LOOK_SECONDS)[0]:
            said = ready.recv(_CHUNK)
            if not said:
                return
            yield said, ready is client
