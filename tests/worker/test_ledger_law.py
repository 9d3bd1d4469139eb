"""Old value + ledger = new value, for every instant that was readable; where nothing is listed nothing changed."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from disarray.control import values
from disarray.model.segments import microseconds_of
from tests.arrivals import DATASETS, Arrivals
from tests.plant import Plant
from tests.published import ROUNDING, published, same, violations
from tests.worker.soundness import assert_all_holds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disarray.control.values import Number, Restatement
    from tests.accepted import Source
    from tests.published import Published

pytestmark = pytest.mark.postgres

# An example is a history of some five subjects and datasets at once, and takes about a second.
EXAMPLES = int(os.environ.get("DISARRAY_LEDGER_EXAMPLES", "60"))
# The same histories in every run; other ones where more are asked for.
SETTINGS = settings(
    derandomize="DISARRAY_LEDGER_EXAMPLES" not in os.environ,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
# What a dataset may say instead: another meaning, another kind, another reset, another winner.
ALTERNATIVES = (
    ('input = "volts * 0.1"', 'input = "volts * 0.2"'),
    ('input = "volts * 0.1"', 'input = "volts"'),
    ('max_gap = "40 min"', 'max_gap = "5 min"'),
    ('kind = "min"\ninput = "volts"', 'kind = "max"\ninput = "volts"'),
    ('kind = "min"\ninput = "volts"', 'kind = "sum"\ninput = "part"'),
    ('kind = "sum"\ninput = "volts"\nreset_on = ["work_order"]', 'kind = "sum"\ninput = "volts"'),
    ('kind = "max"\ninput = "volts"', 'kind = "max"\ninput = "volts"\nreset_on = ["work_order"]'),
    ("limit = 5.0", "limit = 0.2"),
    ("[dataset.metrics.highest]", "[dataset.metrics.greatest]"),
    ('key = "content"', 'key = ["part"]'),
)


def description(changed: dict[str, str] | None = None) -> str:
    text = "".join((DATASETS | (changed or {})).values())
    return text.replace('restate_after = "1 h"', 'restate_after = "1 s"')


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory, shared_dsn: str) -> Iterator[Plant]:
    """One plant for all examples, in which numbers count as used after a second."""
    built = Plant(tmp_path_factory.mktemp("plant"), shared_dsn, description=description())
    yield built
    built.pool.close()


@dataclass
class Claim:
    """A value that somebody wrote down, and all that the ledger has said of it since."""

    least: Fraction
    greatest: Fraction
    size: Fraction
    is_exact: bool  # no float was ever among its values


@dataclass
class Reader:
    """Somebody who keeps what was published, and holds the ledger against it after every pass."""

    plant: Plant
    known: dict[tuple[str, str], tuple[Published, int]] = field(default_factory=dict)
    claims: dict[tuple[str, str, str, str, int], Claim] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    newest_id: int = 0
    checked: int = 0

    def check(self, arrivals: Arrivals) -> None:
        counted = self.plant.rows("select subject_key, count(*) from disarray.run group by 1")
        runs = {str(subject): int(str(count)) for subject, count in counted}
        noted = self._noted()
        for dataset, subject in sorted({(each.dataset.name, each.subject) for each in arrivals.sources}):
            said = arrivals.accepted(dataset, subject)
            now = published(self.plant.datasets[dataset], subject, said)
            own = [each for each in noted if (each.dataset, each.subject_key) == (dataset, subject)]
            before, newest_us = self.known.get((dataset, subject), ({}, 0))
            # Two passes at once have a state between them that nobody looked at.
            if runs.get(subject, 0) - self.runs.get(subject, 0) <= 1:
                self._check(dataset, subject, before, now, own, newest_us)
            else:
                self._forget(dataset, subject)
            self.known[dataset, subject] = now, max((each.row.event_us for each in said), default=0)
            self._publish(dataset, subject, now)
        self.runs = runs

    def _check(
        self,
        dataset: str,
        subject: str,
        before: Published,
        now: Published,
        noted: list[Restatement],
        newest_us: int,
    ) -> None:
        found = violations(
            before,
            now,
            noted,
            newest_us=newest_us,
            restate_after_us=self.plant.datasets[dataset].restate_after_us,
        )
        assert list(found) == [], (dataset, subject)
        self.checked += len(before)
        self._follow(dataset, subject, before, now, noted)

    def _follow(
        self, dataset: str, subject: str, before: Published, now: Published, noted: list[Restatement]
    ) -> None:
        """Add what the ledger says to every value that somebody wrote down: it must lead to the one of now."""
        for key, claim in list(self.claims.items()):
            if key[:2] != (dataset, subject):
                continue
            series, at_us = (key[2], key[3]), key[4]
            number = now[series].at(at_us) if series in now else None
            last = max(
                (
                    us
                    for steps in (before, now)
                    if series in steps
                    for us in steps[series].instants
                    if us <= at_us
                ),
                default=at_us,
            )
            covering = [
                each for each in noted if (each.metric, each.channel) == series and _covers(each, last)
            ]
            if number is None or not covering:
                was = before[series].at(at_us) if series in before else None
                if number is None or not same(was, number):
                    # Gone, of a metric that is no more, or so new that nobody had used it.
                    del self.claims[key]
                    continue
            for each in covering:
                assert each.least is not None
                assert each.greatest is not None
                claim.least += Fraction(each.least)
                claim.greatest += Fraction(each.greatest)
                claim.is_exact &= not isinstance(each.old, float) and not isinstance(each.new, float)
                told = (each.first_old, each.first_new, each.old, each.new)
                claim.size = max(claim.size, *(abs(Fraction(n)) for n in told if n is not None))
            room = Fraction(0) if claim.is_exact else claim.size * ROUNDING * 100
            assert claim.least - room <= Fraction(number) <= claim.greatest + room, (key, claim, number)

    def _publish(self, dataset: str, subject: str, now: Published) -> None:
        for (metric, channel), steps in now.items():
            for at_us, number in zip(steps.instants, steps.numbers, strict=True):
                if number is not None:
                    exact = Fraction(number)
                    self.claims.setdefault(
                        (dataset, subject, metric, channel, at_us),
                        Claim(exact, exact, abs(exact), is_exact=isinstance(number, int)),
                    )

    def _forget(self, dataset: str, subject: str) -> None:
        self.claims = {key: claim for key, claim in self.claims.items() if key[:2] != (dataset, subject)}

    def _noted(self) -> list[Restatement]:
        newest = self.plant.rows("select coalesce(max(restatement_id), 0) from disarray.restatement")[0][0]
        assert isinstance(newest, int)
        with self.plant.pool.connection() as connection:
            noted = values.list_restatements(connection, limit=max(newest - self.newest_id, 1))
        found = noted if newest > self.newest_id else []
        self.newest_id = newest
        return found


def _covers(span: Restatement, at_us: int) -> bool:
    assert span.changed_to is not None
    return microseconds_of(span.changed_from) <= at_us <= microseconds_of(span.changed_to)


class Followed(Arrivals):
    """A history of arrivals and definitions whose ledger is read after every pass."""

    def __init__(self, plant: Plant, random_: random.Random) -> None:
        super().__init__(plant, random_)
        self.reader = Reader(plant)
        self.defined = dict(DATASETS)

    def after_pass(self) -> None:
        self.reader.check(self)

    def actions(self) -> list[Callable[[Source], None]]:
        return [*super().actions(), self._redefine, self._redefine]

    def _redefine(self, source: Source) -> None:
        # A decision of its own pass: what waits would be taken in under the new definition.
        if self.asked:
            self.drain()
        name = source.dataset.name
        text = self.defined[name]
        written, instead = self.random.choice(ALTERNATIVES)
        is_possible = written in text and instead not in text
        self.defined[name] = text.replace(written, instead) if is_possible else DATASETS[name]
        self.said.append(f"define {name}: {instead!r}")
        self.plant.redefine(description(self.defined), is_on_purpose=True)
        for other in self.sources:
            other.dataset = self.plant.datasets[other.dataset.name]
        self.drain()


def check(plant: Plant, seed: int) -> Number:
    plant.forget_everything()
    plant.redefine(description(), is_on_purpose=True)
    plant.place = replace(plant.place, max_shift_rows=[0, 20, 100_000][seed % 3])
    arrivals = Followed(plant, random.Random(seed))
    arrivals.run()
    arrivals.settle()
    # An audit proves a part of the law from what is stored alone; a ledger that keeps the law must pass it.
    assert_all_holds(plant)
    return arrivals.reader.checked


@settings(SETTINGS, max_examples=6)
# An extreme without a base after the change: the row of its segment is written anew and needs no shift.
@example(seed=1824)
# A metric turns from float to int, and some of its values stay the same number: 0.0 and 0.
@example(seed=48)
# A reset at the very instant at which the segment before it ends; and an extreme of another order of magnitude.
@example(seed=1155643478)
@example(seed=3758686919)
# A first reset at the very instant of a channel's first readings, and another one later in the segment.
@example(seed=1286188559)
@example(seed=4040999741)
# Parked readings are released, and the file is cut before a worker comes: one pass does both.
@example(seed=2825274)
@given(seed=st.integers(0, 2**32))
def test_the_ledger_leads_from_some_published_values_to_those_of_now(plant: Plant, seed: int) -> None:
    check(plant, seed)


@pytest.mark.slow
@pytest.mark.timeout(max(3600, 30 * EXAMPLES))
@settings(SETTINGS, max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**32))
def test_the_ledger_leads_from_every_published_value_to_that_of_now(plant: Plant, seed: int) -> None:
    check(plant, seed)
