"""The agent's memory on disk: what is known of every file, and what still has to be sent, in one transaction.

Because both are in one file, a file counts as announced exactly when its notification is safe in the spool. If the
file is lost or damaged, every file is new again: announced again, hashed again, and absorbed by the queue.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from disarray.agent.hashing import ContentHash
from disarray.agent.records import Known
from disarray.broker.transport import Announcement
from disarray.errors import StateFileBusyError, StateFileUnusableError
from disarray.failpoints import failpoint
from disarray.model.notification import Notification, Reason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from disarray.agent.records import Finding

log = logging.getLogger(__name__)

STATE_FILE = Path("agent", "state.sqlite")  # below the state folder
_LAYOUT = 1
_SCHEMA = """
create table file (
    path text primary key,
    dataset text not null,
    subject text,
    size integer not null,
    mtime_ns integer not null,
    inode integer not null,
    changed_us integer not null,
    announced_us integer not null,
    hashed_us integer not null,
    is_quiet integer not null,
    blocks blob not null
) without rowid;
create table outbox (
    number integer primary key autoincrement,
    subject text not null,
    body text not null
);
create table fact (name text primary key, value text not null) without rowid;
"""


class StateFile:
    """One SQLite file, on a disk of this machine; one agent at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._disk_errors_explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._connection = self._open()
            except sqlite3.DatabaseError as error:
                if _is_locked(error):
                    raise StateFileBusyError(
                        f"another agent works with {path}. Nothing was changed. Stop it, or give this one a --state-dir"
                    ) from error
                # A disk that is full is no damage: what was set aside for it would have been announced in vain.
                if _is_of_the_disk(error):
                    raise
                self._set_aside(error)
                self._connection = self._open()
            self._agent_id = self._fact("agent_id") or self._new_agent_id()
        [(self._spooled, self._unsent)] = self._connection.execute(
            "select coalesce(sum(length(cast(body as blob))), 0), count(*) from outbox"
        )

    @property
    def spooled_bytes(self) -> int:
        """How much waits to be sent."""
        return int(self._spooled)

    @property
    def unsent(self) -> int:
        """How many notifications wait to be sent."""
        return int(self._unsent)

    def waiting_numbers(self) -> tuple[int, int]:
        """The numbers of the oldest and the newest notification that wait; 0 where none does."""
        [first], [last] = (
            self._connection.execute(f"select coalesce({end}(number), 0) from outbox").fetchone()  # noqa: S608
            for end in ("min", "max")
        )
        return int(first), int(last)

    def files(self) -> Iterator[tuple[str, Known]]:
        """Everything known, to be held in memory."""
        for path, dataset, subject, *numbers in self._connection.execute(
            "select path, dataset, subject, size, mtime_ns, inode, changed_us, announced_us, hashed_us, is_quiet"
            " from file"
        ):
            size, mtime_ns, inode, changed_us, announced_us, hashed_us, is_quiet = numbers
            yield (
                path,
                Known(
                    dataset=dataset,
                    subject=subject,
                    size=size,
                    mtime_ns=mtime_ns,
                    inode=inode,
                    changed_us=changed_us,
                    announced_us=announced_us,
                    hashed_us=hashed_us,
                    is_quiet=bool(is_quiet),
                ),
            )

    def content(self, path: str) -> ContentHash | None:
        """What a file held when it was last taken in."""
        row = self._connection.execute("select size, blocks from file where path = ?", (path,)).fetchone()
        return None if row is None else ContentHash(*row)

    def commit(self, findings: Sequence[Finding]) -> None:
        """Keep what was found and spool what has to be said about it: all or nothing, and on disk when it returns."""
        with self._disk_errors_explained(), self._connection:
            for finding in findings:
                self._keep(finding)
            failpoint("spool.mid")
            spooled = [
                (each.notification.subject_key, _pack(each.notification))
                for each in findings
                if each.notification is not None
            ]
            self._connection.executemany("insert into outbox (subject, body) values (?, ?)", spooled)
        self._spooled += sum(len(body.encode()) for _, body in spooled)
        self._unsent += len(spooled)

    def forget(self, paths: Iterable[str]) -> None:
        """Drop files that are long gone; one that returns is a new one."""
        with self._disk_errors_explained(), self._connection:
            self._connection.executemany("delete from file where path = ?", ((path,) for path in paths))

    def waiting(self, limit: int, *, except_subjects: Collection[str] = ()) -> list[Announcement]:
        """The oldest notifications that were not sent yet, in order."""
        rows = self._connection.execute(
            "select number, body from outbox where subject not in (select value from json_each(?))"
            " order by number limit ?",
            (json.dumps(list(except_subjects)), limit),
        )
        return [Announcement(f"{self._agent_id}:{number}", _unpack(body)) for number, body in rows]

    def sent(self, ids: Iterable[str]) -> None:
        """Let go of notifications that the other side has taken over."""
        gone = count = 0
        with self._disk_errors_explained(), self._connection:
            for id_ in ids:
                [(size,)] = self._connection.execute(
                    "delete from outbox where number = ? returning length(cast(body as blob))",
                    (int(id_.rpartition(":")[2]),),
                )
                gone += size
                count += 1
        self._spooled -= gone
        self._unsent -= count

    def rules(self) -> dict[str, str]:
        """By which version of each dataset the files were matched."""
        return dict(json.loads(self._fact("rules") or "{}"))

    def set_rules(self, rules: Mapping[str, str]) -> None:
        """Remember by which versions files are matched from now on."""
        if self.rules() == rules:
            return
        with self._disk_errors_explained():
            self._set_fact("rules", json.dumps(dict(rules)))

    def close(self) -> None:
        """Let another agent have the file."""
        self._connection.close()

    @contextmanager
    def _disk_errors_explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            if isinstance(error, sqlite3.DatabaseError) and not _is_of_the_disk(error):
                raise
            raise StateFileUnusableError(
                f"the state file {self._path} cannot be used: {error}. What is in it stays, and nothing new is noted "
                "or announced: files wait where they are. Free space on its disk, or mend it"
            ) from error

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=1, check_same_thread=False)
        try:
            # Exclusive: two agents on one state file would each believe that the other's messages are sent.
            connection.execute("pragma locking_mode = exclusive")
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = full")
            [(layout,)] = connection.execute("pragma user_version")
            if layout not in (0, _LAYOUT):
                raise sqlite3.DatabaseError(f"written by another release (layout {layout})")
            if layout == 0:
                connection.executescript(
                    f"begin immediate; {_SCHEMA} pragma user_version = {_LAYOUT}; commit;"
                )
            [(verdict,)] = connection.execute("pragma quick_check(1)")
            if verdict != "ok":
                raise sqlite3.DatabaseError(str(verdict))
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        aside = self._path.with_name(f"{self._path.name}.damaged")
        log.warning(
            "%s cannot be used (%s); it is kept as %s and every file is announced again",
            self._path,
            error,
            aside,
        )
        self._path.replace(aside)
        for suffix in ("-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                self._path.with_name(self._path.name + suffix).unlink()

    def _keep(self, finding: Finding) -> None:
        known = finding.known
        values = (
            known.dataset,
            known.subject,
            known.size,
            known.mtime_ns,
            known.inode,
            known.changed_us,
            known.announced_us,
            known.hashed_us,
            known.is_quiet,
        )
        if finding.content is None:
            self._connection.execute(
                "update file set dataset = ?, subject = ?, size = ?, mtime_ns = ?, inode = ?, changed_us = ?,"
                " announced_us = ?, hashed_us = ?, is_quiet = ? where path = ?",
                (*values, finding.path),
            )
        else:
            self._connection.execute(
                "insert or replace into file values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (finding.path, *values, finding.content.blocks),
            )

    def _new_agent_id(self) -> str:
        agent_id = uuid.uuid4().hex[:16]
        try:
            self._set_fact("agent_id", agent_id)
        except sqlite3.DatabaseError:
            # Nobody would close it: whoever tries again would find it locked.
            self._connection.close()
            raise
        return agent_id

    def _fact(self, name: str) -> str | None:
        row = self._connection.execute("select value from fact where name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def _set_fact(self, name: str, value: str) -> None:
        with self._connection:
            self._connection.execute("insert or replace into fact values (?, ?)", (name, value))


def _is_of_the_disk(error: sqlite3.DatabaseError) -> bool:
    # The lowest byte says what kind of error it is, the others which one.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
    )


def _is_locked(error: sqlite3.DatabaseError) -> bool:
    # Only errors from within SQLite carry a code.
    return getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _pack(notification: Notification) -> str:
    parts = [
        notification.source_uri,
        notification.subject_key,
        notification.reason.value,
        notification.metadata,
    ]
    return json.dumps(parts, separators=(",", ":"), ensure_ascii=False)


def _unpack(body: str) -> Notification:
    uri, subject, reason, metadata = json.loads(body)
    return Notification(uri, subject, Reason(reason), metadata)
