"""Random histories in which files change their subject and dataset: in the end each counts once, where it belongs."""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from disarray.control import blacklist
from disarray.control.files import Reason
from disarray.engine.verification.verify import verify
from disarray.model.matching import match_file
from disarray.worker.process.scheduler import Scheduler
from tests.plant import Plant
from tests.worker.soundness import assert_all_holds
from tests.worker.test_moves import ALL, BRIEF, RENAMED, SPLIT, assert_settled, cell, misplaced, tool, totals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.postgres

HISTORIES = int(os.environ.get("DISARRAY_MOVE_HISTORIES", "8"))
SUBJECTS = ("T1", "T2", "CELL-A", "CELL-B")


@dataclass
class Source:
    """One file: what it says, and of whom it says so where its path does not."""

    path: Path
    hour: int
    serial: str = "CELL-A"
    goods: list[int] = field(default_factory=list)
    is_blacklisted: bool = False

    def write(self) -> None:
        """Put it where it lies."""
        is_cell = self.path.suffix == ".txt"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(
            cell(self.serial, *self.goods, hour=self.hour) if is_cell else tool(*self.goods, hour=self.hour)
        )


class MovingHistory:
    """Announcements that are right or wrong, corrections, growth, decisions and definitions, in any order."""

    descriptions: tuple[str, ...] = (ALL, SPLIT, RENAMED)

    def __init__(self, plant: Plant, seed: int) -> None:
        self.plant = plant
        self.random = random.Random(seed)
        names = ["T1/x1.csv", "T1/y1.csv", "T2/x2.csv", "T2/y2.csv", "cells/1.txt", "cells/2.txt"]
        self.sources = [Source(plant.inbox / name, hour) for hour, name in enumerate(names)]

    def run(self) -> None:
        """Some steps, after which everything is announced as it is."""
        for source in self.sources:
            source.goods.append(self.random.randrange(1, 1000))
            source.write()
        for _ in range(self.random.randint(6, 20)):
            source = self.random.choice(self.sources)
            self.random.choice(self.steps())(source)
            if self.random.random() < 0.6:
                # Whatever is half done stays half done until something else has happened.
                for _ in range(self.random.randint(1, 3)):
                    Scheduler(self.plant.place).process_batch()
        for source in self.sources:
            self.announce(source)
        reports = self.plant.drain()
        assert [message for report in reports for message in report.failed.values()] == []

    def steps(self) -> list[Callable[[Source], None]]:
        """What may happen."""
        return [
            self.grow,
            self.correct,
            self.announce,
            self.announce,
            self.reingest,
            self.decide,
            self.define,
        ]

    def grow(self, source: Source) -> None:
        source.goods.append(self.random.randrange(1, 1000))
        source.write()
        self.announce(source)

    def correct(self, source: Source) -> None:
        source.serial = self.random.choice(["CELL-A", "CELL-B"])
        source.write()

    def announce(self, source: Source) -> None:
        self.plant.notify_as(source.path, self.random.choice(SUBJECTS))

    def reingest(self, source: Source) -> None:
        self.plant.notify_as(source.path, self.random.choice(SUBJECTS), reason=Reason.REINGEST)

    def decide(self, source: Source) -> None:
        with self.plant.pool.connection() as connection:
            if source.is_blacklisted:
                blacklist.allow_file(connection, str(source.path), reason="a test", by="ada")
            else:
                blacklist.blacklist_file(connection, str(source.path), "T9", reason="a test", by="ada")
        source.is_blacklisted = not source.is_blacklisted

    def define(self, _: Source) -> None:
        self.plant.redefine(self.random.choice(self.descriptions))

    def expected(self) -> dict[tuple[object, ...], object]:
        """What every subject has to add up to."""
        found: defaultdict[tuple[object, ...], int] = defaultdict(int)
        for source in self.sources:
            match = match_file(str(source.path), list(self.plant.datasets.values()))
            assert match is not None
            if not source.is_blacklisted:
                found[match.dataset.name, match.subject or source.serial] += sum(source.goods)
        return dict(found)


class ForgetfulHistory(MovingHistory):
    """The same where readings are kept for a day: one file of each two is older."""

    descriptions = tuple(each.replace("key = []", BRIEF) for each in (ALL, SPLIT, RENAMED))

    def __init__(self, plant: Plant, seed: int) -> None:
        super().__init__(plant, seed)
        for number, source in enumerate(self.sources):
            source.hour = number % 2 * 60
            source.goods.append(number)
            source.write()
            self.announce(source)
        self.forget(self.sources[0])

    def steps(self) -> list[Callable[[Source], None]]:
        """What may happen."""
        return [*super().steps(), self.correct, self.define, self.define, self.forget, self.forget]

    def forget(self, _: Source) -> None:
        """Do all there is to do, and then what housekeeping can."""
        self.plant.drain()
        self.plant.keep_house()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, shared_dsn: str) -> Iterator[Plant]:
    """One plant for all histories."""
    built = Plant(tmp_path_factory.mktemp("moves"), shared_dsn, description=ALL)
    yield built
    built.pool.close()


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_in_any_history_of_moves_every_file_counts_once_where_it_belongs(shared: Plant, seed: int) -> None:
    shared.forget_everything()
    shared.redefine(ALL)
    history = MovingHistory(shared, seed)
    history.run()
    assert totals(shared) == history.expected()
    assert_settled(shared)
    assert misplaced(shared) == []


def said(plant: Plant, source: Source) -> Counter[str]:
    """How many readings of a file are in which state."""
    found = plant.rows(
        f"""
        select state::text, sum(readings)::int from disarray.fragment
        where source_uri = '{source.path}' and state <> 'dropped' group by 1
        """
    )
    return Counter({str(state): int(str(readings)) for state, readings in found})


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_in_any_history_of_moves_no_reading_counts_twice_where_old_ones_are_forgotten(
    shared: Plant, seed: int
) -> None:
    shared.forget_everything()
    shared.redefine(ForgetfulHistory.descriptions[0])
    history = ForgetfulHistory(shared, seed)
    history.run()
    shared.keep_house()
    assert_all_holds(shared)
    with shared.pool.connection() as connection:
        report = verify(connection, shared.place.runner, shared.datasets, lake=shared.place.lake)
    assert report.differences == []
    for source in history.sources:
        found = said(shared, source)
        counting = found["active"] + found["sealed"]
        assert counting <= len(source.goods), source
        # Whatever does not count waits.
        assert source.is_blacklisted or counting + found["parked"] >= len(source.goods), source
