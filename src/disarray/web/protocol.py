"""Connections of clients who take their time: none keeps one for long without asking, and none keeps others out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

# A client has so long to send a request after it has connected or begun with it, and to take what it asked for.
REQUEST_SECONDS = 10.0
ANSWER_SECONDS = 30.0
# Well below the 1,024 files that a process may have open where nobody set another limit.
MOST_CONNECTIONS = 512


class PatientProtocol(H11Protocol):
    """HTTP/1.1 with an end to every wait.

    When there are too many connections, the oldest that has no whole request makes room for the new one: whoever only
    connects, or sends a byte now and then, can keep nobody out.
    """

    _connected_at = 0.0
    _request_timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._connected_at = self.loop.time()
        self._await_request()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        super().connection_lost(exc)
        self._stop_request_timer()
        self._stop_answer_timer()

    def data_received(self, data: bytes) -> None:
        """Take bytes; those of a request that is not whole in time are for nothing."""
        super().data_received(data)
        if self.is_asking:
            self._stop_request_timer()
        elif self._request_timer is None and not self.transport.is_closing():
            # The next request of a connection that is kept: its first bytes end the wait for them.
            self._await_request()

    def pause_writing(self) -> None:
        """The client does not take its answer."""
        super().pause_writing()
        if self._answer_timer is None:
            self._answer_timer = self.loop.call_later(ANSWER_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        self._stop_answer_timer()

    @property
    def is_asking(self) -> bool:
        """Whether a request is under way."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def is_served(self) -> bool:
        """Whether it has asked for something, to the last byte, and waits for us."""
        return self.is_asking and self.conn.their_state is not h11.SEND_BODY

    def _await_request(self) -> None:
        self._request_timer = self.loop.call_later(REQUEST_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._request_timer = None
        if not self.is_asking:
            self.transport.abort()

    def _make_room(self) -> None:
        if len(self.connections) <= MOST_CONNECTIONS:
            return
        # One that was hung up on is known until the loop comes round: of many who come at once, each ends another one.
        open_ones = [
            other
            for other in self.connections
            if isinstance(other, PatientProtocol) and not other.transport.is_closing()
        ]
        if len(open_ones) <= MOST_CONNECTIONS:
            return
        waiting = [other for other in open_ones if other is not self and not other.is_served]
        oldest = min(waiting, key=lambda other: other._connected_at, default=self)
        oldest.transport.abort()

    def _stop_request_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _stop_answer_timer(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None
