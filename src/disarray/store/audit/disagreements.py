"""Files that disagree, held against their readings: `disarray conflicts` tells whose count and whose do not."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, TypeAlias

from disarray.control import conflicts
from disarray.control.audit import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from disarray.control.catalog import SegmentEntry
    from disarray.control.connections import Connection
    from disarray.store.audit.ends import SegmentRows
    from disarray.store.contract import SegmentReadings

RULE = "conflicts_are_those_of_the_readings"
_ALL = 2**31 - 1

Pairs: TypeAlias = dict[tuple[str, str], int]  # winner and loser, how many readings


def load_disagreements(connection: Connection, subject_key: str) -> dict[tuple[str, int], Pairs]:
    """What is written down of a subject, by dataset and segment."""
    found: dict[tuple[str, int], Pairs] = defaultdict(dict)
    for each in conflicts.list_conflicts(connection, subject_key=subject_key, limit=_ALL):
        found[each.dataset, each.segment_us][each.winner_uri, each.loser_uri] = each.conflicts
    return found


def find_wrong_disagreements(
    read: SegmentReadings, entry: SegmentEntry, rows: SegmentRows, known: Mapping[int, Pairs], found_at: str
) -> Iterator[Finding]:
    """Files of a segment that disagree otherwise than is written down; what a commit changed since is left out."""
    segment = rows.segments.get(entry.segment_us)
    if segment is None or segment["revision"] != entry.revision:
        return
    merged: Counter[tuple[str, str]] = Counter()
    for winner, loser, count in read.conflict_pairs:
        # Two generations of a file are two sources of readings.
        merged[winner, loser] += count
    stored = known.get(entry.segment_us, {})
    for winner, loser in sorted(merged.keys() | stored.keys()):
        listed, found = stored.get((winner, loser), 0), merged[winner, loser]
        if listed != found:
            yield Finding(
                RULE, found_at, f"{found} readings of {winner} count in place of {loser}, listed are {listed}"
            )
    if segment["conflicts"] != sum(merged.values()):
        yield Finding(
            RULE, found_at, f"{sum(merged.values())} readings disagree, counted are {segment['conflicts']}"
        )


def find_lost_disagreements(rows: SegmentRows, known: Mapping[int, Pairs], subject: str) -> Iterator[Finding]:
    """Disagreements in segments that are not there."""
    for segment_us in sorted(known.keys() - rows.segments.keys()):
        yield Finding(RULE, f"{subject} {segment_us} µs", "files disagree in a segment that does not exist")
