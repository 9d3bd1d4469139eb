"""What the design says about the queue, in plain Python, without a word about how."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from disarray.control.files import Notification, Reason, Verdict
from disarray.control.queue import Lane

if TYPE_CHECKING:
    from disarray.control.queue import Holder

START = datetime(2026, 1, 1, tzinfo=UTC)
ON_PURPOSE = {
    Reason.BACKFILL,
    Reason.REBUILD,
    Reason.REINGEST,
    Reason.ALLOW,
    Reason.RELEASE,
    Reason.REMOVE,
}
MAX_RETRIES = 5


@dataclass
class Row:
    """A queue row; ``holder`` is set while it is claimed."""

    queue_id: int
    uri: str | None
    subject: str
    reason: Reason
    version: str | None
    available_at: datetime
    retry_count: int = 0
    crash_count: int = 0
    holder: Holder | None = None
    fence: int | None = None
    reasons: set[Reason] = field(default_factory=set)

    @property
    def lane(self) -> Lane:
        """Whether numbers wait for it."""
        return Lane.BACKFILL if self.reason is Reason.COMPACT else Lane.LIVE

    @property
    def target(self) -> str:
        """The file, or the subject, of which nothing else runs."""
        return self.uri or f"{self.reason} {self.subject}"


@dataclass
class File:
    """What is known of a uri; attempts are those at the announced version."""

    subject: str
    status: str = "pending"
    announced: str | None = None
    processed: str | None = None
    quiet: str | None = None
    parse_version: str | None = None
    process_count: int = 0
    retry_count: int = 0
    crash_count: int = 0
    is_listed: bool = False
    has_parked_version: bool = False


@dataclass
class Lock:
    """Who holds a subject, and until when."""

    holder: Holder
    fence: int
    expires_at: datetime


class Answer(NamedTuple):
    """What the model expects of a notification; a row that is new to it has no id yet."""

    verdict: Verdict
    row: Row | None


def merged_reason(older: Reason, newer: Reason) -> Reason:
    """What is shown of two: no announcement hides a decision, and a plain one no quiet file; else the later.

    Of 'remove' and what came after it (the file was allowed since), the later.
    """
    if Reason.REMOVE in (older, newer):
        return newer
    if newer not in ON_PURPOSE and (older in ON_PURPOSE or older is Reason.QUIET):
        return older
    return newer


class QueueModel:
    """The state of everything, and what each call makes of it."""

    def __init__(self) -> None:
        self.now = START
        self.rows: list[Row] = []
        self.files: dict[str, File] = {}
        self.locks: dict[str, Lock] = {}
        self.incarnations: dict[str, Holder] = {}
        self.patterns: dict[str, tuple[str, ...]] = {}
        self.open_ranges: dict[str, list[datetime]] = {}
        self.events: Counter[tuple[str, str | None]] = Counter()
        self.highest_fence = 0

    def waiting(self, target: str) -> Row | None:
        """The order about a target that waits."""
        return next((row for row in self.rows if row.target == target and row.holder is None), None)

    def claimed_by(self, holder: Holder) -> list[Row]:
        return [row for row in self.rows if row.holder == holder]

    def holds(self, subject: str, holder: Holder) -> bool:
        lock = self.locks.get(subject)
        return lock is not None and lock.holder == holder and lock.expires_at > self.now

    def owns(self, queue_id: int, holder: Holder) -> bool:
        return any(
            row.queue_id == queue_id and row.holder == holder and self.holds(row.subject, holder)
            for row in self.rows
        )

    def row(self, queue_id: int) -> Row:
        return next(row for row in self.rows if row.queue_id == queue_id)

    def announce(self, uri: str, given: list[Notification]) -> Answer:
        subject = given[-1].subject_key
        reason = reduce(merged_reason, (one.reason for one in given))
        metadata = {key: value for one in given for key, value in one.metadata.items()}
        version, parse_version = metadata.get("content_hash"), metadata.get("parse_version")
        file = self.files.get(uri)
        if file is not None and file.is_listed and reason is not Reason.REMOVE:
            self.events["refused_blacklisted", uri] += 1
            return Answer(Verdict.REFUSED_BLACKLISTED, None)
        if file is not None and self._is_unchanged(file, reason, version, parse_version):
            self.events["unchanged", uri] += 1
            return Answer(Verdict.UNCHANGED, None)

        is_new_version = file is None or (version is not None and version != file.announced)
        if file is None:
            file = self.files[uri] = File(subject)
        former, file.announced = file.announced, version or file.announced
        if file.process_count == 0:
            # One that was taken in belongs to whom it was read for, whatever is announced.
            file.subject = subject
        file.status = "blacklisted" if reason is Reason.REMOVE else "pending"
        if is_new_version or reason in ON_PURPOSE:
            file.retry_count = 0
        if is_new_version:
            file.crash_count = 0

        row = self.waiting(uri)
        verdict = Verdict.ENQUEUED if row is None else Verdict.MERGED
        self.events[verdict, uri] += 1
        if row is None:
            row = Row(-1, uri, subject, reason, file.announced, self.now, reasons={reason})
            self.rows.append(row)
        else:
            if is_new_version and former is not None:
                self.events["superseded", uri] += 1
            if row.version != file.announced or reason in ON_PURPOSE:
                row.available_at = min(row.available_at, self.now)
            row.reason = merged_reason(row.reason, reason)
            row.reasons.add(reason)
            row.subject, row.version = subject, file.announced
        row.retry_count, row.crash_count = file.retry_count, file.crash_count
        return Answer(verdict, row)

    @staticmethod
    def _is_unchanged(file: File, reason: Reason, version: str | None, parse_version: str | None) -> bool:
        if file.status not in ("processed", "failed", "parked") or version is None:
            return False
        if parse_version is not None and parse_version != file.parse_version:
            return False
        if reason is Reason.QUIET:
            return version == file.quiet
        return reason is Reason.FILE_NOTIFICATION and version == file.announced

    def give_back(
        self,
        row: Row,
        event: str,
        *,
        attempts: int = 1,
        crashes: int = 0,
        delay: timedelta = timedelta(),
    ) -> None:
        file = self.files.get(row.uri) if row.uri is not None else None
        counted = file if file is not None and file.announced == row.version else row
        retry_count, crash_count = counted.retry_count + attempts, counted.crash_count + crashes
        is_dead = attempts > 0 and retry_count >= MAX_RETRIES
        waiting = self.waiting(row.target)
        is_same_version = waiting is not None and waiting.version == row.version
        self.events[event, row.uri] += 1
        if is_dead:
            self.events["dead_letter", row.uri] += 1
            self.rows.remove(row)
            if waiting is not None and is_same_version and waiting.reason not in ON_PURPOSE:
                self.rows.remove(waiting)
        elif waiting is not None:
            self.rows.remove(row)
            if is_same_version:
                waiting.retry_count, waiting.crash_count = retry_count, crash_count
                if waiting.reason not in ON_PURPOSE:
                    waiting.available_at = max(waiting.available_at, self.now + delay)
            else:
                self.events["superseded", row.uri] += 1
            waiting.reason = merged_reason(row.reason, waiting.reason)
            waiting.reasons |= row.reasons
        else:
            row.holder = row.fence = None
            row.retry_count, row.crash_count = retry_count, crash_count
            if attempts > 0:
                row.available_at = self.now + delay

        if file is None:
            return
        is_queued = any(other.uri == row.uri for other in self.rows)
        if file.status != "blacklisted":
            file.status = "pending" if is_queued else "failed"
        if counted is file:
            file.crash_count = crash_count
            # Whoever asked again on purpose has a full set of attempts before them.
            file.retry_count = (
                0 if is_dead and self.waiting(row.target) is not None and is_same_version else retry_count
            )

    def reap(self, only: str | None = None) -> None:
        for subject, lock in sorted(self.locks.items()):
            name = lock.holder.instance_name
            is_former_life = self.incarnations[name] != lock.holder
            if (is_former_life or lock.expires_at <= self.now) and only in (None, name):
                for row in [row for row in self.rows if row.holder is not None and row.subject == subject]:
                    self.give_back(row, "taken_over" if is_former_life else "lease_expired", crashes=1)
                del self.locks[subject]

    def complete(self, row: Row, result: dict[str, Any]) -> None:
        self.rows.remove(row)
        self.events["completed", row.uri] += 1
        file = self.files.get(row.uri) if row.uri is not None else None
        if file is None:
            return
        read = result.get("content_hash") or row.version
        if file.announced == row.version:
            file.announced = read
        file.processed = read or file.processed
        if Reason.QUIET in row.reasons:
            file.quiet = read
        file.parse_version = result.get("parse_version", file.parse_version)
        file.process_count += 1
        file.retry_count = file.crash_count = 0
        if "outcome" in result:
            file.has_parked_version = result["outcome"] == "parked"
        elif "content_hash" in result:
            file.has_parked_version = False
        if file.status != "blacklisted":
            settled = "parked" if file.has_parked_version else "processed"
            file.status = "pending" if self.waiting(row.target) else settled

    def reconcile_rows_due(self) -> list[str]:
        queued = {row.subject for row in self.rows if row.holder is None and row.lane is Lane.LIVE}
        return [
            subject
            for subject, ranges in self.open_ranges.items()
            if ranges and subject not in self.locks and subject not in queued
        ]

    def line(self, subject: str, lane: Lane) -> list[Row]:
        """Claimable rows of a subject in a lane, oldest first."""
        running = {row.target for row in self.rows if row.holder is not None}
        ready = (
            row
            for row in self.rows
            if row.subject == subject
            and row.lane is lane
            and row.holder is None
            and row.available_at <= self.now
            and row.target not in running
        )
        return sorted(ready, key=lambda row: (row.available_at, row.queue_id))

    def may_serve(self, subject: str, holder: Holder) -> bool:
        is_bound = any(fnmatchcase(subject, pattern) for pattern in self.patterns[holder.instance_name])
        return is_bound and (subject not in self.locks or self.locks[subject].holder == holder)
