"""The ledger of restatements held against the values of today, wherever no later commit touched them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from disarray.control.audit import Finding
from disarray.kernels.scanning.running_values import Base, values_from
from disarray.model.description.format import EVENT_US
from disarray.model.segments import datetime_of, segment_start
from disarray.store.audit.bases import joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from disarray.control.audit_catalog import ChainLink
    from disarray.control.audit_ledger import SettledRestatement
    from disarray.model.description.dataset import Dataset
    from disarray.store.contract import SegmentReadings

RULE = "restatements_lead_to_the_values_of_today"
_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


@dataclass(slots=True, kw_only=True)
class NotedValues:
    """Values of one dataset of a subject that the ledger promises, by the segment that their instant lies in.

    Where a channel has no readings in that segment, its value is that of the segment before: these are `elsewhere`.
    """

    dataset: Dataset
    subject_key: str
    chains: Mapping[tuple[str, str], Sequence[ChainLink]]  # by metric and channel, in the order of time
    heads: Mapping[tuple[str, str, int], ChainLink]  # by metric, channel and segment
    by_segment: dict[int, list[SettledRestatement]] = field(default_factory=lambda: defaultdict(list))
    elsewhere: list[SettledRestatement] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        subject_key: str,
        *,
        links: Iterable[ChainLink],
        noted: Iterable[SettledRestatement],
        stale_from_us: int | None,
    ) -> NotedValues:
        """Those of a dataset that are not known to be stale."""
        chains: dict[tuple[str, str], list[ChainLink]] = defaultdict(list)
        heads = {}
        for link in links:
            if link.dataset == dataset.name:
                chains[link.metric, link.channel].append(link)
                if link.piece == 0:
                    heads[link.metric, link.channel, link.segment_us] = link
        found = cls(dataset=dataset, subject_key=subject_key, chains=chains, heads=heads)
        for each in noted:
            if each.dataset != dataset.name or (stale_from_us is not None and each.at_us >= stale_from_us):
                continue
            segment_us = segment_start(each.at_us, dataset.segment_length_us)
            if (each.metric, each.channel, segment_us) in heads:
                found.by_segment[segment_us].append(each)
            else:
                found.elsewhere.append(each)
        return found

    def find_wrong_ends(self) -> Iterator[Finding]:
        """Values between segments that are not the last ones of the segment before."""
        for each in self.elsewhere:
            today = self._value_before(each, each.at_us + 1)
            if today != each.new:
                yield self._finding(each, today)

    def find_wrong_values(self, read: SegmentReadings, segment_us: int) -> Iterator[Finding]:
        """Values in a segment that are not those of its readings, folded once more."""
        wanted: dict[str, list[SettledRestatement]] = defaultdict(list)
        for each in self.by_segment.get(segment_us, ()):
            wanted[each.metric].append(each)
        if not wanted:
            return
        event_us = read.readings.column(EVENT_US).to_numpy()
        for metric in self.dataset.metrics:
            if metric.name not in wanted:
                continue
            bases = [_base_of(self.heads.get((metric.name, name, segment_us))) for name in read.channels]
            values = values_from(read.locals_of(metric), metric, bases, read.channel).to_pylist()
            for each in wanted[metric.name]:
                if each.channel not in read.channels:
                    yield self._finding(each, None)
                    continue
                own = read.indices(each.channel)
                begin, end = (int(np.searchsorted(event_us[own], each.at_us, side)) for side in _SIDES)
                # Of several readings at one instant, a span may begin or end with any of them.
                today = [values[place] for place in own[min(begin, max(end - 1, 0)) : end]]
                if not end:
                    # Not what the segment begins with: that may be a reset.
                    today = [self._value_before(each, segment_us)]
                if each.new not in today:
                    yield self._finding(each, today[-1])

    def _value_before(self, noted: SettledRestatement, segment_us: int) -> float | None:
        """The value after the last segment that begins before this one, and that the channel has readings in."""
        own = self.chains.get((noted.metric, noted.channel), ())
        begun = bisect_left(own, segment_us, key=lambda link: link.segment_us)
        return _value_after(own[begun - 1]) if begun else None

    def _finding(self, noted: SettledRestatement, today: float | None) -> Finding:
        of_channel = f" of {noted.channel}" if noted.channel else ""
        return Finding(
            RULE,
            f"{self.dataset.name}/{self.subject_key} {datetime_of(noted.at_us):%Y-%m-%dT%H:%M:%SZ}",
            f"{noted.metric}{of_channel}: noted was {noted.new}, it is {today}, and no commit since changed it",
        )


def _base_of(head: ChainLink | None) -> Base:
    if head is None:
        return Base(None, None)
    if head.is_integer:
        return Base(head.before_int, head.base_int)
    return Base(head.before_float, head.base_float)


def _value_after(link: ChainLink) -> float | None:
    """The value of a metric after the last reading of a segment."""
    if link.is_integer:
        base: float | None = link.base_int
        total: float | None = link.total_int
    else:
        base, total = link.base_float, link.total_float
    return joined(link, base, total)
