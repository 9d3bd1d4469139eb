"""Bases carried on from segment to segment by the arithmetic of a commit, beside those that are stored."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from disarray.control import replays
from disarray.engine.replay.table_comparison import is_same_value
from disarray.model.replay_finding import FindingKind, ReplayFinding, exact_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset

Row = dict[str, Any]
_Series = tuple[str, str]  # metric, channel

BASE_COLUMNS = (
    *("base_float", "base_int", "before_float", "before_int"),
    *("prior_us", "prior_float", "prior_int", "prior_break"),
)
# About so many pieces are carried on in one call; a series is never split.
PIECES_AT_ONCE = 20_000
MAX_LISTED = 100


@dataclass
class CarriedBases:
    """Where each series stands after the segments that were compared: the next ones are carried on from there."""

    connection: Connection
    dataset: Dataset
    subject_key: str
    seeds: Iterable[Row]
    compared: Collection[str]  # metrics; of the others there is nothing to carry on from
    stale_from_us: int | None
    _last: dict[_Series, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._last = {_series(row): row for row in self.seeds}

    def compare(
        self, pieces: Sequence[Row], stored: Sequence[Row], *, frontier_us: int
    ) -> tuple[list[ReplayFinding], int]:
        """Carry bases over these pieces: the first of those that are stored otherwise, and how many they are."""
        before = {_key(row): row for row in stored}
        found: list[ReplayFinding] = []
        count = 0
        for batch in self._batches(pieces):
            seeds = [self._last[series] for series in {_series(row) for row in batch} if series in self._last]
            for row in sorted(
                replays.carry_bases(
                    self.connection,
                    self.dataset,
                    self.subject_key,
                    batch,
                    seeds,
                    frontier_us=frontier_us,
                ),
                key=lambda row: (row["metric"], row["channel"], row["segment_us"], row["piece"]),
            ):
                self._last[_series(row)] = row
                for finding in self._differences(before.get(_key(row)), row):
                    count += 1
                    if len(found) < MAX_LISTED:
                        found.append(finding)
        return found, count

    def _batches(self, pieces: Sequence[Row]) -> Iterator[list[Row]]:
        by_series: dict[_Series, list[Row]] = defaultdict(list)
        for row in pieces:
            if row["metric"] in self.compared:
                by_series[_series(row)].append(row)
        batch: list[Row] = []
        for own in by_series.values():
            if batch and len(batch) + len(own) > PIECES_AT_ONCE:
                yield batch
                batch = []
            batch += own
        if batch:
            yield batch

    def _differences(self, stored: Row | None, carried: Row) -> Iterator[ReplayFinding]:
        # A piece that is not stored was told of with its summary.
        if stored is None or self._is_stale(carried):
            return
        for column in BASE_COLUMNS:
            if not is_same_value(stored[column], carried[column]):
                yield ReplayFinding(
                    kind=FindingKind.DIFFERENT,
                    dataset=self.dataset.name,
                    subject_key=self.subject_key,
                    segment_us=carried["segment_us"],
                    what=f"metric {column}",
                    name=carried["metric"],
                    channel=carried["channel"],
                    stored=exact_text(stored[column]),
                    replayed=exact_text(carried[column]),
                )

    def _is_stale(self, row: Row) -> bool:
        end_us: int = row["segment_us"] + self.dataset.segment_length_us
        return self.stale_from_us is not None and end_us > self.stale_from_us


def _series(row: Row) -> _Series:
    return row["metric"], row["channel"]


def _key(row: Row) -> tuple[str, str, int, int]:
    return row["metric"], row["channel"], row["segment_us"], row["piece"]
