"""Exchanges and queues: what is declared, under which names, with which guarantees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.broker.routing import binding_keys

if TYPE_CHECKING:
    from collections.abc import Iterable

# Deliveries that end without an acknowledgement before a message counts as poison. Every lost connection is one, so
# it is generous: a database that is away for an hour must not turn good messages into dead letters.
DELIVERY_LIMIT = 20
# Dead letters are for people to look at; the files behind them are found again by the next rescan.
MAX_DEAD_LETTERS = 100_000


@dataclass(frozen=True, slots=True)
class Names:
    """What one installation calls its parts on the broker; two installations on one broker differ in the prefix."""

    prefix: str = "disarray"

    @property
    def exchange(self) -> str:
        """Where agents publish."""
        return self.prefix

    @property
    def dead_exchange(self) -> str:
        """Where what nobody can use goes."""
        return f"{self.prefix}.dead"

    @property
    def dead_queue(self) -> str:
        """Where it waits for a person."""
        return f"{self.prefix}.dead"

    def worker_queue(self, instance_name: str) -> str:
        """The queue of one worker instance."""
        return f"{self.prefix}.worker.{instance_name}"


def declare_exchanges(channel: Any, names: Names) -> None:
    """What agents and workers both need; declaring again changes nothing."""
    channel.exchange_declare(names.exchange, exchange_type="topic", durable=True)
    channel.exchange_declare(names.dead_exchange, exchange_type="fanout", durable=True)
    channel.queue_declare(
        names.dead_queue,
        durable=True,
        arguments={
            "x-queue-type": "quorum",
            "x-max-length": MAX_DEAD_LETTERS,
            "x-overflow": "drop-head",
        },
    )
    channel.queue_bind(names.dead_queue, names.dead_exchange)


def declare_worker_queue(
    channel: Any,
    names: Names,
    instance_name: str,
    *,
    subject_patterns: Iterable[str],
    former_patterns: Iterable[str] = (),
    delivery_limit: int = DELIVERY_LIMIT,
) -> str:
    """The queue of an instance, bound to the subjects that it serves; its name.

    The broker does not tell a client which bindings exist, so a caller that changed its patterns names the former
    ones. New bindings come first: for a moment both hold, and at no moment neither.
    """
    declare_exchanges(channel, names)
    queue = names.worker_queue(instance_name)
    channel.queue_declare(
        queue,
        durable=True,
        arguments={
            "x-queue-type": "quorum",
            "x-delivery-limit": delivery_limit,
            "x-dead-letter-exchange": names.dead_exchange,
            # Without these two a message dies for good if the broker stops between the queues.
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
        },
    )
    wanted = binding_keys(tuple(subject_patterns))
    for key in wanted:
        channel.queue_bind(queue, names.exchange, routing_key=key)
    for key in binding_keys(tuple(former_patterns)):
        if key not in wanted:
            channel.queue_unbind(queue, names.exchange, routing_key=key)
    return queue
