"""An S3 server as bad as some are: it keeps objects and lists them, and looks at no condition of a put.

The first version that is committed to a table waits for a second commit of the same, so that two meet, unless there is
one loader alone. A careful one honours conditions. On demand one write is left without an answer. A process of its own,
because its client may hold up all threads of ours. Run as: python -m tests.sinks.careless_store [careful] [alone].
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from urllib.request import urlopen
from xml.sax.saxutils import escape, unescape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LISTED = (
    "<Contents><Key>{}</Key><LastModified>2020-09-01T00:00:00.000Z</LastModified>"
    "<ETag>&quot;1&quot;</ETag><Size>{}</Size></Contents>"
)


FIRST = "_delta_log/00000000000000000001.json"
MEETING, LOCK = threading.Barrier(2), threading.Lock()
MOST_SECONDS = 20.0
IS_CAREFUL, IS_ALONE = "careful" in sys.argv[1:], "alone" in sys.argv[1:]
CONTROL = "/.silence"


class Silence(StrEnum):
    """What becomes of the write that gets no answer."""

    LOST = "lost"  # it has no effect
    DONE = "done"  # it has its effect
    CUT = "cut"  # it has its effect, and the connection is closed


@dataclass
class _Silence:
    kind: Silence = Silence.LOST
    writes_until: int = 0
    has_come: bool = False


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body are two sends: the second would wait until the client acknowledges the first, 40 ms later.
    disable_nagle_algorithm = True
    objects: ClassVar[dict[str, bytes]] = {}
    silence: ClassVar[_Silence] = _Silence()

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not IS_ALONE and self._key.endswith(FIRST):
            with suppress(threading.BrokenBarrierError):
                MEETING.wait(MOST_SECONDS)

        def put() -> tuple[int, bytes]:
            with LOCK:
                if IS_CAREFUL and "if-none-match" in self.headers and self._key in self.objects:
                    return 412, b""
                self.objects[self._key] = body
                return 200, b""

        self._write(put)

    def do_GET(self) -> None:
        if self.path == CONTROL:
            self._answer(200, str(self.silence.has_come).encode())
            return
        asked = parse_qs(urlsplit(self.path).query)
        if "list-type" in asked:
            [prefix] = asked.get("prefix", [""])
            [after] = asked.get("start-after", [""])
            found = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
            listed = "".join(LISTED.format(escape(key), len(self.objects[key])) for key in found)
            self._answer(
                200,
                f"<ListBucketResult><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>".encode(),
            )
            return
        self._send_object()

    def do_HEAD(self) -> None:
        self._send_object()

    def _send_object(self) -> None:
        body = self.objects.get(self._key)
        if body is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        span = self.headers.get("range", "").removeprefix("bytes=")
        if not span:
            self._answer(200, body)
            return
        first, _, last = span.partition("-")
        start = len(body) - int(last) if not first else int(first)
        end = min(int(last) + 1, len(body)) if first and last else len(body)
        self._answer(206, body[start:end], **{"Content-Range": f"bytes {start}-{end - 1}/{len(body)}"})

    def do_DELETE(self) -> None:
        def delete() -> tuple[int, bytes]:
            self.objects.pop(self._key, None)
            return 204, b""

        self._write(delete)

    def _write(self, do: Callable[[], tuple[int, bytes]]) -> None:
        with LOCK:
            self.silence.writes_until -= 1
            is_silent = self.silence.writes_until == 0
        if not is_silent:
            self._answer(*do())
            return
        if self.silence.kind is not Silence.LOST:
            do()
        self.silence.has_come = True
        self.close_connection = True
        if self.silence.kind is not Silence.CUT:
            threading.Event().wait()

    def do_POST(self) -> None:
        """Delete several objects at once, or say which write gets no answer."""
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        if self.path == CONTROL:
            kind, number = body.split()
            type(self).silence = _Silence(Silence(kind), int(number))
            self._answer(200)
            return
        keys = re.findall("<Key>(.*?)</Key>", body)

        def delete() -> tuple[int, bytes]:
            for key in keys:
                self.objects.pop(unescape(key), None)
            deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            return 200, f"<DeleteResult>{deleted}</DeleteResult>".encode()

        self._write(delete)

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).split("/", 2)[-1]

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {
            "ETag": '"1"',
            "Last-Modified": "Tue, 01 Sep 2026 00:00:00 GMT",
            **headers,
        }.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@contextmanager
def careless_store(*, is_careful: bool = False, is_alone: bool = False) -> Iterator[str]:
    """The endpoint of such a server, which takes any keys and any bucket."""
    words = [*(["careful"] if is_careful else []), *(["alone"] if is_alone else [])]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.sinks.careless_store", *words],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def silence(endpoint: str, kind: Silence, number: int) -> None:
    """From now on, leave the write of this number without an answer."""
    urlopen(endpoint + CONTROL, data=f"{kind} {number}".encode()).close()


def is_silent(endpoint: str) -> bool:
    """Whether that write has come."""
    with urlopen(endpoint + CONTROL) as answer:
        return bool(answer.read() == b"True")


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
