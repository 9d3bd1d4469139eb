"""The server in a thread of its own, alone or beside a worker."""

from __future__ import annotations

import logging
import socket
import threading
from typing import TYPE_CHECKING

import uvicorn

from disarray.errors import PortUnavailableError
from disarray.web.protocol import PatientProtocol

if TYPE_CHECKING:
    from starlette.applications import Starlette

log = logging.getLogger(__name__)

START_SECONDS = 10.0
STOP_SECONDS = 5


class Server:
    """Serves an application between `start` and `stop`. Port 0 takes a free one; `port` then tells which."""

    def __init__(self, app: Starlette, *, host: str, port: int) -> None:
        self._host = host
        self._wanted_port = port
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,  # what matters is said by our own lines
                access_log=False,
                server_header=False,
                # A header that anybody can send must not say where a request came from.
                proxy_headers=False,
                ws="none",
                # It has its own limit, of connections; that of uvicorn refuses everybody once it is reached.
                http=PatientProtocol,
                timeout_keep_alive=15,
                timeout_graceful_shutdown=STOP_SECONDS,
            )
        )
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._socket is not None, "the server was not started"
        port: int = self._socket.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """Where to find it."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    def start(self) -> None:
        """Listen; returns once requests are answered."""
        self._socket = self._listen()
        self._thread = threading.Thread(target=self._run, name="disarray-api", daemon=True)
        self._thread.start()
        waited = threading.Event()
        for _ in range(int(START_SECONDS / 0.01)):
            if self._server.started:
                log.info("the REST server listens on %s", self.url)
                return
            if not self._thread.is_alive():
                break
            waited.wait(0.01)
        raise PortUnavailableError(f"the REST server did not start on {self.url}. Nothing else was affected.")

    def stop(self) -> None:
        """Let requests that are under way end, for a few seconds, and stop."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(STOP_SECONDS + 5)
        if self._socket is not None:
            self._socket.close()

    def _run(self) -> None:
        assert self._socket is not None
        self._server.run(sockets=[self._socket])

    def _listen(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        # asyncio answers without delay on sockets that say they are TCP; on others each answer would cost 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, self._wanted_port))
        except OSError as error:
            listener.close()
            raise PortUnavailableError(
                f"the REST server cannot listen on {self._host} port {self._wanted_port}: {error.strerror or error}. "
                "Nothing else was affected. Choose another with --port."
            ) from error
        return listener
