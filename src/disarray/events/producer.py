"""A program's way to report events: kept on disk at once, sent in batches, sent again until a server has taken them."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from disarray.errors import DisarrayError, EventsNotTakenError
from disarray.events.http_inbox import HttpInbox
from disarray.events.spool import RejectedEvent, Spool
from disarray.failpoints import failpoint
from disarray.model.backoff import Backoff

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from types import TracebackType

log = logging.getLogger(__name__)

_MOST_EVENTS = 5_000
_MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class ProducerCounts:
    """What servers said about the events that this producer sent: seen = new + duplicate + rejected."""

    seen: int = 0
    new: int = 0
    duplicate: int = 0
    rejected: int = 0


class Producer:
    """Reports events of one dataset to a server of disarray.

    An event is safe when `send` returns, also from a kill or a power cut: it waits in the spool until a server has
    taken it. Sent twice it counts once. `send` raises `SpoolFullError` when the spool has no room, and never drops
    an event. Calls may come from several threads.
    """

    def __init__(
        self,
        url: str,
        *,
        dataset: str,
        token: str,
        spool: str | os.PathLike[str],
        spool_bytes: int = 64 << 20,
        linger_seconds: float = 0.5,
        timeout_seconds: float = 30.0,
        longest_pause_seconds: float = 60.0,
    ) -> None:
        """`url` is that of the server, such as http://plant:8321; `linger_seconds` is how long events are collected."""
        self._spool = Spool(Path(spool), most_bytes=spool_bytes)
        self._inbox = HttpInbox(url, dataset=dataset, token=token, timeout_seconds=timeout_seconds)
        self._linger_seconds = linger_seconds
        self._longest_pause_seconds = longest_pause_seconds
        self._counts = ProducerCounts()
        self._problem: str | None = None
        self._has_work = threading.Event()
        self._settled = threading.Condition()
        self._hurried = threading.Event()
        self._stopping = threading.Event()
        self._has_work.set()  # a former life may have left some
        self._thread = threading.Thread(target=self._run, name="disarray-producer", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def counts(self) -> ProducerCounts:
        """What became of the events that were sent in this life."""
        return self._counts

    @property
    def waiting(self) -> int:
        """How many events no server has taken yet."""
        return self._spool.waiting

    @property
    def problem(self) -> str | None:
        """Why nothing could be sent when it was last tried; None while all is well."""
        return self._problem

    def send(self, event: Mapping[str, Any]) -> None:
        """Report one event; when this returns, it is on disk."""
        self.send_many([event])

    def send_many(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Report events, all or none; one write to the disk for all of them, which is faster than one for each."""
        texts = [_text_of(event) for event in events]
        if texts:
            self._spool.add(texts)
            self._has_work.set()

    def rejected(self) -> list[RejectedEvent]:
        """Events that the server will never take, with the reason; they stay in the spool."""
        return self._spool.rejected()

    def forget_rejected(self, numbers: Iterable[int]) -> None:
        """Drop refused events that somebody has seen to."""
        self._spool.forget_rejected(list(numbers))

    def flush(self, timeout_seconds: float | None = None) -> bool:
        """Send what waits, now; whether all of it was taken in time."""
        self._hurried.set()
        self._has_work.set()
        with self._settled:
            return self._settled.wait_for(lambda: self._spool.waiting == 0, timeout_seconds)

    def close(self, timeout_seconds: float = 5.0) -> None:
        """Send what can be sent in this time and end. The rest waits in the spool for the next life."""
        self.flush(timeout_seconds)
        self._stopping.set()
        self._hurried.set()
        self._has_work.set()
        self._thread.join(timeout_seconds + 1.0)
        self._inbox.close()
        if not self._thread.is_alive():
            self._spool.close()

    def _run(self) -> None:
        backoff = Backoff(longest_s=self._longest_pause_seconds)
        while not self._stopping.is_set():
            self._has_work.wait()
            self._pause(self._linger_seconds)
            self._has_work.clear()
            try:
                self._send_all()
                self._problem = None
                backoff.succeeded()
            except DisarrayError as error:
                self._problem = str(error)
                pause = backoff.failed()
                log.warning("%s They are tried again in %.1f s.", error, pause)
                self._pause(pause)
                self._has_work.set()

    def _pause(self, seconds: float) -> None:
        """Wait, unless somebody is in a hurry."""
        self._hurried.wait(seconds)
        if not self._stopping.is_set():
            self._hurried.clear()

    def _send_all(self) -> None:
        while batch := self._spool.next_batch(most_events=_MOST_EVENTS, most_bytes=_MOST_BYTES):
            answer = self._inbox.post(list(batch.events.values()), key=batch.key)
            failpoint("produce.answered")
            numbers = list(batch.events)
            try:
                rejected = {numbers[each["index"]]: str(each["reason"]) for each in answer["rejected"]}
                counts = ProducerCounts(
                    self._counts.seen + int(answer["seen"]),
                    self._counts.new + int(answer["new"]),
                    self._counts.duplicate + int(answer["duplicate"]),
                    self._counts.rejected + len(rejected),
                )
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise EventsNotTakenError(
                    f"{self._inbox.url} answered what no server of disarray does. The events are kept."
                ) from error
            self._spool.settle(batch, rejected=rejected)
            self._counts = counts
            with self._settled:
                self._settled.notify_all()
            for number, reason in rejected.items():
                log.error("event %d was refused and is kept apart: %s", number, reason)


def _text_of(event: Mapping[str, Any]) -> str:
    if not isinstance(event, Mapping):
        raise TypeError(f"an event is a mapping of names to values, not {type(event).__name__}")
    # NaN and infinities raise here, where the program can still do something about it.
    return json.dumps(dict(event), allow_nan=False, separators=(",", ":"))
