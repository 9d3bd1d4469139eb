"""What the plant of the fault tests has taken in, what is about to come, and what must be stored of each version."""

from __future__ import annotations

import copy
import hashlib
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from disarray.control.files import Reason
from disarray.model.segments import microseconds_of
from tests.accepted import Source
from tests.arrivals import DATASETS
from tests.oracle import derive
from tests.reading_lines import HEADER, reading_line
from tests.store.conftest import in_store, with_dimensions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.model.description.dataset import Dataset
    from tests.oracle import Said, Table
    from tests.plant import Plant

START = datetime(2025, 10, 25, 20, tzinfo=UTC)
MINUTES = 900
# One dataset in the lake and one in a table with dimensions: a commit of a subject with both goes through every step.
DESCRIPTION = DATASETS["content"] + with_dimensions(in_store(DATASETS["columns"], "timescale"))

Versions = frozenset[tuple[str, str]]  # uri and content hash of every file whose readings count


class Deliveries:
    """Files of three subjects: a history, and a batch in which some grow, change, come late, or are new."""

    def __init__(self, plant: Plant, *, seed: int = 7) -> None:
        self.plant = plant
        self.random = random.Random(seed)
        self.sources: dict[str, Source] = {}
        self._said: dict[tuple[str, str], list[Said]] = {}
        self._derived: dict[Versions, dict[str, Table]] = {}

    def resume(self, former: Deliveries) -> None:
        """Go on where the deliveries to a plant in the same folder ended, whose tables this one has a copy of."""
        self.random.setstate(former.random.getstate())
        self.sources = copy.deepcopy(former.sources)
        for source in self.sources.values():
            source.dataset = self.plant.datasets[source.dataset.name]
        self._said = dict(former._said)

    def deliver_history(self) -> None:
        """What was there before anything went wrong."""
        for name in ("content/L1/0.csv", "content/L1/1.csv", "columns/L1/0.csv", "content/L2/0.csv"):
            self.write(name, HEADER + self.lines(around=600))
        self.notify(*self.sources)
        reports = self.plant.drain()
        assert not any(report.failed for report in reports), reports
        self.note_versions()

    def deliver_batch(self) -> None:
        """A file grows, one is changed in its middle, others come late or for a subject that nobody knew."""
        self.write("content/L1/1.csv", self.sources["content/L1/1.csv"].text + self.lines(around=700))
        self.write("columns/L1/0.csv", _changed(self.sources["columns/L1/0.csv"].text))
        new = ("content/L1/2.csv", "columns/L1/1.csv", "content/L2/1.csv", "content/L3/0.csv")
        for name in new:
            self.write(name, HEADER + self.lines(around=100))
        self.notify("content/L1/1.csv", "columns/L1/0.csv", *new)

    def write_new_files(self) -> None:
        """Files that nobody has announced."""
        for name in ("content/L1/0.csv", "columns/L1/0.csv", "content/L2/0.csv", "content/L3/0.csv"):
            self.write(name, HEADER + self.lines(around=400))
            self.sources[name].process({Reason.FILE_NOTIFICATION}, high_us=None)

    def write(self, name: str, text: str) -> None:
        """Put a file where its dataset finds it."""
        dataset, subject, _ = name.split("/")
        path = self.plant.write(name, text)
        source = self.sources.setdefault(name, Source(path, self.plant.datasets[dataset], subject))
        source.text = text

    def notify(self, *names: str) -> None:
        """Announce files; what they say now is what will count."""
        self.plant.notify(*(self.sources[name].path for name in names))
        for name in names:
            self.sources[name].process({Reason.FILE_NOTIFICATION}, high_us=None)

    def note_versions(self) -> None:
        """Remember which content hash stands for what every file says now; called when all of it is in."""
        for uri, version in self.versions():
            self._said.setdefault((uri, version), self.sources[self._name(uri)].said())

    def versions(self) -> Versions:
        """What is in."""
        rows = self.plant.rows(VERSIONS)
        return frozenset((str(uri), str(version)) for uri, version in rows)

    def expected(self, versions: Versions) -> Mapping[str, Table]:
        """What all tables have to say when exactly these versions are in."""
        if versions not in self._derived:
            self._derived[versions] = self._derive(versions)
        return self._derived[versions]

    def final(self) -> Mapping[str, Table]:
        """What all tables have to say in the end."""
        return self._tables({name: source.said() for name, source in self.sources.items()})

    def lines(self, *, around: int, days: int = 0, count: int = 12) -> str:
        """Readings of a stretch of time in no order, around a minute of one of the first three days."""
        made = []
        for _ in range(count):
            minute = min(MINUTES - 1, max(0, around + self.random.randint(-120, 120)))
            made.append(reading_line(self.random, START + timedelta(days=days, minutes=minute)))
        return "".join(made)

    def _derive(self, versions: Versions) -> dict[str, Table]:
        missing = versions - self._said.keys()
        assert not missing, f"nobody wrote these versions: {sorted(missing)}"
        return self._tables({self._name(uri): self._said[uri, version] for uri, version in versions})

    def _name(self, uri: str) -> str:
        """The file behind a uri, however whoever announced it writes uris."""
        return uri.removeprefix("file://").removeprefix(f"{self.plant.inbox}/")

    def _tables(self, said: Mapping[str, list[Said]]) -> dict[str, Table]:
        found: dict[str, Table] = {"segments": {}, "metrics": {}, "rollups": {}}
        start_us = microseconds_of(START)
        window = start_us, start_us + 3 * 86_400_000_000
        for dataset, subject in {(each.dataset.name, each.subject) for each in self.sources.values()}:
            own = [
                reading
                for name, source in self.sources.items()
                if (source.dataset.name, source.subject) == (dataset, subject)
                for reading in said.get(name, [])
            ]
            for table, rows in _derive_once(self.plant.datasets[dataset], subject, own, window).items():
                found[table] |= rows
        return found


_DERIVED: dict[str, dict[str, Table]] = {}


def _derive_once(
    dataset: Dataset, subject: str, said: list[Said], window: tuple[int, int]
) -> dict[str, Table]:
    """The same readings are looked at in every case; the loops over them are run the first time."""
    key = hashlib.sha256(repr((dataset, subject, said, window)).encode()).hexdigest()
    if key not in _DERIVED:
        _DERIVED[key] = derive(dataset, subject, said, window=window)
    return _DERIVED[key]


VERSIONS = """
select source_uri, content_hash
from disarray.file_info as file
where content_hash is not null
    and exists (
        select from disarray.fragment
        where fragment.source_uri = file.source_uri and fragment.state in ('active', 'sealed')
    )
"""


def _changed(text: str) -> str:
    """The same times, another value in the middle."""
    lines = text.splitlines(keepends=True)
    middle = len(lines) // 2
    lines[middle] = lines[middle].rpartition(",")[0] + ",2.5\n"
    return "".join(lines)
