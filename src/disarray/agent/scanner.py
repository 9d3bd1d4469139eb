"""The agent's own scan: what is under the roots is the truth, whatever anybody announced.

File-system events are not used: they do not cross NFS or SMB, they overflow in silence, and a scan twice a second
is as fast as the rest of the pipeline.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from disarray.agent.file_inspection import Begun, take
from disarray.agent.hashing import Allowance, HashingPausedError
from disarray.agent.listing import Troubles, list_folders, name_filter
from disarray.agent.memory import Memory
from disarray.agent.records import Candidate, Concern, inode_of
from disarray.errors import DisarrayError
from disarray.failpoints import failpoint
from disarray.model.matching import match_file, matches_glob
from disarray.model.uris import file_uri

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Sequence

    from disarray.agent.records import Finding
    from disarray.agent.settings import AgentSettings
    from disarray.agent.state import StateFile
    from disarray.model.description.dataset import Dataset

log = logging.getLogger(__name__)

AgeSpans = tuple[tuple[int, int], ...]
_FINDINGS_A_COMMIT = 500
_REVIEWED_A_SCAN = 2_000
_BEGUN_AT_ONCE = 16
_NAMELESS = "its preamble names no subject and has no end"


@dataclass(slots=True)
class ScanReport:
    """What one scan saw and did."""

    files: int = 0
    notifications: int = 0
    bytes_read: int = 0
    listing_us: int = 0
    left_over: int = 0  # files that were not looked into for want of budget or room in the spool
    is_spool_full: bool = False
    roots_away: list[str] = field(default_factory=list)
    troubles: Troubles = field(default_factory=Troubles)


@dataclass(frozen=True, slots=True)
class EmptyGlob:
    """A pattern of a dataset's files that none of the files known here matches."""

    dataset: Dataset
    glob: str


class Scanner:
    """Compares the roots with what is known, and spools what is new about them."""

    def __init__(
        self,
        datasets: Sequence[Dataset],
        settings: AgentSettings,
        state: StateFile,
        *,
        clock_us: Callable[[], int],
    ) -> None:
        self._datasets = {dataset.name: dataset for dataset in datasets}
        self._settings = settings
        self._state = state
        self._clock_us = clock_us
        # Files that a source delivers are queued by it, or are left over from a batch that never was.
        watched = [dataset for dataset in datasets if not dataset.is_delivered]
        self._roots = tuple(dict.fromkeys(root for dataset in watched for root in dataset.roots))
        self._is_ignored = name_filter(settings.ignore)
        self._memory = Memory(state, datasets)
        self._settled_roots: set[str] = set()
        self._left_over: dict[str, Candidate] = {}  # new files that were matched, and not looked into yet
        self._begun: dict[str, Begun] = {}  # large files, hashed in part
        self._is_stopped: Callable[[], bool] = lambda: False

    def scan(
        self, due: AgeSpans, *, is_final: bool = False, is_stopped: Callable[[], bool] = lambda: False
    ) -> ScanReport:
        """List every root, look into what changed among the files that are `due`, and spool notifications.

        When the spool is full the rest stays as it is on disk and is found by a later scan: the roots themselves
        are the backlog. `is_stopped` is asked before every block: what is left over then is found by the next life.
        """
        self._is_stopped = is_stopped
        report = ScanReport(is_spool_full=self._state.spooled_bytes >= self._settings.spool_bytes)
        began_us = self._clock_us()
        candidates: list[Candidate] = []
        listed: list[str] = []
        for root in self._roots:
            try:
                candidates += self._list_root(root, due, report, is_final=is_final)
                listed.append(root)
            except OSError as error:
                # Not a hundred thousand vanished files: all that is known of them stays.
                report.roots_away.append(root)
                report.troubles.unreadable[root] = error.strerror or str(error)
        self._memory.drop_long_absent(began_us, self._settings.forget_after_us)
        report.listing_us = max(0, self._clock_us() - began_us)
        self._left_over.clear()
        candidates.sort(key=lambda candidate: candidate.urgency)
        failpoint("agent.listed")
        self._take_all(candidates, report, budget_bytes=self._settings.read_budget_bytes, is_final=is_final)
        if not report.left_over:
            self._settled_roots.update(listed)
            left_over = report.left_over
            budget_bytes = self._settings.review_budget_bytes
            self._take_all(self._reviews(), report, budget_bytes=budget_bytes, is_final=is_final)
            report.left_over = left_over  # reviews can wait
        return report

    def unmatched_files(self) -> list[str]:
        """The files under the roots that were given to no dataset, refused ones among them."""
        return self._memory.strangers()

    def nameless_files(self) -> dict[str, str]:
        """Complete files whose subject is nowhere in their preamble, found in this life of the agent or before."""
        return dict.fromkeys(self._memory.nameless(), _NAMELESS)

    def empty_globs(self, *, except_roots: Container[str], refused: Collection[str]) -> list[EmptyGlob]:
        """The patterns that match no file, known or refused; a root that cannot be listed may have some."""
        known: dict[str, list[str]] = {}
        for folder, name, file in self._memory.all_files():
            known.setdefault(file.dataset, []).append(f"{folder.rstrip('/')}/{name}")
        return [
            EmptyGlob(dataset, glob)
            for dataset in self._datasets.values()
            if not dataset.is_delivered
            if not any(root in except_roots for root in dataset.roots)
            for glob in dataset.files
            if not any(
                matches_glob(path, dataset.roots, glob)
                for path in chain(known.get(dataset.name, ()), refused)
            )
        ]

    def _list_root(self, root: str, due: AgeSpans, report: ScanReport, *, is_final: bool) -> list[Candidate]:
        others = frozenset(self._roots) - {root}
        candidates: list[Candidate] = []
        visited = set()
        folders = list_folders(
            root,
            familiar=self._memory.folder,
            is_ignored=self._is_ignored,
            others=others,
            troubles=report.troubles,
        )
        for folder, entries in folders:
            visited.add(folder)
            report.files += len(entries)
            candidates += self._look(folder, entries, due, report, is_final=is_final)
        if root not in report.troubles.unreadable:
            self._memory.note_absent_folders(
                root, visited, unreadable=report.troubles.unreadable, now_us=self._clock_us()
            )
        return candidates

    def _look(
        self,
        folder: str,
        entries: Sequence[os.DirEntry[str]],
        due: AgeSpans,
        report: ScanReport,
        *,
        is_final: bool,
    ) -> list[Candidate]:
        """The files of one folder that have to be looked into; everything that idle scans cost happens here."""
        now_us = self._clock_us()
        known_files = self._memory.folder(folder)
        candidates = []
        present = 0
        for entry in entries:
            known = known_files.get(entry.name)
            if known is None:
                if entry.name in known_files:  # known to be of no dataset
                    present += 1
                elif (new := self._new_candidate(folder, entry, report)) is not None:
                    candidates.append(new)
                continue
            present += 1
            age_us = now_us - known.changed_us
            if age_us < 0:  # the clock was set back
                known.changed_us, age_us = now_us, 0
            dataset = self._datasets[known.dataset]
            is_due_quiet = not known.is_quiet and (is_final or age_us >= dataset.quiet_after_us)
            for low_us, high_us in due:
                if low_us <= age_us < high_us:
                    break
            else:
                if not is_due_quiet:
                    continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError as error:
                _note(report, entry.path, error)
                continue
            if not known.is_like(status):
                concern = Concern.CHANGED
            elif is_due_quiet:
                concern = Concern.QUIET
            else:
                continue
            candidates.append(
                Candidate(concern, folder, entry.name, dataset, known.subject, known, status.st_mtime_ns)
            )
        if present < len(known_files) or self._memory.misses_files_of(folder):
            self._memory.note_absent_files(folder, {entry.name for entry in entries}, now_us=now_us)
        return candidates

    def _new_candidate(self, folder: str, entry: os.DirEntry[str], report: ScanReport) -> Candidate | None:
        try:
            if (left_over := self._left_over.get(entry.path)) is not None:
                return left_over
            match = match_file(file_uri(entry.path), tuple(self._datasets.values()))
            if match is not None and not match.dataset.is_delivered:
                mtime_ns = entry.stat(follow_symlinks=False).st_mtime_ns
                return Candidate(
                    Concern.NEW, folder, entry.name, match.dataset, match.subject, None, mtime_ns
                )
        except OSError as error:
            _note(report, entry.path, error)
            return None
        except DisarrayError as error:
            report.troubles.refused[entry.path] = str(error)
        self._memory.remember_stranger(folder, entry.name)
        return None

    def _reviews(self) -> Iterable[Candidate]:
        """A few files at a time, round and round: to be hashed whole again, or announced again."""
        now_us = self._clock_us()
        for folder, name, known in self._memory.next_round(_REVIEWED_A_SCAN):
            if known.subject is None or self._memory.is_absent(folder, name):
                continue
            if now_us - known.hashed_us >= self._settings.deep_rescan_us:
                concern = Concern.REVIEW
            elif now_us - known.announced_us >= self._settings.announce_again_us:
                concern = Concern.REMINDER
            else:
                continue
            dataset = self._datasets[known.dataset]
            yield Candidate(concern, folder, name, dataset, known.subject, known, known.mtime_ns)

    def _take_all(
        self, candidates: Iterable[Candidate], report: ScanReport, *, budget_bytes: int, is_final: bool
    ) -> None:
        findings: list[Finding] = []
        taken = read = 0
        allowance = Allowance(budget_bytes, self._is_stopped)
        for candidate in candidates:
            if (
                taken >= self._settings.read_budget_files
                or allowance.bytes_left <= 0
                or report.is_spool_full
                or self._is_stopped()
            ):
                self._leave_over(candidate, report)
                continue
            taken += 1
            finding = self._take(candidate, report, allowance=allowance, is_final=is_final)
            if finding is None:
                continue
            read += finding.bytes_read
            findings.append(finding)
            if len(findings) == _FINDINGS_A_COMMIT:
                self._commit(findings, report)
                findings = []
        self._commit(findings, report)
        report.bytes_read += read

    def _leave_over(self, candidate: Candidate, report: ScanReport) -> None:
        report.left_over += 1
        if candidate.concern is Concern.NEW:
            self._left_over[candidate.path] = candidate

    def _take(
        self, candidate: Candidate, report: ScanReport, *, allowance: Allowance, is_final: bool
    ) -> Finding | None:
        now_us = self._clock_us()
        is_backlog = candidate.concern is Concern.NEW and not any(
            candidate.path.startswith(f"{root.rstrip('/')}/") for root in self._settled_roots
        )
        try:
            finding = take(
                candidate,
                former_content=self._state.content,
                now_us=now_us,
                is_backlog=is_backlog,
                is_final=is_final,
                begun=self._begun.pop(candidate.path, None),
                allowance=allowance,
            )
        except HashingPausedError as paused:
            self._begin(candidate, paused)
            self._leave_over(candidate, report)
            return None
        except FileNotFoundError:
            return None  # gone between listing and looking
        except (OSError, EOFError) as error:
            report.troubles.unreadable[candidate.path] = str(error)
            return None
        except DisarrayError as error:
            report.troubles.refused[candidate.path] = str(error)
            self._memory.remember_refused(candidate, now_us)
            return None
        if finding.known.subject is None and finding.known.is_quiet:
            report.troubles.refused[candidate.path] = _NAMELESS
        return finding

    def _begin(self, candidate: Candidate, paused: HashingPausedError) -> None:
        """Keep what is hashed of a large file; only of a few, so that a share full of them takes no memory."""
        while len(self._begun) >= _BEGUN_AT_ONCE:
            del self._begun[next(iter(self._begun))]
        with suppress(OSError):
            status = os.stat(candidate.path, follow_symlinks=False)  # noqa: PTH116 - no Path for a path at hand
            self._begun[candidate.path] = Begun(
                paused.begun, inode_of(status), status.st_size, status.st_mtime_ns
            )

    def _commit(self, findings: list[Finding], report: ScanReport) -> None:
        if not findings:
            return
        failpoint("agent.found")
        self._state.commit(findings)
        failpoint("spool.after")
        for finding in findings:
            self._memory.remember(finding)
            report.notifications += finding.notification is not None
        report.is_spool_full = self._state.spooled_bytes >= self._settings.spool_bytes


def _note(report: ScanReport, path: str, error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        report.troubles.unreadable[path] = error.strerror or str(error)
