"""Once an hour: queue what is to be compacted and sealed, delete what nothing needs, forget what nobody asks for."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from disarray.control import backfills, events, housekeeping, raw_events, side_effects, subject_commits
from disarray.control.housekeeping import Forgotten
from disarray.failpoints import failpoint
from disarray.store.lake import FRAGMENT_FILE
from disarray.store.sweeping import LakeEntry, delete_entry, lake_time, list_entries
from disarray.worker.upkeep.delivery_upkeep import drop_spent_deliveries, sweep_landing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disarray.control.connections import Connection
    from disarray.worker.workplace import Workplace

log = logging.getLogger(__name__)

# Clocks of hosts may differ by this much before a file is taken for older than it is.
CLOCK_MARGIN_SECONDS = 3600.0
_PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectNeeds:
    """What housekeeping can do for a subject: segments to compact, now in so many fragments, and segments to seal."""

    subject_key: str
    cold_segments: int
    cold_fragments: int
    expired_segments: int
    expired_readings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HousekeepingReport:
    """What was done; of a rehearsal, what would be."""

    subjects: tuple[SubjectNeeds, ...]
    dead_files: int = 0
    dead_bytes: int = 0
    orphans: int = 0
    orphan_bytes: int = 0
    spent_bytes: int = 0  # of deliveries that nothing needs any more
    forgotten: Forgotten = field(default_factory=lambda: Forgotten(0, 0, 0))
    commits: int = 0  # notices for followers
    inbox_events: int = 0  # that are done, and forgotten
    side_effects: int = 0  # messages to hooks that were sent, and are forgotten
    backfills: int = 0  # that have ended, and are forgotten with their chunks
    event_months: int = 0


def keep_house(
    workplace: Workplace,
    *,
    dataset: str | None = None,
    subject_key: str | None = None,
    is_rehearsal: bool = False,
) -> HousekeepingReport | None:
    """Keep house once; None where another instance is at it. What is queued here, any worker does.

    Of one dataset or subject, only compaction and retention are looked at: the rest is not theirs alone.
    """
    with workplace.pool.connection() as connection, housekeeping.housekeeping_turn(connection) as is_our_turn:
        if not is_our_turn:
            return None
        subjects = find_needs(connection, workplace, dataset=dataset, subject_key=subject_key)
        if subjects and not is_rehearsal:
            housekeeping.queue_compaction(connection, [subject.subject_key for subject in subjects])
            failpoint("housekeeping.queued", connection)
        if dataset is not None or subject_key is not None:
            return HousekeepingReport(subjects=subjects)
        dead = vacuum(connection, workplace, is_rehearsal=is_rehearsal)
        orphans = sweep(connection, workplace, is_rehearsal=is_rehearsal)
        unnamed = sweep_landing(connection, workplace, is_rehearsal=is_rehearsal)
        rules = workplace.housekeeping
        return HousekeepingReport(
            subjects=subjects,
            dead_files=len(dead),
            dead_bytes=sum(entry.bytes for entry in dead),
            orphans=len(orphans) + len(unnamed),
            orphan_bytes=sum(entry.bytes for entry in orphans) + sum(file.bytes for file in unnamed),
            spent_bytes=drop_spent_deliveries(connection, workplace, is_rehearsal=is_rehearsal),
            forgotten=housekeeping.forget_history(
                connection,
                keep=rules.keep_history,
                keep_fragments=rules.vacuum_after,
                is_rehearsal=is_rehearsal,
            ),
            commits=subject_commits.drop_commits(
                connection, keep=rules.keep_commits, is_rehearsal=is_rehearsal
            ),
            inbox_events=raw_events.forget_raw_events(
                connection, keep=rules.keep_inbox, is_rehearsal=is_rehearsal
            ),
            side_effects=side_effects.forget_side_effects(
                connection, keep=rules.keep_effects, is_rehearsal=is_rehearsal
            ),
            backfills=backfills.forget_backfills(
                connection, keep=rules.keep_backfills, is_rehearsal=is_rehearsal
            ),
            event_months=0 if is_rehearsal else events.drop_old_events(connection, keep=rules.keep_events),
        )


def find_needs(
    connection: Connection,
    workplace: Workplace,
    *,
    dataset: str | None = None,
    subject_key: str | None = None,
) -> tuple[SubjectNeeds, ...]:
    """The subjects that housekeeping can do something for."""
    rules = workplace.housekeeping
    cold: Counter[str] = Counter()
    fragments: Counter[str] = Counter()
    expired: Counter[str] = Counter()
    readings: Counter[str] = Counter()
    for each in workplace.datasets.values():
        if dataset is not None and each.name != dataset:
            continue
        for old in housekeeping.list_expired_segments(connection, each, subject_key=subject_key):
            expired[old.subject_key] += 1
            readings[old.subject_key] += old.readings
        for segment in housekeeping.list_cold_segments(
            connection,
            each,
            cold_after=rules.cold_after,
            fragments=rules.compact_fragments,
            readings=rules.compact_readings,
            subject_key=subject_key,
        ):
            cold[segment.subject_key] += 1
            fragments[segment.subject_key] += segment.fragments
    return tuple(
        SubjectNeeds(
            subject_key=subject,
            cold_segments=cold[subject],
            cold_fragments=fragments[subject],
            expired_segments=expired[subject],
            expired_readings=readings[subject],
        )
        for subject in sorted({*cold, *expired})
    )


def vacuum(connection: Connection, workplace: Workplace, *, is_rehearsal: bool = False) -> list[LakeEntry]:
    """Delete the files that no fragment has needed for a while.

    Doomed in the catalog first, deleted then, forgotten last: wherever this ends, no commit can name a file that is
    gone, and the next vacuum goes on from there.
    """
    keep = workplace.housekeeping.vacuum_after
    if is_rehearsal:
        dead = housekeeping.list_dead_lake_files(connection, keep=keep)
        return [LakeEntry(file.path, file.bytes) for file in dead]
    doomed = [
        LakeEntry(file.path, file.bytes)
        for file in housekeeping.doom_lake_files(connection, keep=keep)
        # A path that we do not make would lead out of the lake.
        if FRAGMENT_FILE.fullmatch(file.path)
    ]
    if doomed:
        failpoint("vacuum.doomed", connection)
    for page in _pages(doomed):
        for entry in page:
            delete_entry(workplace.lake, entry)
            failpoint("vacuum.deleted", connection, about=entry.path)
        housekeeping.forget_lake_files(connection, [entry.path for entry in page])
    return doomed


def sweep(connection: Connection, workplace: Workplace, *, is_rehearsal: bool = False) -> list[LakeEntry]:
    """Delete what runs that died left in the lake: old enough, named by no commit, and by no run under way."""
    least_age = workplace.housekeeping.vacuum_after.total_seconds()
    claim_age = housekeeping.oldest_claim_age(connection)
    if claim_age is not None:
        # A run writes after it claimed: whatever is older than every claim can be named by no commit to come.
        # Ages, because the clocks of the database and of the lake may not agree on what time it is. This host's
        # clock is not asked: a day ahead, it would take the files of a run under way for orphans.
        least_age = max(least_age, claim_age.total_seconds() + CLOCK_MARGIN_SECONDS)
    written_before = lake_time(workplace.lake) - least_age
    swept: list[LakeEntry] = []
    for page in _pages(list(list_entries(workplace.lake, written_before=written_before))):
        unknown = set(housekeeping.find_unknown_lake_files(connection, [entry.path for entry in page]))
        for entry in page:
            if entry.path in unknown:
                if not is_rehearsal:
                    delete_entry(workplace.lake, entry)
                    failpoint("sweep.deleted", connection, about=entry.path)
                swept.append(entry)
    return swept


def _pages(entries: Sequence[LakeEntry]) -> Iterator[Sequence[LakeEntry]]:
    for start in range(0, len(entries), _PAGE):
        yield entries[start : start + _PAGE]
