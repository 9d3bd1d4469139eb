"""The consumer thread: messages become queued files, and are acknowledged when that is safe."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from disarray.broker.consumer import Consumer, ConsumerCounts, Subscription
from disarray.broker.direct import DirectTransport
from disarray.broker.topology import Names
from disarray.broker.transport import Announcement
from disarray.errors import DatabaseUnavailableError, TransportUnavailableError
from disarray.failpoints import failpoint

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from disarray.broker.consumer import Batch
    from disarray.model.breaker import Breaker
    from disarray.worker.workplace import Workplace

log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.5


@dataclass
class Intake:
    """Takes what the broker has for one instance.

    Bounded throughout: the broker hands over no more than the prefetch, and while the database is away the batch in
    hand is kept, so that the rest waits on the broker's disk.
    """

    workplace: Workplace
    broker_url: str
    broker_prefix: str
    breaker: Breaker  # of the database, shared with the scheduler
    on_queued: Callable[[], None]
    counts: ConsumerCounts = field(default_factory=ConsumerCounts)

    def run(self, stop: threading.Event) -> None:
        """Consume until told to stop; what is not acknowledged by then stays with the broker."""
        consumer = Consumer(
            self.broker_url,
            Subscription(
                instance_name=self.workplace.holder.instance_name,
                subject_patterns=self.workplace.subject_patterns,
                former_patterns=self.workplace.former_patterns,
                names=Names(self.broker_prefix),
            ),
            stop=stop,
        )
        self.counts = consumer.counts
        queue = DirectTransport(
            self.workplace.pool, instance_name=self.workplace.holder.instance_name, on_queued=self.on_queued
        )
        for batch in consumer.consume():
            while not stop.is_set() and not self._is_queued(queue, batch):
                consumer.wait(max(_RETRY_SECONDS, self.breaker.retry_in))
        counts = self.counts
        log.info(
            "%d messages with %d notifications; %d copies absorbed, %d dead letters",
            counts.messages,
            counts.notifications,
            counts.duplicates,
            counts.dead_letters,
        )

    def _is_queued(self, queue: DirectTransport, batch: Batch) -> bool:
        failpoint("consume.batch")
        try:
            _enqueue(queue, batch)
        except TransportUnavailableError as error:
            if isinstance(error.__cause__, DatabaseUnavailableError):
                self.breaker.failed(str(error.__cause__))
            return False
        self.breaker.succeeded()
        failpoint("ack.before")
        batch.ack()
        failpoint("ack.after")
        return True


def _enqueue(queue: DirectTransport, batch: Batch) -> None:
    numbered = [Announcement(str(number), each) for number, each in enumerate(batch.notifications)]
    receipt = queue.publish(numbered)
    for announcement in numbered:
        if announcement.id in receipt.refused:
            # The message was well formed; its words cannot be stored. Its file is announced again by every rescan.
            log.error(
                "%s was not queued: %s",
                announcement.notification.source_uri,
                receipt.refused[announcement.id],
            )
