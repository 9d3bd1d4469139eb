"""Events on disk: each is there from the moment its program was told so until a server has taken it."""

from __future__ import annotations

import sqlite3
import threading
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.errors import SpoolFullError, SpoolUnusableError
from disarray.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_SCHEMA = """
create table if not exists waiting (number integer primary key autoincrement, event text not null);
create table if not exists rejected (number integer primary key, event text not null, reason text not null);
create table if not exists fact (name text primary key, value text not null) without rowid;
"""


@dataclass(frozen=True, slots=True)
class RejectedEvent:
    """An event that the server will never take, and why. It stays in the spool until somebody has seen to it."""

    number: int
    event: str
    reason: str


@dataclass(frozen=True, slots=True)
class SpooledBatch:
    """Events that are to be sent together, by their numbers; `key` is the same whenever the same ones are."""

    key: str
    events: Mapping[int, str]


class Spool:
    """One SQLite file on a disk of this machine; its calls may come from several threads."""

    def __init__(self, path: Path, *, most_bytes: int) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        with self._translated_errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=10, check_same_thread=False)
            # A commit is on the disk when it returns; what a power cut leaves is repaired by SQLite.
            self._connection.execute("pragma journal_mode = wal")
            self._connection.execute("pragma synchronous = full")
            self._connection.executescript(_SCHEMA)
            with self._connection:
                self._connection.execute(
                    "insert into fact values ('spool_id', ?) on conflict do nothing", (uuid.uuid4().hex,)
                )
            [(self._spool_id,)] = self._connection.execute("select value from fact where name = 'spool_id'")
            [(self._bytes,)] = self._connection.execute(
                "select coalesce(sum(length(cast(event as blob))), 0) from"
                " (select event from waiting union all select event from rejected)"
            )

    @property
    def waiting(self) -> int:
        """How many events no server has taken yet."""
        with self._lock, self._translated_errors():
            [(count,)] = self._connection.execute("select count(*) from waiting")
        return int(count)

    def add(self, events: Sequence[str]) -> None:
        """Keep events, all or none; they are on disk when it returns."""
        size = sum(len(event.encode()) for event in events)
        with self._lock, self._translated_errors():
            if self._bytes + size > self._most_bytes:
                raise SpoolFullError(
                    f"the spool {self._path} has {self._bytes:,} bytes and takes at most {self._most_bytes:,}. These "
                    f"{len(events)} events were not kept; those before are, and are sent once the server answers"
                )
            with self._connection:
                self._connection.executemany(
                    "insert into waiting (event) values (?)", ((each,) for each in events)
                )
            self._bytes += size
        failpoint("produce.spooled")

    def next_batch(self, *, most_events: int, most_bytes: int) -> SpooledBatch | None:
        """The oldest events, as many as fit; None where nothing waits."""
        taken: dict[int, str] = {}
        room = most_bytes
        with self._lock, self._translated_errors():
            rows = self._connection.execute(
                "select number, event from waiting order by number limit ?", (most_events,)
            )
            for number, event in rows:
                room -= len(event.encode()) + 1
                if taken and room < 0:
                    break
                taken[number] = event
        if not taken:
            return None
        return SpooledBatch(f"{self._spool_id}-{min(taken)}-{max(taken)}", taken)

    def settle(self, batch: SpooledBatch, *, rejected: Mapping[int, str]) -> None:
        """Let go of events that a server has taken, and keep apart those that it refused, by number with the reason."""
        with self._lock, self._translated_errors(), self._connection:
            self._connection.executemany(
                "insert into rejected values (?, ?, ?) on conflict do nothing",
                ((number, batch.events[number], reason) for number, reason in rejected.items()),
            )
            self._connection.executemany(
                "delete from waiting where number = ?", ((number,) for number in batch.events)
            )
            self._bytes -= sum(
                len(event.encode()) for number, event in batch.events.items() if number not in rejected
            )

    def rejected(self) -> list[RejectedEvent]:
        """What a server refused, oldest first."""
        with self._lock, self._translated_errors():
            rows = self._connection.execute(
                "select number, event, reason from rejected order by number"
            ).fetchall()
        return [RejectedEvent(*row) for row in rows]

    def forget_rejected(self, numbers: Sequence[int]) -> None:
        """Drop refused events that somebody has seen to."""
        with self._lock, self._translated_errors(), self._connection:
            for number in numbers:
                for (event,) in self._connection.execute(
                    "delete from rejected where number = ? returning event", (number,)
                ).fetchall():
                    self._bytes -= len(event.encode())

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise SpoolUnusableError(
                f"the spool {self._path} cannot be used: {error}. "
                "What was kept in it is there; what was being added is not"
            ) from error
