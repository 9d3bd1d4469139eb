"""The worker's end of the broker: batches of notifications, acknowledged once they are safe in the queue."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pika  # type: ignore[import-untyped]
import pika.exceptions  # type: ignore[import-untyped]

from disarray.broker.connection import FAILURES, close_quietly, describe, open_connection, serve
from disarray.broker.messages import MAX_MESSAGE_BYTES, decode_message
from disarray.broker.recent import RecentDigests
from disarray.broker.topology import DELIVERY_LIMIT, Names, declare_worker_queue
from disarray.errors import BadMessageError
from disarray.model.breaker import Breaker

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from disarray.broker.transport import Announcement
    from disarray.model.notification import Notification

log = logging.getLogger(__name__)

REASON_HEADER = "x-disarray-reason"
SIZE_HEADER = "x-disarray-size"
QUEUE_HEADER = "x-disarray-queue"

_RECENT = 100_000
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Which notifications an instance wants, and how many it takes at a time."""

    instance_name: str
    subject_patterns: tuple[str, ...] = ("*",)
    former_patterns: tuple[str, ...] = ()
    names: Names = field(default_factory=Names)
    delivery_limit: int = DELIVERY_LIMIT
    prefetch: int = 50  # messages in memory; each holds up to a hundred files


@dataclass(slots=True)
class ConsumerCounts:
    """What came in so far."""

    messages: int = 0
    notifications: int = 0
    duplicates: int = 0
    dead_letters: int = 0
    connections: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Notifications to be queued together. Call `ack` when that is committed, in the thread that consumes."""

    notifications: tuple[Notification, ...]
    ack: Callable[[], None]


class Consumer:
    """Consumes one instance's queue, through every loss of the connection, until `stop` is set."""

    def __init__(self, url: str, subscription: Subscription, *, stop: threading.Event | None = None) -> None:
        self.counts = ConsumerCounts()
        self.stop = stop or threading.Event()
        self._url = url
        self._subscription = subscription
        self._recent = RecentDigests(_RECENT)
        self._breaker = Breaker("the broker")
        self._connection: Any = None
        self._channel: Any = None
        self._deliveries: deque[tuple[int, bytes, Any]] = deque()

    def consume(self, *, batch_size: int = 500, linger_s: float = 0.1) -> Generator[Batch]:
        """Yield batches of about `batch_size` notifications, or what came within `linger_s` of the first.

        A batch that is not acknowledged before the next is asked for goes back to the broker.
        """
        try:
            while self._breaker.await_turn(self.stop):
                try:
                    yield from self._consume_connected(batch_size, linger_s)
                except FAILURES as error:
                    self._disconnect()
                    self._breaker.failed(describe(error))
        finally:
            self._disconnect()

    def wait(self, seconds: float) -> None:
        """Wait while the database is away, with the batch in hand, and stay connected: giving messages back and
        taking them again would count against their delivery limit."""
        deadline = time.monotonic() + seconds
        while not self.stop.is_set() and (left := deadline - time.monotonic()) > 0:
            try:
                serve(self._connection, min(left, _POLL_SECONDS))
            except FAILURES:
                self.stop.wait(left)
                return

    def _consume_connected(self, batch_size: int, linger_s: float) -> Iterator[Batch]:
        self._connect()
        while not self.stop.is_set():
            known = self.counts.duplicates
            announcements, last_tag = self._collect(batch_size, linger_s)
            self._breaker.succeeded()
            if self.counts.duplicates > known:
                log.info("%d copies came again and were absorbed", self.counts.duplicates - known)
            if last_tag is None:
                continue
            if not announcements:  # copies and dead letters alone
                self._channel.basic_ack(last_tag, multiple=True)
                continue
            settled = _Settlement(self, self._channel, last_tag, announcements)
            self.counts.notifications += len(announcements)
            yield Batch(tuple(each.notification for each in announcements), settled.ack)
            if not settled.is_acknowledged:
                self._channel.basic_nack(last_tag, multiple=True, requeue=True)

    def _connect(self) -> None:
        wanted = self._subscription
        self._deliveries.clear()
        self._connection = open_connection(self._url, name=f"disarray worker {wanted.instance_name}")
        self._channel = self._connection.channel()
        queue = declare_worker_queue(
            self._channel,
            wanted.names,
            wanted.instance_name,
            subject_patterns=wanted.subject_patterns,
            former_patterns=wanted.former_patterns,
            delivery_limit=wanted.delivery_limit,
        )
        self._channel.confirm_delivery()  # for the dead letters that are sent from here
        self._channel.basic_qos(prefetch_count=wanted.prefetch)
        self._channel.basic_consume(queue, self._on_message)
        self.counts.connections += 1
        log.info("%s consumes from %s", wanted.instance_name, queue)

    def _disconnect(self) -> None:
        if self._connection is not None:
            close_quietly(self._connection)
        self._connection = self._channel = None
        self._deliveries.clear()

    def _on_message(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._deliveries.append((method.delivery_tag, body, properties))

    def _collect(self, batch_size: int, linger_s: float) -> tuple[list[Announcement], int | None]:
        """New announcements, and the tag up to which all deliveries are accounted for; None if there were none."""
        announcements: list[Announcement] = []
        digests: set[bytes] = set()
        last_tag: int | None = None
        deadline = time.monotonic() + _POLL_SECONDS
        while len(announcements) < batch_size:
            if not self._deliveries:
                left = deadline - time.monotonic()
                if left <= 0 or self.stop.is_set():
                    break
                serve(self._connection, left)
                if not self._channel.consumer_tags:
                    raise pika.exceptions.ConsumerCancelled
                continue
            if last_tag is None:
                deadline = time.monotonic() + linger_s
            tag, body, properties = self._deliveries.popleft()
            self.counts.messages += 1
            for announcement in self._read(body, properties):
                digest = announcement.digest
                if digest in self._recent or digest in digests:
                    self.counts.duplicates += 1
                else:
                    digests.add(digest)
                    announcements.append(announcement)
            last_tag = tag
        return announcements, last_tag

    def _read(self, body: bytes, properties: Any) -> Sequence[Announcement]:
        try:
            return decode_message(body)
        except BadMessageError as error:
            self._bury(body, properties, str(error))
            return ()

    def _bury(self, body: bytes, properties: Any, reason: str) -> None:
        """Send a bad message to the dead letters ourselves: a rejection could not carry the reason."""
        names = self._subscription.names
        headers = {
            REASON_HEADER: f"the message {reason}"[:500],
            SIZE_HEADER: len(body),
            QUEUE_HEADER: names.worker_queue(self._subscription.instance_name),
        }
        self._channel.basic_publish(
            names.dead_exchange,
            "",
            body[:MAX_MESSAGE_BYTES],
            pika.BasicProperties(content_type=properties.content_type, delivery_mode=2, headers=headers),
            mandatory=True,
        )
        self.counts.dead_letters += 1
        log.warning("a message went to the dead letters: it %s", reason)

    def remember(self, announcements: Sequence[Announcement]) -> None:
        """Absorb copies of these from now on."""
        self._recent.add(announcement.digest for announcement in announcements)


class _Settlement:
    """Acknowledges the deliveries of one batch, on the channel that they came on."""

    def __init__(
        self, consumer: Consumer, channel: Any, last_tag: int, announcements: Sequence[Announcement]
    ) -> None:
        self.is_acknowledged = False
        self._consumer = consumer
        self._channel = channel
        self._last_tag = last_tag
        self._announcements = announcements

    def ack(self) -> None:
        """Say that the batch is safe. If the connection is gone its copies come again, and are absorbed."""
        self._consumer.remember(self._announcements)
        self.is_acknowledged = True
        try:
            self._channel.basic_ack(self._last_tag, multiple=True)
        except FAILURES as error:
            log.info("an acknowledgement was lost (%s); the copies will be absorbed", describe(error))
