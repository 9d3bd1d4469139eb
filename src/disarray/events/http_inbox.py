"""One request at a time to the inbox of a server. No redirect is followed: the token goes where it was meant to."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from disarray.errors import ConfigError, EventsNotTakenError

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_ANSWER_BYTES = 16 << 20


class HttpInbox:
    """Posts JSON lines, over a connection that is kept as long as it holds."""

    def __init__(self, url: str, *, dataset: str, token: str, timeout_seconds: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"{url!r} is no address of a server; write http://host:8321. Nothing was sent.")
        self._parts = parts
        self._path = f"{parts.path.rstrip('/')}/api/v1/events/{quote(dataset, safe='')}"
        self.url = (
            f"{parts.scheme}://{parts.hostname}{'' if parts.port is None else f':{parts.port}'}{self._path}"
        )
        self._token = token
        self._timeout_seconds = timeout_seconds
        self._connection: http.client.HTTPConnection | None = None

    def post(self, events: Sequence[str], *, key: str) -> Any:
        """The answer of the server; `EventsNotTakenError` where none came, or where it is no success."""
        body = "\n".join(events).encode()
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/x-ndjson",
            "Idempotency-Key": key,
        }
        try:
            status, content = self._exchange(body, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise EventsNotTakenError(
                f"{self.url} does not answer ({type(error).__name__}: {error}). {len(events)} events are kept."
            ) from error
        if status != 200:
            raise EventsNotTakenError(
                f"{self.url} answered {status}: {_detail_of(content)} {len(events)} events are kept."
            )
        try:
            return json.loads(content)
        except ValueError as error:
            raise EventsNotTakenError(
                f"{self.url} answered what no server of disarray does. {len(events)} events are kept."
            ) from error

    def _exchange(self, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        try:
            return self._exchange_over(self._connection or self._connect(), body, headers)
        except (ConnectionError, http.client.BadStatusLine):
            if self._connection is None:
                raise
            # Servers close connections that were idle for a while. A request that arrived all the same counts once.
            self.close()
            return self._exchange_over(self._connect(), body, headers)

    def _exchange_over(
        self, connection: http.client.HTTPConnection, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        connection.request("POST", self._path, body=body, headers=headers)
        response = connection.getresponse()
        content = response.read(_MOST_ANSWER_BYTES)
        self._connection = connection
        return response.status, content

    def close(self) -> None:
        """Let go of the connection; the next post opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        assert self._parts.hostname is not None
        return kind(self._parts.hostname, self._parts.port, timeout=self._timeout_seconds)


def _detail_of(content: bytes) -> str:
    try:
        return str(json.loads(content)["detail"])[:500]
    except (ValueError, KeyError, TypeError):
        return "it did not say why."
