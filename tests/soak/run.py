"""One soak from the first file to the table."""

from __future__ import annotations

import random
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.demo.factory import Factory, out_of_order_percent
from tests.soak.checks import Verdict, audited, balance_of, ended_well, swept, verified
from tests.soak.injector import Injector
from tests.soak.landing import SECONDS_A_PART, Lander, is_ordinary, plan_deliveries
from tests.soak.plan import Fault, plan_strikes
from tests.soak.reader import Reader
from tests.soak.report import Table, print_report, say
from tests.soak.settling import counts, drain, outcome
from tests.soak.site import built_site

if TYPE_CHECKING:
    from pathlib import Path

    from tests.soak.settling import Drained
    from tests.soak.site import Site

_PROGRESS_SECONDS = 10.0
_FEWEST_DAYS = 6
_LONG_MINUTES = 10
# The last files land while faults still strike.
_LANDING_SHARE = 0.92
REPORTS_A_DAY = 6


@dataclass(frozen=True, kw_only=True)
class Order:
    """How long, how much, and which seed."""

    minutes: float
    seed: int
    tools: int = 60
    files_per_minute: int = 650
    drain_minutes: float = 10.0
    with_spark: bool = True
    faults: frozenset[Fault] = frozenset(Fault)

    @property
    def quiet_minutes(self) -> float:
        """When a file counts as complete: soon in a soak of some minutes, else only after its end."""
        return 0.5 if 1 <= self.minutes < _LONG_MINUTES else 2 * (self.minutes + self.drain_minutes)

    @property
    def factory(self) -> Factory:
        """A factory with as many days as it takes to have so many files."""
        days = round(self.minutes * self.files_per_minute / (self.tools * REPORTS_A_DAY))
        return Factory(self.tools, max(_FEWEST_DAYS, days), self.seed, seconds_a_part=SECONDS_A_PART)


def run_soak(order: Order, folder: Path) -> bool:
    """Build the plant, strike it, heal it, ask everything; whether all of it held."""
    seconds = order.minutes * 60
    factory = order.factory
    planned = plan_deliveries(factory, random.Random(f"{order.seed}/files"), seconds=seconds * _LANDING_SHARE)
    landed = [each.arrival for each in planned if is_ordinary(each.arrival.name)]
    left_out = frozenset[Fault]() if order.with_spark else frozenset({Fault.KILL_SPARK_WORKER})
    strikes = plan_strikes(order.seed, seconds=seconds, faults=order.faults - left_out)
    say(
        f"seed {order.seed}: {len(planned):,} landings, {out_of_order_percent(landed)} % out of order, "
        f"{len(strikes)} strikes in {order.minutes:g} minutes; {folder}"
    )
    with (
        built_site(folder, days=factory.days, quiet_minutes=order.quiet_minutes) as site,
        ExitStack() as running,
    ):
        [dataset] = site.house.datasets.values()
        lander = Lander(site.inbox, planned)
        reader = Reader(site.postgres.dsn, site.house.lake, dataset, planned, seed=order.seed)
        injector = Injector(site, strikes)
        table = Table(order.seed, order.minutes, injector, reader)
        site.open()
        for each in (reader, lander):
            each.start()
            running.callback(each.stop)
        with Progress(site, injector, reader):
            injector.run()
            lander.finish()
        say("healed; waiting until the backlog is gone …")
        with Progress(site, injector, reader):
            drained = drain(site, within_seconds=order.drain_minutes * 60)
        reader.stop()
        table.settle(site, drained, outcome(site))
        table.verdicts += _ask_everything(site, table, drained, with_spark=order.with_spark)
        return print_report(table)


def _ask_everything(site: Site, table: Table, drained: Drained, *, with_spark: bool) -> list[Verdict]:
    say("at rest; asking …")
    verdicts = [Verdict("backlog drained", drained.is_all, drained.left or f"in {drained.seconds:.0f} s")]
    verdicts.append(ended_well(site))
    assert table.outcome is not None
    table.balance = balance_of(site, table.outcome.accepted)
    verdicts += [swept(site), audited(site)]
    if with_spark:
        verdicts.append(verified(site))
    return verdicts


class Progress:
    """A line every ten seconds while the block runs."""

    def __init__(self, site: Site, injector: Injector, reader: Reader) -> None:
        self._site, self._injector, self._reader = site, injector, reader
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._began = time.monotonic()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_PROGRESS_SECONDS):
            now = counts(self._site)
            queued = "database away" if now is None else f"{now.queued:,} queued"
            say(
                f"{time.monotonic() - self._began:6.0f} s  {self._site.inbox.landings:,} landed  {queued}  "
                f"{sum(self._injector.done.values())} strikes  "
                f"{self._injector.done[Fault.KILL_WORKER]} kills  {self._reader.looks:,} looks  "
                f"{len(self._reader.violations)} violations"
            )
