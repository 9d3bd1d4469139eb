"""When segments and their series begin and end, held against their readings: horizon and "as of" follow from it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from disarray.control.audit import Finding
from disarray.model.description.format import EVENT_US, POSITION
from disarray.model.segments import datetime_of
from disarray.store.fragments import read_own_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from disarray.control.catalog import SegmentEntry
    from disarray.control.verification import StoredSubject
    from disarray.kernels.fragments.fragment_reader import FragmentReader
    from disarray.model.fragments import FragmentEntry
    from disarray.store.contract import SegmentReadings
    from disarray.store.lake import Lake

RULE = "segments_say_when_they_begin_and_end"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """Segments of one subject and dataset with their summaries, seen at one moment."""

    segments: Mapping[int, Row]
    summaries: Mapping[int, Sequence[Row]]

    @classmethod
    def of(cls, stored: StoredSubject, dataset: str) -> SegmentRows:
        """Those of a dataset."""
        summaries: dict[int, list[Row]] = defaultdict(list)
        for row in stored.summaries.get(dataset, ()):
            summaries[row["segment_us"]].append(row)
        return cls({row["segment_us"]: row for row in stored.segments.get(dataset, ())}, summaries)


def find_wrong_ends(rows: SegmentRows, subject: str, *, length_us: int) -> Iterator[Finding]:
    """Segments that do not begin and end with their series; also of sealed ones, whose readings are gone."""
    for segment_us, segment in rows.segments.items():
        own = [row for row in rows.summaries.get(segment_us, ()) if row["first_reading_us"] is not None]
        found_at = f"{subject} {datetime_of(segment_us):%Y-%m-%dT%H:%M:%SZ}"
        first = min((row["first_reading_us"] for row in own), default=segment["first_us"])
        last = max((row["last_reading_us"] for row in own), default=segment["last_us"])
        if segment["segment_end_us"] != segment_us + length_us:
            yield Finding(RULE, found_at, f"it ends at {segment['segment_end_us']} µs")
        elif not segment_us <= segment["first_us"] <= segment["last_us"] < segment["segment_end_us"]:
            yield Finding(RULE, found_at, "it begins or ends outside of itself")
        elif (segment["first_us"], segment["last_us"]) != (first, last):
            yield Finding(
                RULE,
                found_at,
                f"from {segment['first_us']} to {segment['last_us']} µs, and its series from {first} to {last}",
            )


def find_wrong_summaries(
    read: SegmentReadings, entry: SegmentEntry, rows: SegmentRows, found_at: str
) -> Iterator[Finding]:
    """Numbers of readings and instants in a segment and its summaries that are not those of its readings.

    What a commit changed since the rows were looked up is left out.
    """
    segment = rows.segments.get(entry.segment_us)
    if segment is None or segment["revision"] != entry.revision:
        return
    event_us = read.readings.column(EVENT_US).to_numpy()
    ends = len(event_us), int(event_us[0]), int(event_us[-1])
    if ends != (segment["readings"], segment["first_us"], segment["last_us"]):
        yield Finding(RULE, found_at, f"readings, first and last are {ends}")
    # By channel, still in the order of time.
    order = np.argsort(read.channel, kind="stable")
    starts = np.searchsorted(read.channel[order], np.arange(len(read.channels) + 1))
    by_channel = {
        name: event_us[order[starts[number] : starts[number + 1]]]
        for number, name in enumerate(read.channels)
    }
    for row in rows.summaries.get(entry.segment_us, ()):
        own = by_channel.get(row["channel"])
        count = row["readings"]
        if own is None or not 0 < count <= len(own):
            yield Finding(
                RULE, found_at, f"{row['metric']} of channel '{row['channel']}' has no such readings"
            )
            continue
        # The first piece goes up to a reset, the last one begins with one; either may be all of it.
        part = own[:count] if row["piece"] == 0 else own[len(own) - count :]
        if (int(part[0]), int(part[-1])) != (row["first_reading_us"], row["last_reading_us"]):
            yield Finding(
                RULE,
                found_at,
                f"{row['metric']} of channel '{row['channel']}' goes from {part[0]} to {part[-1]} µs, not from "
                f"{row['first_reading_us']} to {row['last_reading_us']}",
            )
        reset_us = int(own[count]) if row["piece"] == 0 and count < len(own) else None
        # Summaries from before this was kept do not know it.
        if row["reset_us"] not in (None, reset_us):
            yield Finding(
                RULE,
                found_at,
                f"the first reset of {row['metric']} of channel '{row['channel']}' is at {row['reset_us']} µs, not at "
                f"{reset_us}",
            )


def find_wrong_fragments(
    reader: FragmentReader, fragments: Sequence[FragmentEntry], lake: Lake, found_at: str
) -> Iterator[Finding]:
    """Fragments that lie elsewhere in their file or in time than the catalog says: plans of growth follow from it."""
    for fragment in fragments:
        own = read_own_rows(reader, lake.absolute(fragment.path), fragment)
        position, event_us = own.column(POSITION).to_numpy(), own.column(EVENT_US).to_numpy()
        found = int(position.min()), int(position.max()), int(event_us[0]), int(event_us[-1])
        expected = fragment.first_position, fragment.last_position, fragment.first_us, fragment.last_us
        if found != expected:
            yield Finding(
                RULE,
                found_at,
                f"a fragment of {fragment.source_uri} has positions and times {found}, not {expected}",
            )


def find_wrong_generations(stored: StoredSubject, dataset: str) -> Iterator[Finding]:
    """Fragments of a generation that their file never had: it decides which of two readings comes first."""
    newest = {file.source_uri: file.fingerprint.generation for file in stored.files}
    wrong = {
        fragment.source_uri: fragment.generation
        for fragment in stored.fragments.get(dataset, ())
        if not 0 <= fragment.generation <= newest.get(fragment.source_uri, fragment.generation)
    }
    for source_uri, generation in sorted(wrong.items()):
        yield Finding(
            RULE, source_uri, f"generation {generation} of a file that has had {newest[source_uri] + 1}"
        )
