"""The transport of the embedded mode: straight into the queue in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.broker.transport import Receipt
from disarray.control.files import enqueue_files
from disarray.control.migrations import prepare_schema
from disarray.control.translation import translated_errors
from disarray.errors import ControlError, InvalidRequestError, TransportUnavailableError
from disarray.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disarray.broker.transport import Announcement
    from disarray.control.connections import Pool


class DirectTransport:
    """Queues what an agent of the same process sees, and says so to whoever waits for work."""

    def __init__(
        self,
        pool: Pool,
        *,
        instance_name: str | None = None,
        on_queued: Callable[[], None] = lambda: None,
    ) -> None:
        self._pool = pool
        self._instance_name = instance_name
        self._on_queued = on_queued
        self._is_checked = False

    def publish(self, announcements: Sequence[Announcement]) -> Receipt:
        """Queue all in one transaction, or those that can be queued where some never can."""
        try:
            self._enqueue(announcements)
        except InvalidRequestError as error:
            if len(announcements) == 1:
                return Receipt(refused={announcements[0].id: str(error)})
            # Halves of halves find the bad ones in a few calls, and keep the order of the others.
            middle = len(announcements) // 2
            first, second = self.publish(announcements[:middle]), self.publish(announcements[middle:])
            return Receipt(
                delivered=first.delivered | second.delivered, refused={**first.refused, **second.refused}
            )
        except ControlError as error:
            raise TransportUnavailableError(
                f"the queue took no notifications: {error} They are kept and sent again."
            ) from error
        return Receipt(delivered=frozenset(announcement.id for announcement in announcements))

    def idle(self) -> None:
        """Nothing: the pool looks after its connections."""

    def close(self) -> None:
        """Nothing: the pool is the caller's."""

    def _enqueue(self, announcements: Sequence[Announcement]) -> None:
        if not announcements:
            return
        with translated_errors(), self._pool.connection() as connection:
            if not self._is_checked:
                # Here and not at the start: an agent starts, and keeps what it sees, while the database is away.
                prepare_schema(connection)
                self._is_checked = True
            failpoint("enqueue.before", connection)
            enqueue_files(
                connection,
                [announcement.notification for announcement in announcements],
                instance_name=self._instance_name,
            )
            failpoint("enqueue.after", connection)
        self._on_queued()
