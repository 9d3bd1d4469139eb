"""RabbitMQ as a transport: persistent, confirmed, never into the void."""

from __future__ import annotations

import logging
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pika  # type: ignore[import-untyped]
import pika.exceptions  # type: ignore[import-untyped]

from disarray.broker.connection import FAILURES, close_quietly, open_connection, serve, translated_failures
from disarray.broker.messages import check_notification, encode_messages
from disarray.broker.routing import routing_key
from disarray.broker.topology import Names, declare_exchanges
from disarray.broker.transport import Receipt
from disarray.errors import BadMessageError, TransportUnavailableError
from disarray.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.broker.transport import Announcement

log = logging.getLogger(__name__)

_PROPERTIES = {
    "content_type": "application/json",
    "delivery_mode": 2,  # survives a restart of the broker
    "app_id": "disarray",
}


class RabbitTransport:
    """Publishes to the topic exchange; connects when needed, and again after a failure."""

    def __init__(self, url: str, *, names: Names | None = None, name: str = "disarray agent") -> None:
        self._url = url
        self._names = names or Names()
        self._name = name
        self._connection: Any = None
        self._channel: Any = None

    def publish(self, announcements: Sequence[Announcement]) -> Receipt:
        """Hand over message by message, each confirmed by a majority of the broker's nodes before the next."""
        delivered: set[str] = set()
        unroutable: set[str] = set()
        refused = _unsendable(announcements)
        sendable = [announcement for announcement in announcements if announcement.id not in refused]
        # Stable: the order within a subject stays, and nobody depends on the order between subjects.
        sendable.sort(key=_subject_of)
        try:
            with translated_failures(self._url):
                channel = self._open_channel()
                for subject, group in groupby(sendable, _subject_of):
                    for packed, body in encode_messages(list(group)):
                        if self._is_taken(channel, subject, body):
                            delivered.update(announcement.id for announcement in packed)
                            failpoint("publish.confirmed", about=subject)
                        else:
                            # Later ones of the subject wait too, or they would overtake this one.
                            unroutable.add(subject)
                            break
        except TransportUnavailableError as error:
            self.close()
            if not delivered:
                raise
            # What is confirmed is done. Forgotten, it would be sent again with the rest, and a batch that never gets
            # through whole would never get anywhere.
            log.warning("%s", error)
        except Exception:
            self.close()
            raise
        return Receipt(frozenset(delivered), frozenset(unroutable), refused)

    def idle(self) -> None:
        """Answer heartbeats; a connection that is lost is opened again by the next publication."""
        if self._connection is None:
            return
        try:
            serve(self._connection, 0)
        except FAILURES:
            self.close()

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            close_quietly(self._connection)
        self._connection = self._channel = None

    def _open_channel(self) -> Any:
        if self._channel is None or not self._channel.is_open:
            self.close()
            self._connection = open_connection(self._url, name=self._name)
            self._channel = self._connection.channel()
            try:
                # To ask needs no right to configure: an agent's account may write, and nothing else.
                self._channel.exchange_declare(self._names.exchange, passive=True)
            except pika.exceptions.ChannelClosedByBroker:
                self._channel = self._connection.channel()
                declare_exchanges(self._channel, self._names)
            self._channel.confirm_delivery()
        return self._channel

    def _is_taken(self, channel: Any, subject: str, body: bytes) -> bool:
        try:
            channel.basic_publish(
                self._names.exchange,
                routing_key(subject),
                body,
                pika.BasicProperties(**_PROPERTIES),
                mandatory=True,
            )
        except pika.exceptions.UnroutableError:
            log.warning(
                "no worker's queue takes subject %s: its notifications are kept. "
                "Start a worker whose patterns match it",
                subject,
            )
            return False
        except pika.exceptions.NackError:
            log.warning(
                "the broker could not store a message about subject %s: its notifications are kept. "
                "See whether its worker's queue is full or has no leader: rabbitmq-queues quorum_status QUEUE",
                subject,
            )
            return False
        return True


def _subject_of(announcement: Announcement) -> str:
    return announcement.notification.subject_key


def _unsendable(announcements: Sequence[Announcement]) -> dict[str, str]:
    refused = {}
    for announcement in announcements:
        try:
            check_notification(announcement.notification)
        except BadMessageError as error:
            refused[announcement.id] = str(error)
    return refused
