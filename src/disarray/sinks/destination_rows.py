"""The rows that a destination is to have in some spans, as the questions of `queries/` answer them, piece by piece.

No more than a segment of readings, or some hundred thousand values, is in memory at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import pyarrow as pa

from disarray.control import catalog, values
from disarray.errors import InvalidRequestError
from disarray.model.description.destination import Content
from disarray.model.description.rollups import BucketKind
from disarray.model.duration import DAY
from disarray.model.segments import FIRST_US, segment_start
from disarray.queries.metric_values import series, value_at
from disarray.queries.readings import readings
from disarray.queries.rollup_buckets import rollup
from disarray.sinks.destination_changes import LONGEST_BUCKET_US, Changes, Span, merged
from disarray.sinks.destination_shape import COMMIT, SUBJECT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from disarray.control.connections import Connection
    from disarray.control.values import SubjectSpan
    from disarray.model.description.destination import Destination
    from disarray.queries.readings import Readings
    from disarray.sinks.destination_shape import Shape
    from disarray.store.lake import Lake

# What is asked for at once, and how many values an answer may have.
_BUCKETS_AT_ONCE, _INSTANTS_AT_ONCE, _MOST_VALUES = 5_000, 10_000, 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectRows:
    """Rows of one subject in the spans that changed, as of a commit.

    `kept` are spans of which nobody knows the rows any more, because readings were dropped (`retain`): the target
    keeps what it has there. They are known once all rows were taken.
    """

    connection: Connection
    lake: Lake
    destination: Destination
    shape: Shape
    subject_key: str
    commit_seq: int
    changes: Changes
    kept: list[Span] = field(default_factory=list)

    def __iter__(self) -> Iterator[pa.Table]:
        """Tables with the columns that are loaded, none of them empty."""
        found = self._found()
        for columns in self._pieces(found) if found is not None else ():
            table = columns if isinstance(columns, pa.Table) else pa.table(columns, schema=self._own_schema)
            if table.num_rows:
                yield with_subject(table, self.shape, self.subject_key, self.commit_seq)

    @property
    def _own_schema(self) -> pa.Schema:
        return pa.schema([each for each in self.shape.schema if each.name not in (SUBJECT, COMMIT)])

    def _found(self) -> SubjectSpan | None:
        """From when to when the subject has readings; None where it has none any more."""
        spans = values.list_subjects(
            self.connection, dataset=self.destination.dataset.name, subject_key=self.subject_key
        )
        return spans[0] if spans else None

    def _pieces(self, found: SubjectSpan) -> Iterable[pa.Table | dict[str, Any]]:
        match self.destination.content:
            case Content.ROLLUP:
                return self._buckets(found)
            case Content.METRIC:
                return self._grid(found)
            case Content.NEWEST:
                return self._newest()
            case Content.READINGS:
                return self._readings(found)
            case _:
                assert_never(self.destination.content)

    def _buckets(self, found: SubjectSpan) -> Iterator[dict[str, Any]]:
        destination = self.destination
        assert destination.rollup is not None
        rolled = destination.rollup
        is_clock = rolled.bucket.kind is BucketKind.CLOCK
        step_us = rolled.bucket.length_us or DAY if is_clock else DAY

        def ask(from_us: int, to_us: int) -> dict[str, Any]:
            answer = rollup(
                self.connection,
                dataset=destination.dataset,
                subject_key=self.subject_key,
                rollup=rolled,
                from_us=from_us,
                to_us=to_us,
                most_values=_MOST_VALUES,
            )
            # One that begins before is of another piece.
            chosen = [
                each
                for each in answer.buckets
                if from_us <= each.start_us < to_us and self.changes.contains(each.start_us)
            ]
            columns: dict[str, Any] = {
                "channel": [each.channel for each in chosen],
                "bucket_start": [each.start_us for each in chosen],
                "bucket_end": [each.end_us for each in chosen],
                "label": [each.label for each in chosen],
            }
            return columns | {
                own: [each.numbers[name] for each in chosen] for own, name in self.shape.made_of.items()
            }

        first_us = max(found.first_us - LONGEST_BUCKET_US, FIRST_US)
        # Asking for a little more at once is cheaper than asking often.
        for window in merged(self.changes.spans, gap_us=LONGEST_BUCKET_US):
            from_us, to_us = max(window.from_us, first_us), min(window.to_us, found.last_us + 1)
            yield from in_pieces(from_us, to_us, step_us, _BUCKETS_AT_ONCE * step_us, ask)

    def _grid(self, found: SubjectSpan) -> Iterator[dict[str, Any]]:
        destination, every_us = self.destination, self.destination.every_us
        assert destination.metric is not None
        metric = destination.metric

        def ask(from_us: int, to_us: int) -> dict[str, Any]:
            answer = series(
                self.connection,
                self.lake,
                dataset=destination.dataset,
                subject_key=self.subject_key,
                metric=metric,
                from_us=from_us,
                to_us=to_us - 1,
                every_us=every_us,
                most_values=_MOST_VALUES,
            )
            self.kept.extend(Span(each.at_us, each.at_us + 1) for each in answer.values if each.is_dropped)
            chosen = [each for each in answer.values if not each.is_dropped]
            return {
                "channel": [each.channel for each in chosen],
                "at": [each.at_us for each in chosen],
                "value": [each.number for each in chosen],
                "reading_at": [each.reading_us for each in chosen],
            }

        # The last instant is the first at which all readings have been.
        end_us = -(-found.last_us // every_us) * every_us + 1
        for span in self.changes.spans:
            first_us = max(span.from_us, found.first_us // every_us * every_us)
            from_us = -(-first_us // every_us) * every_us
            yield from in_pieces(
                from_us, min(end_us, span.to_us), every_us, _INSTANTS_AT_ONCE * every_us, ask
            )

    def _newest(self) -> Iterator[dict[str, Any]]:
        for metric in self.destination.dataset.metrics:
            answer = value_at(
                self.connection,
                self.lake,
                dataset=self.destination.dataset,
                subject_key=self.subject_key,
                metric=metric,
            )
            numbers = [each.number for each in answer.values]
            yield {
                "channel": [each.channel for each in answer.values],
                "metric": [metric.name] * len(numbers),
                "at": [each.reading_us for each in answer.values],
                "int_value": [number if isinstance(number, int) else None for number in numbers],
                "float_value": [number if isinstance(number, float) else None for number in numbers],
            }

    def _readings(self, found: SubjectSpan) -> Iterator[pa.Table]:
        # Without metrics: a late file would change the values of all readings to its right.
        dataset = replace(self.destination.dataset, metrics=())
        for span in self.changes.spans:
            from_us, to_us = max(span.from_us, found.first_us), min(span.to_us, found.last_us + 1)
            if from_us >= to_us:
                continue
            self._keep_sealed(from_us, to_us)
            yield from reading_rows(
                readings(
                    self.connection,
                    self.lake,
                    dataset=dataset,
                    subject_key=self.subject_key,
                    from_us=from_us,
                    to_us=to_us,
                ),
                self.shape,
            )

    def _keep_sealed(self, from_us: int, to_us: int) -> None:
        length_us = self.destination.dataset.segment_length_us
        entries = catalog.load_segments(
            self.connection,
            self.destination.dataset.name,
            self.subject_key,
            from_us=segment_start(from_us, length_us),
            to_us=to_us - 1,
        )
        self.kept.extend(
            Span(entry.segment_us, entry.segment_us + length_us) for entry in entries if entry.is_sealed
        )


def with_subject(table: pa.Table, shape: Shape, subject_key: str, commit_seq: int) -> pa.Table:
    """Rows with the columns that are loaded, in their order."""
    rows = table.num_rows
    constant = {SUBJECT: pa.repeat(subject_key, rows), COMMIT: pa.repeat(commit_seq, rows)}
    columns = [
        constant[each.name] if each.name in constant else table.column(each.name) for each in shape.loaded
    ]
    return pa.table(columns, schema=shape.loaded)


def reading_rows(found: Readings, shape: Shape) -> Iterator[pa.Table]:
    """Readings without metrics as rows of a destination, a segment at a time."""
    own_names = {name: own for own, name in shape.made_of.items()}
    # By place: a column may have the name of one that every reading has.
    places = ["event_time", "channel", *(own_names[each.name] for each in found.dataset.columns)]
    for table in found:
        columns = {name: table.column(1 + place) for place, name in enumerate(places)}
        yield pa.table(columns | {"ordinal": ordinals(columns["event_time"], columns["channel"])})


def from_last_reading(
    connection: Connection, lake: Lake, destination: Destination, subject_key: str, changes: Changes
) -> Changes:
    """The changes of a grid, from the last reading before them on.

    Up to which instant there are values depends on the last reading: one that comes after a long silence brings those
    of the silence as well, and takes them with it when it goes.
    """
    if destination.content is not Content.METRIC or changes.is_whole or not changes.spans:
        return changes
    assert destination.metric is not None
    [span] = changes.spans
    answer = value_at(
        connection,
        lake,
        dataset=destination.dataset,
        subject_key=subject_key,
        metric=destination.metric,
        at_us=max(span.from_us - 1, FIRST_US),
    )
    last_us = max((each.reading_us for each in answer.values if not each.is_dropped), default=FIRST_US)
    return Changes((Span(min(last_us, span.from_us), span.to_us),))


def in_pieces(
    from_us: int,
    to_us: int,
    step_us: int,
    length_us: int,
    ask: Callable[[int, int], dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    """Answers for one piece of a span after the other; what is too much for one answer is asked for in halves."""
    while from_us < to_us:
        end_us = min(from_us + length_us, to_us)
        try:
            answer = ask(from_us, end_us)
        except InvalidRequestError:
            if length_us <= step_us:
                raise
            length_us = max(length_us // 2 // step_us, 1) * step_us
            continue
        yield answer
        from_us = end_us


def ordinals(event_times: Any, channels: Any) -> pa.Array[Any]:
    """The number, from 0, of each reading among those of its channel and instant, which are in canonical order."""
    instants = event_times.cast(pa.int64()).to_numpy()
    codes = channels.combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.lexsort((instants, codes))
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (np.diff(instants[order]) != 0) | (np.diff(codes[order]) != 0)
    starts = np.flatnonzero(is_first)
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)]))
    return pa.array(numbers)
