"""Who hooks tell, in tests: a real HTTP server that behaves or does not, and a real mail server."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from aiosmtpd.controller import Controller

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator
    from email.message import Message


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    path: str
    headers: Message
    body: bytes

    @property
    def key(self) -> str:
        return str(self.headers["Idempotency-Key"])

    @property
    def document(self) -> dict[str, Any]:
        found = json.loads(self.body)
        assert isinstance(found, dict)
        return found


class Receiver(ThreadingHTTPServer):
    """Keeps what it is sent; `behave` may answer in another way than with 200."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[Received] = []
        self.behave: Callable[[BaseHTTPRequestHandler], None] = answer(200, b'{"ok": true}')

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/told"

    @property
    def keys(self) -> list[str]:
        """Once each: what a receiver that knows keys makes of it."""
        return list(dict.fromkeys(each.key for each in self.received))

    def handle_error(self, *_: object) -> None:
        """A sender that hangs up is no error here."""


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append(Received(self.path, self.headers, body))
        self.server.behave(self)

    def log_message(self, *_: object) -> None:
        pass


def answer(status: int, body: bytes = b"", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """A plain answer."""

    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return behave


def hang(released: threading.Event) -> Callable[[BaseHTTPRequestHandler], None]:
    """Say nothing until the test is over."""
    return lambda _: _ignore(released.wait(60))


def drip(handler: BaseHTTPRequestHandler) -> None:
    """A byte of a header now and then, for ever."""
    with suppress(OSError):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        for _ in range(3000):
            handler.wfile.write(b"a")
            handler.wfile.flush()
            time.sleep(0.02)


def flood(sent: list[int]) -> Callable[[BaseHTTPRequestHandler], None]:
    """Ten gigabytes, for whoever reads them; `sent` counts the bytes that went out."""

    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(10 << 30))
        handler.end_headers()
        chunk = b"x" * 65_536
        with suppress(OSError):
            for _ in range((10 << 30) // len(chunk)):
                handler.wfile.write(chunk)
                sent[0] += len(chunk)

    return behave


def _ignore(_: object) -> None:
    pass


@contextmanager
def http_receiver(context: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """An HTTP server on a free port of this machine."""
    with Receiver() as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@dataclass
class MailReceiver:
    """Keeps mails; refuses the recipients named, or everything."""

    mails: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    port: int = 0

    async def handle_RCPT(self, _: Any, __: Any, envelope: Any, address: str, ___: Any) -> str:  # noqa: N802 - aiosmtpd calls it so
        if address in self.refused:
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _: Any, __: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd calls it so
        self.mails.append((tuple(envelope.rcpt_tos), envelope.content.decode()))
        return "250 taken"


@contextmanager
def crude_mail_server(
    *, hang_up_at: bytes = b"\0", to_quit: bytes = b"221 bye"
) -> Iterator[tuple[int, list[bytes]]]:
    """A mail server that is no better than it must be; its port, and the mails that it took."""
    taken: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb", buffering=0) as stream:
                stream.write(b"220 here\r\n")
                for line in stream:
                    if hang_up_at in line:
                        stream.write(b"421 4.3.2 shutting down\r\n")
                        return
                    if line.upper().startswith(b"DATA"):
                        stream.write(b"354 go on\r\n")
                        taken.append(b"".join(iter(stream.readline, b".\r\n")))
                    if line.upper().startswith(b"QUIT"):
                        stream.write(to_quit + b"\r\n")
                        return
                    stream.write(b"250 ok\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1], taken
    finally:
        listener.close()
        thread.join()


@contextmanager
def mail_receiver(**options: Any) -> Iterator[MailReceiver]:
    """A mail server on a free port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        kept = MailReceiver(port=free.getsockname()[1])
    controller = Controller(kept, hostname="127.0.0.1", port=kept.port, **options)
    controller.start()
    try:
        yield kept
    finally:
        controller.stop()
