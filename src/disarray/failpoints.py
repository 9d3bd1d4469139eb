"""Places where a test can make the process die, freeze or fail: nothing happens there unless the environment says so.

`DISARRAY_FAILPOINTS="commit.before_commit=kill@2;read.file[TOOL13]=raise"` arms a process and its children. A rule is
`POINT[TEXT]=ACTION@N`: `[TEXT]` only where the step is about something with this text in its name, `@N` at the N-th
hit of the process (1 if left out), or `~P` at each hit with this probability, drawn from `DISARRAY_FAILPOINT_SEED`.
`DISARRAY_FAILPOINT_LOG` names a file to which each process appends the points that it came to and what struck there.
"""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from disarray.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

# What has happened at each, and what has not.
POINTS = {
    "start.registered": "a new life has begun and the claims of the former went back; nothing is claimed",
    "claim.before": "nothing was asked for yet",
    "claim.after": "items are claimed; nobody has begun with them",
    "lease.before_renewal": "the leases of a pass under way run on; they are about to be renewed",
    "rebuild.due": "it is known which subjects are to be moved to the definition in force; nothing is read",
    "read.before": "a run has its id and knows what to read; no file is open",
    "read.file": "in a task: a file is about to be opened, fragments of others may be written",
    "read.mid": "in a task: the rows of a file are written, the fragment file has no end yet",
    "read.written": "in a task: the fragment file is whole and on disk; the driver has not heard of it",
    "read.after": "job 1 is over; nothing is planned",
    "plan.after": "every subject is planned; no segment is scanned",
    "scan.segment": "in a task: a segment is about to be scanned, others may be",
    "scan.after": "job 2 is over; nothing is committed",
    "commit.before_begin": "what to commit is known; the transaction is not open",
    "commit.begun": "the transaction is open and holds nothing",
    "commit.rows_cleared": "in the transaction: the subject is locked, stale rows of its table are deleted",
    "commit.values_numbered": "in the transaction: new dimension values have their numbers, no row names them",
    "commit.rows_copied": "in the transaction: the new rows are in the table, the catalog does not know them",
    "commit.stated": "in the transaction: the subject is locked, catalog, numbers and queue are changed",
    "reconcile.before": "in the transaction: catalog and queue are changed, what is left open is not resolved",
    "reconcile.after": "in the transaction: open ranges are resolved",
    "commit.before_commit": "in the transaction: everything is said; COMMIT is not sent",
    "commit.after_commit": "the commit took effect; nobody but this thread has heard of it",
    "commit.settling": "the reply to a COMMIT was lost; nobody has asked what became of it",
    "fail.before": "items could not be done; the queue has not heard of it",
    "fail.after": "the items went back or are dead letters; the pass is not over",
    "release.before": "a subject is held and nothing is done to it; it is about to be freed",
    "release.after": "a subject is free again; others may still be held",
    "housekeeping.queued": "it is queued what to compact and seal; nothing is deleted",
    "seal.after": "the segments of a subject are sealed; its item is not completed",
    "compact.written": "merged fragments are on disk; the catalog names the old ones",
    "compact.after_commit": "the catalog names the merged fragments; the item is not completed",
    "vacuum.doomed": "no commit can name the dead files any more; all are there",
    "vacuum.deleted": "some dead files are deleted; the catalog still lists them",
    "sweep.deleted": "an orphan is deleted; others are there",
    "copy.store_changed": "the dataset has its new store; no reading was moved and none is queued to be",
    "copy.queued": "the subjects to be moved are queued; no more of them are moved",
    "inbox.before_claim": "events wait; none is claimed",
    "inbox.claimed": "events are claimed, and the claim is committed; nothing is written",
    "pull.claimed": "the turn to read a table source is taken; nothing is read",
    "pull.extracted": "rows of a table source are in memory; nothing is written",
    "load.planned": "it is known which rows an initial load takes; neither it nor the watermark is stored",
    "load.begun": "an initial load and the watermark behind it are committed; no chunk is cut",
    "load.cut": "it is known where the next chunks of an initial load end; they are not stored",
    "load.claimed": "chunks of an initial load are claimed, and the claim is committed; nothing is read",
    "load.extracted": "in a task: the rows of a chunk are in memory; nothing is written",
    "load.read": "the files of chunks are on disk; their chunks are claimed, and nobody knows the files",
    "load.ended": "every chunk of an initial load is done, and so is the load; nobody but this thread has heard of it",
    "deliver.written": "the files of a batch are on disk; the source stands where it stood, and nobody knows them",
    "deliver.recorded": "in the transaction: the source is advanced and the files are queued; COMMIT is not sent",
    "deliver.committed": "the batch is committed; nobody but this thread has heard of it",
    "view.claimed": "a view is claimed, and the claim is committed; it is as it was",
    "view.begun": "in the transaction: the position of the view is noted, nothing is computed",
    "view.refreshed": "in the transaction: the view is filled anew; its log does not say so",
    "view.recorded": "in the transaction: the refresh is logged and the turn given back; COMMIT is not sent",
    "view.committed": "the view is refreshed and logged; nobody but this thread has heard of it",
    "destination.claimed": "a subject of a destination is claimed; nothing of it is looked up",
    "destination.staged": "in the target's transaction: the rows are in a temporary table, the target is as it was",
    "destination.merged": "in the target's transaction: the target has the new rows; COMMIT is not sent",
    "destination.begun": "a large load: the target knows that pieces of it are missing; none is loaded",
    "destination.pieced": "a large load: every piece is in the target, which knows of none missing only after this",
    "destination.committed": "the target has committed; where it is elsewhere, the position has not moved",
    "destination.advanced": "rows and position are committed; nobody but this thread has heard of it",
    "pull.ended": "the turn to read a table source is given back; nobody but this thread has heard of it",
    "effect.claimed": "a message to a hook is claimed, and the claim is committed; nothing is sent",
    "report.written": "a report lies beside its path, on disk; it has no name yet",
    "effect.sent": "the other side has taken the message, or refused it; the ledger says that it is being sent",
    "effect.recorded": "the answer is in the ledger; nobody but this thread has heard of it",
    "backfill.scan": "a chunk of a backfill is about to be cut; the job is not locked",
    "backfill.cut": "in the transaction: a chunk is cut; COMMIT is not sent",
    "backfill.scanned": "a chunk is cut and waits; nobody has claimed it",
    "backfill.claimed": "a chunk is claimed, and the claim is committed; nothing is read",
    "backfill.read": "the rows of a chunk are read and computed; nothing is written",
    "backfill.republished": "a subject of a chunk is loaded anew; the chunk is not ended",
    "backfill.reading_again": "in the transaction: rows that somebody changed meanwhile are about to be read again",
    "backfill.written": "in the transaction: the rows of a chunk are written; the chunk is not ended",
    "backfill.marked": "in another database: the rows and the mark of a chunk are committed; the chunk is not ended",
    "backfill.completed": "in the transaction: rows are written and the chunk is ended; COMMIT is not sent",
    "backfill.committed": "a chunk is done; nobody but this thread has heard of it",
    "backfill.verifying": "every chunk has ended and this process verifies; nothing is compared",
    "backfill.judged": "the verdict of a backfill is known; it is not stored",
    "resync.extracted": "rows of a stretch are in memory; no file of them is written",
    "resync.staged": "the files of a stretch are on disk; its chunk is not ended, and nobody knows them",
    "resync.compared": "a stretch is what was read of it; the chunk that says so is not ended",
    "resync.queued": "the order that swaps a subject is queued; nobody has begun with it",
    "resync.swapped": "a subject has its new generation; the chunk that waited for it is not ended",
    "rebuild.swapped": "in a backfill: the order of a subject is committed; the chunk that waited for it is not ended",
    "replay.read": "in a task of a replay: a file is about to be read again, fragments of others may be in scratch",
    "replay.scan": "in a task of a replay: a segment is about to be scanned and compared; scratch is full",
    "replay.compared": "a subject is replayed and compared, its scratch folder is gone; nothing is stored",
    "replay.applied": "what a replay found of a subject is queued and noted as taken over; other subjects are left",
    "enqueue.before": "notifications are in hand; the queue knows none of them",
    "enqueue.after": "the notifications are queued; whoever sent them has not heard of it",
    "consume.batch": "messages are in hand; none of their files is queued",
    "ack.before": "the files are queued; their messages are not acknowledged",
    "ack.after": "the messages are acknowledged",
    "agent.listed": "the folders are listed; no file was looked into",
    "agent.found": "files were looked into; neither state nor spool has heard of them",
    "spool.mid": "in the transaction of the state file: the files are known, nothing is spooled",
    "spool.after": "files are known and their notifications spooled; nothing is sent",
    "publish.before": "notifications were taken from the spool, which keeps them; nothing is sent",
    "publish.confirmed": "the broker has confirmed a message; others are not sent, and the spool keeps all",
    "produce.spooled": "in a program: events are on its disk; nothing is sent",
    "produce.answered": "in a program: a server has taken events; the spool still has them",
    "publish.after": "the other side has taken the notifications; the spool still has them",
}
_RULE = re.compile(
    r"(?P<name>[a-z_.]+)(\[(?P<text>[^\]]*)\])?=(?P<action>[a-z]+)(:(?P<seconds>[0-9.]+))?"
    r"(@(?P<hit>[1-9][0-9]*)|~(?P<chance>[0-9.]+))?"
)


class Action(StrEnum):
    """What strikes."""

    KILL = "kill"  # the process ends, nothing of it runs any more
    STOP = "stop"  # the process freezes until somebody sends SIGCONT
    RAISE = "raise"  # the step fails
    SLEEP = "sleep"  # the step takes long
    DROP = "drop"  # the connection of the step is cut


class InjectedError(OSError):
    """A step failed because a test wanted it to. Nothing is known to be wrong with the data."""


class HasSocket(Protocol):
    """A connection that can be cut."""

    def fileno(self) -> int:
        """The descriptor of its socket."""
        ...


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What strikes at one point, and when; `chance` is None where the number of the hit decides."""

    name: str
    text: str
    action: Action
    seconds: float
    hit: int
    chance: float | None


@dataclass
class Armoury:
    """The rules of a process, and how often it came to each point."""

    rules: tuple[Rule, ...]
    log_path: str | None = None
    seed: str = "0"
    _hits: Counter[str] = field(default_factory=Counter)
    _hits_of_rules: Counter[Rule] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - a schedule of faults

    def hit(self, name: str, about: str, connection: HasSocket | None) -> None:
        """Count, and let strike what is due."""
        if name not in POINTS:
            raise ConfigError(f"{name!r} is no failpoint; disarray.failpoints declares all of them")
        with self._lock:
            self._hits[name] += 1
            if self._hits[name] == 1:
                self._tell(name, "hit")
            due = [rule for rule in self.rules if rule.name == name and rule.text in about]
            striking = [rule for rule in due if self._strikes(rule)]
        for rule in striking:
            self._tell(name, rule.action)
            _strike(rule, connection)

    def _strikes(self, rule: Rule) -> bool:
        if rule.chance is not None:
            return self._random.random() < rule.chance
        self._hits_of_rules[rule] += 1
        return self._hits_of_rules[rule] == rule.hit

    def _tell(self, name: str, what: str) -> None:
        if self.log_path is None:
            return
        # One write, so that lines of several processes do not mix.
        descriptor = os.open(self.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, f"{time.time():.3f} {os.getpid()} {name} {what}\n".encode())
        finally:
            os.close(descriptor)


def armoury_of(environment: Mapping[str, str]) -> Armoury | None:
    """What the environment asks for; None where it asks for nothing."""
    line = environment.get("DISARRAY_FAILPOINTS", "")
    log_path = environment.get("DISARRAY_FAILPOINT_LOG")
    if not line and not log_path:
        return None
    rules = tuple(_rule(text.strip()) for text in line.split(";") if text.strip())
    return Armoury(rules, log_path, environment.get("DISARRAY_FAILPOINT_SEED", "0"))


def failpoint(name: str, connection: HasSocket | None = None, *, about: str = "") -> None:
    """Mark a step at which the process may be made to fail: `connection` is what it speaks over, `about` whom of."""
    if _armed is not None:
        _armed.hit(name, about, connection)


def _rule(text: str) -> Rule:
    found = _RULE.fullmatch(text)
    if found is None or found["name"] not in POINTS or found["action"] not in set(Action):
        raise ConfigError(
            f"DISARRAY_FAILPOINTS has {text!r}, which is no rule. Write POINT=kill|raise|stop|drop|sleep:SECONDS with "
            "@N or ~PROBABILITY; `python -m disarray.failpoints` lists the points. Nothing was started"
        )
    return Rule(
        name=found["name"],
        text=found["text"] or "",
        action=Action(found["action"]),
        seconds=float(found["seconds"] or 0),
        hit=int(found["hit"] or 1),
        chance=float(found["chance"]) if found["chance"] else None,
    )


def _strike(rule: Rule, connection: HasSocket | None) -> None:
    match rule.action:
        case Action.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        case Action.STOP:
            os.kill(os.getpid(), signal.SIGSTOP)
        case Action.RAISE:
            raise InjectedError(f"a test wanted the step {rule.name} to fail")
        case Action.SLEEP:
            time.sleep(rule.seconds)
        case Action.DROP:
            if connection is None:
                raise ConfigError(f"at {rule.name} there is no connection that could be dropped")
            # A copy of the descriptor: the connection closes its own when it finds out.
            with socket.socket(fileno=os.dup(connection.fileno())) as copy:
                copy.shutdown(socket.SHUT_RDWR)


_armed = armoury_of(os.environ)


def main() -> None:
    """Print all points as a table for the documentation."""
    sys.stdout.write("| failpoint | what has happened there, and what has not |\n|---|---|\n")
    sys.stdout.writelines(f"| `{name}` | {meaning} |\n" for name, meaning in POINTS.items())


if __name__ == "__main__":
    main()
