"""What of a pass goes into one commit: files that make too many rows together are committed a few at a time.

A file is never cut: readers see all of it or nothing, so one that makes more rows than this by itself is one commit all
the same, which streams for longer.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, assert_never

from disarray.model.description.rollups import BucketKind
from disarray.model.duration import DAY

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from disarray.kernels.fragments.fragment_writer import Fragment
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.rollups import Bucket
    from disarray.worker.passes.work import Work

# Summaries of one commit, or as much of rollup parts: half a minute of the server's work at most.
COMMIT_ROWS = 500_000
# So many rollup parts are stored, and their buckets named, while one summary is stored and its base is shifted.
PARTS_A_ROW = 10


def in_commits(work: Iterable[Work], *, whole: Container[str]) -> list[list[Work]]:
    """The work of a pass in parts that are planned, scanned and committed one after the other.

    Most often that is one part. The subjects in `whole` are not spread over several. What ends first comes first, so
    that each part continues the one before it where files do.
    """
    by_subject: dict[str, list[Work]] = defaultdict(list)
    for each in work:
        by_subject[each.item.subject_key].append(each)
    parts: list[list[Work]] = [[]]
    for subject, own in by_subject.items():
        for number, group in enumerate([own] if subject in whole else _groups(own)):
            if number == len(parts):
                parts.append([])
            parts[number] += group
    return parts


def expected_rows(dataset: Dataset, fragments: Iterable[Fragment]) -> int:
    """How many summaries a scan of these fragments alone would give, at most, and rollup parts counted as such."""
    rows = parts = 0
    for fragment in fragments:
        rows += len(dataset.metrics) * fragment.channels
        for rollup in dataset.rollups:
            buckets = _buckets(rollup.bucket, fragment.last_us - fragment.first_us)
            parts += len(rollup.aggregates) * min(fragment.readings, fragment.channels * buckets)
    return rows + -(-parts // PARTS_A_ROW)


def _groups(work: Sequence[Work]) -> list[list[Work]]:
    weights = [_rows(each) for each in work]
    if sum(weights) <= COMMIT_ROWS:
        return [list(work)]
    groups: list[list[Work]] = [[]]
    held = 0
    for weight, each in sorted(zip(weights, work, strict=True), key=lambda pair: _end_us(pair[1])):
        if groups[-1] and held + weight > COMMIT_ROWS:
            groups.append([])
            held = 0
        groups[-1].append(each)
        held += weight
    return groups


def _rows(work: Work) -> int:
    dataset = work.assignment.dataset
    return 0 if dataset is None or work.outcome is None else expected_rows(dataset, work.outcome.fragments)


def _end_us(work: Work) -> int:
    fragments = () if work.outcome is None else work.outcome.fragments
    return max((fragment.last_us for fragment in fragments), default=-(1 << 63))


def _buckets(bucket: Bucket, span_us: int) -> int:
    """In how many buckets a span can lie: whole ones, and one that is cut at either end."""
    match bucket.kind:
        case BucketKind.CLOCK:
            length_us = bucket.length_us or DAY
        case BucketKind.DAY | BucketKind.SHIFTS:
            length_us = DAY
        case BucketKind.WEEK:
            length_us = 7 * DAY
        case BucketKind.MONTH:
            length_us = 28 * DAY
        case _:
            assert_never(bucket.kind)
    # A day may be an hour shorter than others.
    return (span_us // (length_us - length_us // 24) + 2) * max(1, len(bucket.shifts))
