"""How an agent fares, for Prometheus and for whoever asks whether it lives: GET /metrics and GET /health.

Plain HTTP of the standard library, because a lab PC carries no web server. Counts alone: no name of a file or subject.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from disarray import __version__
from disarray.errors import PortUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = logging.getLogger(__name__)

# A step is a scan at most, and a scan reads half a gigabyte at most.
SILENT_SECONDS = 900.0
_MOST_CLIENTS = 8
_CLIENT_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class AgentFigures:
    """What an agent did since it began, and what it has before it, after its last step; instants in microseconds."""

    stepped_us: int
    scans: int = 0
    scanned_files: int = 0  # in the last scan
    left_files: int = 0  # changed, and not looked into yet
    unreadable: int = 0  # files and folders, in the last scan
    notifications: int = 0
    published: int = 0
    pending: int = 0
    spool_bytes: int = 0
    bytes_read: int = 0
    # Since when the oldest notification waits; of those from before this life, since it began.
    unannounced_since_us: int | None = None
    refused: int = 0
    transport_failures: int = 0
    state_file_failures: int = 0


def metrics_text(figures: AgentFigures, *, now_us: int) -> str:
    """The figures in the text format of Prometheus."""
    return "".join(_lines(figures, now_us))


def _lines(figures: AgentFigures, now_us: int) -> Iterator[str]:
    waits_us = 0 if figures.unannounced_since_us is None else now_us - figures.unannounced_since_us
    for name, kind, text, value in (
        ("scans_total", "counter", "Scans of all roots.", figures.scans),
        ("files", "gauge", "Files that the last scan saw.", figures.scanned_files),
        ("left_files", "gauge", "Changed files that no scan has looked into yet.", figures.left_files),
        ("unreadable", "gauge", "Files and folders that the last scan could not read.", figures.unreadable),
        ("read_bytes_total", "counter", "Bytes that were hashed.", figures.bytes_read),
        ("notifications_total", "counter", "Notifications that were spooled.", figures.notifications),
        ("published_total", "counter", "Notifications that the other side has taken.", figures.published),
        ("pending_notifications", "gauge", "Notifications in the spool.", figures.pending),
        ("spool_bytes", "gauge", "Size of the spool.", figures.spool_bytes),
        (
            "oldest_unannounced_seconds",
            "gauge",
            "Age of the oldest of them; 0 where none waits.",
            waits_us / 1e6,
        ),
        (
            "stepped_seconds",
            "gauge",
            "Since the agent last ended a step.",
            (now_us - figures.stepped_us) / 1e6,
        ),
    ):
        yield _family(name, kind, text) + f"disarray_agent_{name} {value:g}\n"
    yield _family("errors_total", "counter", "What went wrong, by what it was.")
    for what, count in (
        ("refused", figures.refused),
        ("transport", figures.transport_failures),
        ("state_file", figures.state_file_failures),
    ):
        yield f'disarray_agent_errors_total{{what="{what}"}} {count}\n'
    yield _family("info", "gauge", "The program.") + f'disarray_agent_info{{version="{__version__}"}} 1\n'


def _family(name: str, kind: str, text: str) -> str:
    return f"# HELP disarray_agent_{name} {text}\n# TYPE disarray_agent_{name} {kind}\n"


class MonitoringServer(ThreadingHTTPServer):
    """Answers in threads of its own; so many clients at a time, each for some seconds."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self,
        host: str,
        port: int,
        *,
        figures: Callable[[], AgentFigures],
        clock_us: Callable[[], int],
    ) -> None:
        self.figures = figures
        self.clock_us = clock_us
        self._free = threading.BoundedSemaphore(_MOST_CLIENTS)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise PortUnavailableError(
                f"the agent cannot listen on {host} port {port}: {error.strerror or error}. Nothing was started. "
                "Choose another with --metrics-port, or leave it out."
            ) from error

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self.server_address[1]
        return port

    def start(self) -> None:
        """Answer until `stop`."""
        threading.Thread(target=self.serve_forever, name="disarray-monitoring", daemon=True).start()
        log.info("figures of this agent: http://%s:%d/metrics", self.server_address[0], self.port)

    def stop(self) -> None:
        """Answer no more."""
        self.shutdown()
        self.server_close()

    def process_request(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Hang up on who comes while others take their time."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Answer one client, and let the next one in."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is its own business."""
        log.debug("a client of the figures went away", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    timeout = _CLIENT_SECONDS
    server: MonitoringServer

    def do_GET(self) -> None:
        figures, now_us = self.server.figures(), self.server.clock_us()
        match self.path:
            case "/metrics":
                self._answer(
                    200, "text/plain; version=0.0.4; charset=utf-8", metrics_text(figures, now_us=now_us)
                )
            case "/health":
                silent = (now_us - figures.stepped_us) / 1e6
                answer = {
                    "version": __version__,
                    "silent_seconds": max(0.0, silent),
                    "pending": figures.pending,
                }
                self._answer(200 if silent <= SILENT_SECONDS else 503, "application/json", json.dumps(answer))
            case _:
                self._answer(404, "text/plain; charset=utf-8", "There are /metrics and /health.\n")

    def _answer(self, status: int, media_type: str, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def version_string(self) -> str:
        return "disarray"

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 (its name there)
        """Whoever looks in is not worth a line."""
