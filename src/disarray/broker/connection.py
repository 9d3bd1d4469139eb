"""The one place that opens connections to RabbitMQ and names their failures."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pika  # type: ignore[import-untyped]
import pika.exceptions  # type: ignore[import-untyped]

from disarray.config import redact
from disarray.errors import ConfigError, TransportUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

# What pika raises when the broker is away, goes away or refuses; the channel or connection is of no use after it.
FAILURES = (pika.exceptions.AMQPError, pika.exceptions.ChannelError, OSError)

HEARTBEAT_SECONDS = 30
TIMEOUT_SECONDS = 10


def open_connection(url: str, *, name: str) -> Any:
    """One blocking connection; it belongs to the thread that opened it."""
    try:
        parameters = pika.URLParameters(url)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise ConfigError(
            f"broker.url {redact(url)!r} is no address of a broker ({error}); write amqp://user:password@host:5672/%2F"
        ) from error
    parameters.heartbeat = HEARTBEAT_SECONDS
    parameters.socket_timeout = TIMEOUT_SECONDS
    parameters.stack_timeout = TIMEOUT_SECONDS
    # A broker short of memory or disk stops reading; a sender that waits for it in silence looks dead.
    parameters.blocked_connection_timeout = TIMEOUT_SECONDS
    parameters.connection_attempts = 1
    parameters.client_properties = {"connection_name": name}
    return pika.BlockingConnection(parameters)


def serve(connection: Any, seconds: float) -> None:
    """Answer heartbeats and take deliveries for a while."""
    if not connection.is_open:
        # pika itself raises a bare ValueError here.
        raise pika.exceptions.ConnectionWrongStateError("the connection was lost before")
    connection.process_data_events(seconds)


@contextmanager
def translated_failures(url: str) -> Iterator[None]:
    """Let nothing of pika reach a caller."""
    try:
        yield
    except FAILURES as error:
        raise TransportUnavailableError(
            f"the broker at {redact(url)} does not serve us ({describe(error)}). Nothing is lost: "
            "notifications are kept and sent again."
        ) from error


def describe(error: BaseException) -> str:
    """An error of pika in one line; some have no text of their own."""
    text = " ".join(str(error).split()) or repr(error)
    cause = next((arg for arg in error.args if isinstance(arg, BaseException)), None)
    return f"{type(error).__name__}: {text}"[:300] if cause is None else describe(cause)


def close_quietly(connection: Any) -> None:
    """Close what may already be broken."""
    with suppress(*FAILURES):
        connection.close()
