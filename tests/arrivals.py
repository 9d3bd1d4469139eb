"""Random histories of arrivals: files that overlap, repeat, grow, change, are removed, parked and released."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from disarray.control import blacklist, quarantine
from disarray.control.files import Reason
from disarray.model.description.read_spec import KeyKind
from disarray.model.segments import microseconds_of
from tests.accepted import Source, State
from tests.oracle import METRIC_KEY, ROLLUP_KEY, SEGMENT_KEY, derive
from tests.reading_lines import HEADER, reading_line

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset
    from tests.oracle import Said, Table
    from tests.plant import Plant

# Around nights in which the clocks of Berlin are changed, and around the end of a month.
STARTS = (
    datetime(2025, 10, 25, 20, tzinfo=UTC),
    datetime(2025, 3, 29, 20, tzinfo=UTC),
    datetime(2025, 10, 31, 17, tzinfo=UTC),
)
MINUTES = 900

_DATASET = """
[[dataset]]
name = "{name}"
roots = ["inbox/{name}"]
files = ["**/*.csv"]
format = "csv"
subject = {{ path = '^(?P<subject>[^/]+)/' }}
event_time = {{ from = "time", layouts = ["iso"] }}
zone = "Europe/Berlin"
segment = "{segment}"
channel = "sensor"
order_by = ["part"]
restate_after = "1 h"
{options}
[dataset.attributes."*"]
limit = 5.0
[dataset.attributes.L2]
limit = 0.2
[dataset.columns.sensor]
type = "string"
[dataset.columns.part]
type = "int64"
[dataset.columns.work_order]
type = "string"
[dataset.columns.volts]
type = "float64"
"""
_FIRST_HALF = """
[dataset.metrics.energy]
kind = "integral"
input = "volts * 0.1"
max_gap = "40 min"
break_on = ["work_order"]
[dataset.metrics.held]
kind = "integral"
method = "previous"
input = "volts"
max_gap = "3 h"
reset_on = ["work_order"]
[dataset.metrics.volts_sum]
kind = "sum"
input = "volts"
reset_on = ["work_order"]
[dataset.metrics.in_spec]
kind = "count"
where = "volts < limit"
[dataset.metrics.parts]
kind = "increase"
input = "part"
[dataset.metrics.lowest]
kind = "min"
input = "volts"
[dataset.metrics.highest]
kind = "max"
input = "part"
reset_on = ["work_order"]
[dataset.rollups.shift]
bucket = "shifts"
shifts = [{ name = "early", start = "06:00" }, { name = "late", start = "14:00" }, { name = "night", start = "22:00" }]
[dataset.rollups.shift.aggregates]
readings = "count"
mean = { function = "avg", input = "volts" }
spread = { function = "stddev", input = "volts" }
last_part = { function = "last", input = "part" }
[dataset.rollups.quarter]
bucket = "15 min"
[dataset.rollups.quarter.aggregates]
good = { function = "count", where = "volts < 5.0" }
total = { function = "sum", input = "volts" }
"""
_SECOND_HALF = """
[dataset.metrics.energy]
kind = "integral"
input = "volts"
max_gap = "2 h"
reset_on = ["work_order"]
[dataset.metrics.held]
kind = "integral"
method = "previous"
input = "volts"
where = "part < 3"
max_gap = "1 h"
[dataset.metrics.volts_sum]
kind = "sum"
input = "volts"
[dataset.metrics.part_sum]
kind = "sum"
input = "part"
reset_on = ["work_order", "sensor"]
[dataset.metrics.in_spec]
kind = "count"
where = "volts < limit"
reset_on = ["work_order"]
[dataset.metrics.rise]
kind = "increase"
input = "volts"
reset_on = ["work_order"]
[dataset.metrics.lowest]
kind = "min"
input = "part"
reset_on = ["work_order"]
[dataset.metrics.highest]
kind = "max"
input = "volts"
[dataset.rollups.month]
bucket = "1 month"
[dataset.rollups.month.aggregates]
total = { function = "sum", input = "part" }
low = { function = "min", input = "volts" }
high = { function = "max", input = "volts" }
opening = { function = "first", input = "volts" }
[dataset.rollups.shift]
bucket = "shifts"
shifts = [{ name = "day", start = "02:30" }, { name = "night", start = "18:00" }]
[dataset.rollups.shift.aggregates]
mean = { function = "avg", input = "part" }
"""
DATASETS = {
    "content": _DATASET.format(name="content", segment="2 h", options='key = "content"') + _FIRST_HALF,
    "columns": _DATASET.format(name="columns", segment="3 h", options='key = ["part"]') + _SECOND_HALF,
    "arrived": _DATASET.format(
        name="arrived", segment="3 h", options='key = ["part"]\nconflict = "arrival"\nhorizon = "6 h"'
    )
    + _FIRST_HALF,
    "newest": _DATASET.format(
        name="newest", segment="2 h", options='key = ["part"]\nconflict = { newest = "volts" }'
    )
    + _SECOND_HALF,
    "unkeyed": _DATASET.format(name="unkeyed", segment="2 h", options='key = "none"') + _FIRST_HALF,
    "strict": _DATASET.format(name="strict", segment="1 h", options='horizon = "4 h"') + _SECOND_HALF,
    "replaced": _DATASET.format(
        name="replaced", segment="90 min", options='horizon = "5 h"\nkey = ["part"]\non_shrink = "replace"'
    )
    + _FIRST_HALF,
}
DESCRIPTION = "".join(DATASETS.values())


class Arrivals:
    """One random history: several datasets and subjects at once, and what has to come of them."""

    def __init__(self, plant: Plant, random_: random.Random, *, prefix: str = "") -> None:
        self.plant = plant
        self.random = random_
        self.start = random_.choice(STARTS)
        self.sources: list[Source] = []
        self.asked: defaultdict[str, set[Reason]] = defaultdict(set)
        self.released: defaultdict[str, set[str]] = defaultdict(set)
        self.said: list[str] = []  # what was done, for whoever has to find out what went wrong
        names = random_.sample(sorted(plant.datasets), k=min(len(plant.datasets), random_.randint(2, 4)))
        for name in names:
            for number in range(random_.randint(2, 4)):
                subject = prefix + random_.choice(["L1", "L1", "L2"])
                path = plant.inbox / name / subject / f"{number}.csv"
                self.sources.append(Source(path, plant.datasets[name], subject))

    @property
    def histories(self) -> int:
        """Of how many series of files this is made."""
        return len({(source.dataset.name, source.subject) for source in self.sources})

    def run(self) -> None:
        """Some rounds of arrivals and decisions, in batches."""
        for source in self.sources:
            self._write(source, HEADER + self._lines())
        pending = list(self.sources)
        for _ in range(self.random.randint(2, 5)):
            for _ in range(self.random.randint(1, 5)):
                if pending and self.random.random() < 0.5:
                    self._notify(pending.pop(self.random.randrange(len(pending))))
                else:
                    self._happen(self.random.choice(self.sources))
            self.drain()
        for source in self.sources:
            self._notify(source)
        self.drain()

    def settle(self) -> None:
        """Decide about everything that is still parked."""
        for _ in range(3):
            for source in self.sources:
                if source.is_parked:
                    self._decide(source)
            self.drain()

    def expected(self) -> dict[str, Table]:
        """What all tables have to say."""
        found: dict[str, Table] = {"segments": {}, "metrics": {}, "rollups": {}}
        start_us = microseconds_of(self.start)
        window = start_us, start_us + MINUTES * 60_000_000
        for dataset, subject in {(source.dataset.name, source.subject) for source in self.sources}:
            said = self.accepted(dataset, subject)
            derived = derive(self.plant.datasets[dataset], subject, said, window=window)
            for table, rows in derived.items():
                found[table] |= rows
        return found

    @property
    def waiting(self) -> set[tuple[object, ...]]:
        """What an operator has to be asked about."""
        return {(str(source.path), part) for source in self.sources for part in source.parts}

    def accepted(self, dataset: str, subject: str) -> list[Said]:
        """The readings of a series of files that count now."""
        return [
            each
            for source in self.sources
            if (source.dataset.name, source.subject) == (dataset, subject)
            for each in source.said()
        ]

    def drain(self) -> None:
        """Let the worker do what was asked for, and follow it."""
        high = {
            (dataset.name, subject): self._horizon(dataset, subject)
            for dataset, subject in {
                (source.dataset.name, source.subject): (source.dataset, source.subject)
                for source in self.sources
            }.values()
        }
        self.said.append("drain")
        reports = self.plant.drain()
        assert not any(report.failed for report in reports), reports
        for source in self.sources:
            if reasons := self.asked.pop(str(source.path), None):
                source.process(
                    reasons,
                    releases=self.released.pop(str(source.path), set()),
                    high_us=high[source.dataset.name, source.subject],
                )
        self.after_pass()

    def after_pass(self) -> None:
        """Called whenever the worker has done all there was to do, and what it accepted is known."""

    def _happen(self, source: Source) -> None:
        if source.is_blacklisted:
            if self.random.random() < 0.6:
                self._allow(source)
        elif source.is_parked and self.random.random() < 0.6:
            self._decide(source)
        elif source.readings and self.random.random() < 0.1:
            self._doubt(source)
        else:
            self.random.choice(self.actions())(source)

    def actions(self) -> list[Callable[[Source], None]]:
        """What may happen to a file that counts, each as often as it is listed."""
        found = [self._grow, self._grow, self._rewrite, self._cut, self._copy]
        return [*found, self._notify, self._quiet, self._remove, self._reingest]

    def _grow(self, source: Source) -> None:
        if self._is_a_copy(source):
            return
        text = source.text + self._lines()
        # Anywhere: in the middle of a line as well.
        self._write(source, text[: self.random.randint(max(len(source.text), len(HEADER)), len(text))])
        self._notify(source)

    def _rewrite(self, source: Source) -> None:
        """Other readings in place of the old: as many, fewer, or those of another time."""
        if self._is_a_copy(source):
            return
        kept = source.text.splitlines(keepends=True)[1:]
        kept = self.random.sample(kept, k=self.random.randint(0, len(kept)))
        text = HEADER + "".join(line for line in kept if line.endswith("\n"))
        self._write(source, text + self._lines() * self.random.choice([1, 1, 2]))
        self._notify(source)

    def _cut(self, source: Source) -> None:
        if self._is_a_copy(source):
            return
        self._write(source, source.text[: self.random.randint(len(HEADER), len(source.text))])
        self._notify(source)

    def _copy(self, source: Source) -> None:
        others = [
            other
            for other in self.sources
            if other is not source and (other.dataset, other.subject) == (source.dataset, source.subject)
        ]
        other = self.random.choice(others or [source])
        is_keyed = source.dataset.key.kind is not KeyKind.NONE
        if other is not source and (is_keyed or (other.text.endswith("\n") and not self._is_a_copy(source))):
            self._write(source, other.text)
            self._notify(source)

    def _is_a_copy(self, source: Source) -> bool:
        """Under no key at all, what copies had in common counts once also after they grew apart."""
        return source.dataset.key.kind is KeyKind.NONE and any(
            other is not source
            and (other.dataset, other.subject) == (source.dataset, source.subject)
            and source.taken in (other.taken, other.text)
            for other in self.sources
        )

    def _notify(self, source: Source, reason: Reason = Reason.FILE_NOTIFICATION) -> None:
        self.said.append(f"{reason} {source.path}")
        self._number(source)
        self.plant.notify(source.path, reason=reason)
        if not source.is_blacklisted:
            self.asked[str(source.path)].add(reason)

    def _number(self, source: Source) -> None:
        if source.arrival is None:
            source.arrival = 1 + sum(other.arrival is not None for other in self.sources)

    def _quiet(self, source: Source) -> None:
        if source.can_go_quiet:
            self._notify(source, Reason.QUIET)

    def _reingest(self, source: Source) -> None:
        self._notify(source, Reason.REINGEST)

    def _remove(self, source: Source) -> None:
        # A decision about a file that waits in the queue would be merged into what waits.
        if self.asked:
            self.drain()
        self.said.append(f"blacklist {source.path}")
        self._number(source)
        with self.plant.pool.connection() as connection:
            blacklist.blacklist_file(connection, str(source.path), source.subject, reason="a test", by="ada")
        self.plant.drain()
        source.remove()
        self.after_pass()

    def _doubt(self, source: Source) -> None:
        """Blacklisted and allowed again: whatever was parked or rejected of it stays so."""
        self._remove(source)
        if self.random.random() < 0.3 and not self._is_a_copy(source):
            self._write(source, source.text + self._lines())
        self._allow(source)

    def _allow(self, source: Source) -> None:
        self.said.append(f"allow {source.path}")
        with self.plant.pool.connection() as connection:
            blacklist.allow_file(connection, str(source.path), reason="a test", by="ada")
        source.is_blacklisted = False
        self.asked[str(source.path)].add(Reason.ALLOW)

    def _decide(self, source: Source) -> None:
        if self.asked:
            self.drain()
        parts = source.parts
        for part in self.random.sample(parts, k=self.random.randint(min(1, len(parts)), len(parts))):
            if self.random.random() < 0.6:
                self.said.append(f"release {part} of {source.path}")
                with self.plant.pool.connection() as connection:
                    quarantine.release_file(
                        connection, str(source.path), reason="a test", by="ada", part=part
                    )
                self.asked[str(source.path)].add(Reason.RELEASE)
                self.released[str(source.path)].add(part)
            else:
                self.said.append(f"reject {part} of {source.path}")
                with self.plant.pool.connection() as connection:
                    quarantine.reject_file(connection, str(source.path), reason="a test", by="ada", part=part)
                source.reject(part)

    def _horizon(self, dataset: Dataset, subject: str) -> int | None:
        seen = [
            each.row.event_us
            for source in self.sources
            if (source.dataset.name, source.subject) == (dataset.name, subject)
            for own in source.readings.values()
            for each in own.values()
            if each.state is State.ACTIVE
        ]
        return max(seen) - dataset.horizon_us if seen and dataset.horizon_us is not None else None

    def _write(self, source: Source, text: str) -> None:
        source.text = text
        source.path.parent.mkdir(parents=True, exist_ok=True)
        source.path.write_text(text)
        self.said.append(f"write {source.path}: {text!r}")

    def _lines(self) -> str:
        """Some readings of a stretch of time, in no order, some of them twice."""
        centre = self.random.randrange(MINUTES)
        reach = self.random.choice([40, 90, 200])
        lines = []
        for _ in range(self.random.randint(1, 14)):
            minute = min(MINUTES - 1, max(0, centre + self.random.randint(-reach, reach)))
            at = self.start + timedelta(minutes=minute, microseconds=self.random.choice([0, 0, 1, 999_999]))
            lines.append(reading_line(self.random, at))
            if self.random.random() < 0.1:
                lines.append(lines[-1])
        return "".join(lines)


def stored(plant: Plant) -> dict[str, Table]:
    """What the tables say, without what only tells who wrote it and when."""
    with plant.pool.connection() as connection:
        return stored_by(connection)


def stored_by(connection: Connection) -> dict[str, Table]:
    """The same as this connection sees it."""
    segments = (
        "dataset, subject_key, segment_us, segment_end_us, readings, duplicates, first_us, last_us, digest"
    )
    return {
        "segments": _keyed(connection, f"select {segments} from disarray.segment", SEGMENT_KEY),
        "metrics": _keyed(connection, "select * from disarray.segment_metric", METRIC_KEY),
        "rollups": _keyed(connection, "select * from disarray.rollup", ROLLUP_KEY),
    }


def _keyed(connection: Connection, query: str, key: tuple[str, ...]) -> Table:
    cursor = connection.execute(query.encode())
    assert cursor.description is not None
    names = [column.name for column in cursor.description]
    rows = [dict(zip(names, row, strict=True)) for row in cursor]
    return {tuple(row[name] for name in key): row for row in rows}


def differences(stored: Mapping[str, Table], expected: Mapping[str, Table]) -> list[str]:
    """What is not as it should be, bit for bit: 0.0 is not -0.0."""
    found = []
    for table in expected:
        for key in sorted(stored[table].keys() | expected[table].keys(), key=repr):
            left, right = stored[table].get(key), expected[table].get(key)
            if left is None or right is None:
                found.append(f"{table} {key}: {'expected' if left is None else 'stored'} alone")
                continue
            assert left.keys() == right.keys(), left.keys() ^ right.keys()
            found += [
                f"{table} {key} {name}: {left[name]!r} stored, {right[name]!r} expected"
                for name in left
                if repr(left[name]) != repr(right[name])
            ]
    return found
