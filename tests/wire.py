"""A wire to PostgreSQL that can be cut at the worst moment."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

if TYPE_CHECKING:
    from collections.abc import Iterator


class Cut(Enum):
    """When the wire breaks."""

    BEFORE_COMMIT = "the COMMIT never arrives"
    AFTER_COMMIT = "the COMMIT arrives, its answer does not"


class Wire:
    """A proxy on the loopback; once armed it breaks at the next COMMIT of a transaction that commits a subject."""

    def __init__(self, dsn: str) -> None:
        parts = conninfo_to_dict(dsn)
        host, port = str(parts.get("host") or "localhost"), int(parts.get("port") or 5432)
        is_path = host.startswith("/")
        self._target = str(Path(host) / f".s.PGSQL.{port}") if is_path else (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        own = self._listener.getsockname()[1]
        self.dsn = make_conninfo(dsn, host="127.0.0.1", hostaddr="", port=str(own), sslmode="disable")
        self.armed: Cut | None = None
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, self._server() as server:
            in_commit = False
            for said, is_client in _messages(client, server):
                in_commit |= is_client and b"disarray.commit_subject(" in said
                if is_client and in_commit and self.armed and b"COMMIT\0" in said:
                    if self.armed is Cut.AFTER_COMMIT:
                        server.sendall(said)
                        # Its answer is the proof that it was done; nobody gets to read it.
                        server.recv(1 << 16)
                    self.armed = None
                    self.cuts += 1
                    return
                (server if is_client else client).sendall(said)

    def _server(self) -> socket.socket:
        if isinstance(self._target, tuple):
            return socket.create_connection(self._target)
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._target)
        return server


def _messages(client: socket.socket, server: socket.socket) -> Iterator[tuple[bytes, bool]]:
    give_up_at = time.monotonic() + 120
    while time.monotonic() < give_up_at:
        for ready in select.select([client, server], [], [], 1)[0]:
            said = ready.recv(1 << 16)
            if not said:
                return
            yield said, ready is client
