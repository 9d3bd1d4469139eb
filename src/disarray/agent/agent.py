"""The agent: scan, spool, hand over, again and again; one step at a time, so that tests need no waiting."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from disarray.agent.monitoring import AgentFigures
from disarray.agent.scanner import Scanner
from disarray.agent.schedule import Schedule
from disarray.errors import StateFileUnusableError, TransportUnavailableError
from disarray.failpoints import failpoint
from disarray.model.backoff import Backoff

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from disarray.agent.scanner import EmptyGlob, ScanReport
    from disarray.agent.settings import AgentSettings
    from disarray.agent.state import StateFile
    from disarray.broker.transport import Transport
    from disarray.model.description.dataset import Dataset

log = logging.getLogger(__name__)

_SENT_AT_ONCE = 500
_UNROUTABLE_PAUSE_US = 30_000_000
_LONGEST_NAP_US = 1_000_000
# Each try reads files that cannot be noted: not every second.
_FULL_DISK_PAUSE_US = 10_000_000
# Enough for a person to see the pattern; a share full of links must not fill the log or the memory.
_MOST_REPORTED = 10_000


@dataclass(slots=True)
class AgentCounts:
    """What the agent did so far."""

    scans: int = 0
    files: int = 0  # in the last scan
    notifications: int = 0
    delivered: int = 0
    refused: int = 0  # files and notifications that can never be taken
    bytes_read: int = 0
    left_files: int = 0  # in the last scan: changed, and not looked into yet
    unreadable: int = 0  # in the last scan
    transport_failures: int = 0
    state_file_failures: int = 0


@dataclass(frozen=True, slots=True)
class RootsReport:
    """What lies under the roots and could not be announced, after everything else was."""

    is_sent: bool
    unreadable: Mapping[str, str] = field(default_factory=dict)  # by path, with the reason
    refused: Mapping[str, str] = field(
        default_factory=dict
    )  # the same: files that no dataset can ever take so
    unmatched: Sequence[str] = ()  # paths that no dataset takes
    empty_globs: Sequence[EmptyGlob] = ()

    @property
    def is_complete(self) -> bool:
        """Whether everything could be read and was sent."""
        return self.is_sent and not self.unreadable


class Agent:
    """Watches the roots of some datasets and announces what is new to a transport."""

    def __init__(
        self,
        datasets: Sequence[Dataset],
        settings: AgentSettings,
        *,
        state: StateFile,
        transport: Transport,
        clock_us: Callable[[], int],
    ) -> None:
        self.counts = AgentCounts()
        self._state = state
        self._transport = transport
        self._clock_us = clock_us
        self._scanner = Scanner(datasets, settings, state, clock_us=clock_us)
        self._schedule = Schedule(settings.tiers, scan_every_us=settings.scan_every_us)
        self._backoff = Backoff()
        self._send_from_us = 0
        self._held_subjects: dict[str, int] = {}
        self._reported: dict[str, str] = {}
        self._away: dict[str, str] = {}
        self._was_full = False
        self._stuck_until_us = 0
        self._is_stopped: Callable[[], bool] = lambda: False
        # Up to which number of the spool there was something, and when: by this the age of what waits is told.
        self._spooled_by = [(state.waiting_numbers()[1], clock_us())]
        self.figures = AgentFigures(stepped_us=clock_us())

    @property
    def backlog_bytes(self) -> int:
        """What waits in the spool."""
        return self._state.spooled_bytes

    def step(self) -> float:
        """Do what is due; the seconds until something is due again. A disk that is full is waited for."""
        now_us = self._clock_us()
        if now_us < self._stuck_until_us:
            self._transport.idle()
            return min(_LONGEST_NAP_US, self._stuck_until_us - now_us) / 1e6
        try:
            until_next = self._step()
            self._note_figures()
        except StateFileUnusableError as error:
            self.counts.state_file_failures += 1
            if not self._stuck_until_us:
                log.warning("%s", error)
            self._stuck_until_us = self._clock_us() + _FULL_DISK_PAUSE_US
            return _LONGEST_NAP_US / 1e6
        if self._stuck_until_us:
            self._stuck_until_us = 0
            log.info("the state file can be used again")
        return until_next

    def _step(self) -> float:
        if self._schedule.until_next_us(self._clock_us()) <= 0:
            self.scan()
        if self._clock_us() >= self._send_from_us:
            self.deliver()
        self._transport.idle()
        now_us = self._clock_us()
        waits = [_LONGEST_NAP_US, self._schedule.until_next_us(now_us)]
        if self._state.spooled_bytes:
            waits.append(self._send_from_us - now_us)
        return max(0, min(waits)) / 1e6

    def scan(self, *, is_final: bool = False) -> ScanReport:
        """Scan once, now."""
        report = self._scanner.scan(
            self._schedule.begin(self._clock_us()), is_final=is_final, is_stopped=self._is_stopped
        )
        has_more = report.left_over > 0 and not report.is_spool_full
        self._schedule.end(self._clock_us(), listing_us=report.listing_us, has_more=has_more)
        self.counts.scans += 1
        self.counts.files = report.files
        self.counts.notifications += report.notifications
        self.counts.bytes_read += report.bytes_read
        self.counts.left_files = report.left_over
        self.counts.unreadable = len(report.troubles.unreadable)
        if report.notifications:
            self._spooled_by.append((self._state.waiting_numbers()[1], self._clock_us()))
        self._tell(report)
        return report

    def deliver(self) -> bool:
        """Hand over what is in the spool, oldest first; whether all of it went."""
        now_us = self._clock_us()
        self._held_subjects = {key: until for key, until in self._held_subjects.items() if until > now_us}
        try:
            while waiting := self._state.waiting(_SENT_AT_ONCE, except_subjects=self._held_subjects):
                failpoint("publish.before")
                receipt = self._transport.publish(waiting)
                failpoint("publish.after")
                self._state.sent([*receipt.delivered, *receipt.refused])
                self.counts.delivered += len(receipt.delivered)
                self.counts.refused += len(receipt.refused)
                for id_, reason in receipt.refused.items():
                    log.error("notification %s can never be taken and was dropped: %s", id_, reason)
                for subject in receipt.unroutable_subjects:
                    self._held_subjects[subject] = now_us + _UNROUTABLE_PAUSE_US
        except TransportUnavailableError as error:
            self.counts.transport_failures += 1
            delay_s = self._backoff.failed()
            self._send_from_us = self._clock_us() + int(delay_s * 1e6)
            log.warning("%s %d bytes wait; trying again in %.1f s", error, self.backlog_bytes, delay_s)
            return False
        self._backoff.succeeded()
        return not self._held_subjects

    def drain(self, *, is_final: bool = False, stop: threading.Event | None = None) -> RootsReport:
        """Scan until nothing is left over and send all of it; what could not be read, sent or matched.

        `is_final`: no file will grow any more, so the last, unterminated lines count too.
        """
        if stop is not None:
            self._is_stopped = stop.is_set
        refused: dict[str, str] = {}
        self._schedule.look_at_all_next()
        while True:
            report = self.scan(is_final=is_final)
            refused |= report.troubles.refused
            is_sent = self.deliver()
            if not is_sent or not report.left_over or self._is_stopped():
                break
            self._schedule.look_at_all_next()
        unreadable = report.troubles.unreadable
        refused = self._scanner.nameless_files() | refused
        return RootsReport(
            is_sent and not report.left_over,
            unreadable=unreadable,
            refused=refused,
            unmatched=sorted(path for path in self._scanner.unmatched_files() if path not in refused),
            empty_globs=self._scanner.empty_globs(except_roots=unreadable, refused=refused),
        )

    def run(self, stop: threading.Event) -> None:
        """Step until told to stop; what was found is in the spool by then."""
        self._is_stopped = stop.is_set
        while not stop.is_set():
            stop.wait(self.step())

    def _note_figures(self) -> None:
        """Tell other threads how the agent fares: they must not ask the state file."""
        pending = self._state.unsent
        first, _ = self._state.waiting_numbers()
        self._spooled_by = [each for each in self._spooled_by if each[0] >= first] if pending else []
        counts = self.counts
        self.figures = AgentFigures(
            stepped_us=self._clock_us(),
            scans=counts.scans,
            scanned_files=counts.files,
            left_files=counts.left_files,
            unreadable=counts.unreadable,
            notifications=counts.notifications,
            published=counts.delivered,
            pending=pending,
            spool_bytes=self.backlog_bytes,
            bytes_read=counts.bytes_read,
            unannounced_since_us=self._spooled_by[0][1] if self._spooled_by else None,
            refused=counts.refused,
            transport_failures=counts.transport_failures,
            state_file_failures=counts.state_file_failures,
        )

    def _tell(self, report: ScanReport) -> None:
        for path, reason in report.troubles.refused.items():
            if self._reported.get(path) != reason and len(self._reported) < _MOST_REPORTED:
                self._reported[path] = reason
                self.counts.refused += 1
                log.warning("refused %r: %s", path, reason)
        self._tell_changes(report.troubles.unreadable)
        if report.is_spool_full and not self._was_full:
            log.warning(
                "the spool is full (%d bytes): files wait where they are until it empties", self.backlog_bytes
            )
        self._was_full = report.is_spool_full
        if report.notifications:
            log.info("%d files, %d notifications", report.files, report.notifications)

    def _tell_changes(self, unreadable: Mapping[str, str]) -> None:
        for path, reason in unreadable.items():
            if self._away.get(path) != reason:
                log.warning(
                    "cannot read %s (%s); what is known of it stays, and it is tried again", path, reason
                )
        for path in self._away.keys() - unreadable.keys():
            log.info("%s can be read again, or is gone", path)
        self._away = dict(list(unreadable.items())[:_MOST_REPORTED])
