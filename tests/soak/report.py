"""The table at the end: what was injected, what became of the files, and every verdict."""

from __future__ import annotations

import os
import platform
import signal
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.soak.plan import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.soak.checks import Verdict
    from tests.soak.injector import Injector
    from tests.soak.ledger import Balance
    from tests.soak.reader import Reader
    from tests.soak.settling import Drained, Outcome
    from tests.soak.site import Site

_SHOWN = 10


def say(text: str) -> None:
    """A line that is seen at once, also in a file."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@dataclass
class Table:
    """What is known at the end of a soak."""

    seed: int
    minutes: float
    injector: Injector
    reader: Reader
    outcome: Outcome | None = None
    drained: Drained | None = None
    balance: Balance | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    landings: int = 0
    lives: int = 0
    commands: str = ""
    killed: int = 0

    def settle(self, site: Site, drained: Drained, outcome: Outcome) -> None:
        """Take down what the plant has to tell before it is taken apart."""
        self.drained, self.outcome = drained, outcome
        self.landings = site.inbox.landings
        self.lives = sum(worker.lives for worker in site.workers)
        self.killed = sum(worker.exits[-signal.SIGKILL] for worker in site.workers)
        self.commands = f"{site.operator.done}, and {len(site.operator.refused)} that failed or were cut off"

    @property
    def complaints(self) -> list[str]:
        """Everything that must not be."""
        assert self.outcome is not None
        assert self.balance is not None
        return [
            *self.outcome.complaints,
            *self.balance.samples,
            *self.reader.violations,
            *self.injector.troubles,
            *(f"{verdict.check}: {verdict.said}" for verdict in self.verdicts if not verdict.is_good),
        ]


def print_report(table: Table) -> bool:
    """Print the table in Markdown; whether everything held."""
    say("")
    for line in _lines(table):
        say(line)
    complaints = table.complaints
    for complaint in complaints[:_SHOWN]:
        say(f"BROKEN  {complaint}")
    if len(complaints) > _SHOWN:
        say(f"… and {len(complaints) - _SHOWN} more")
    say("")
    say("everything held" if not complaints else f"{len(complaints)} complaints")
    return not complaints


def _lines(table: Table) -> Iterator[str]:
    assert table.outcome is not None
    assert table.drained is not None
    assert table.balance is not None
    injector, balance, outcome = table.injector, table.balance, table.outcome
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    yield f"seed {table.seed}, {table.minutes:g} minutes, {machine}"
    yield ""
    yield "| injected | times |"
    yield "|---|---:|"
    for fault in Fault:
        if injector.done[fault] or injector.without_effect[fault]:
            yield f"| {fault.value} | {injector.done[fault]} |"
    if injector.struck:
        yield ""
        struck = ", ".join(f"{name} {count}" for name, count in sorted(injector.struck.items()))
        yield f"failpoints that struck: {struck}"
    yield ""
    yield "| at the end | |"
    yield "|---|---:|"
    stood = ", ".join(f"{count:,} {status}" for status, count in outcome.statuses.most_common())
    rows = {
        "files": f"{sum(outcome.statuses.values()):,} in {table.landings:,} landings ({stood})",
        "lives of workers": f"{table.lives}, {table.killed} of them ended by SIGKILL",
        "commands of the operator": table.commands,
        "readings that count": f"{balance.readings:,}",
        "lost": f"{balance.lost}",
        "duplicated": f"{balance.duplicated}",
        "unexpected": f"{balance.unexpected}",
        "wrong running totals": f"{balance.wrong_totals}",
        "recovered files (a worker died or froze over them)": f"{outcome.recovered:,}",
        "looks of the reader": f"{table.reader.looks:,} at {table.reader.readings:,} readings, "
        f"{len(table.reader.violations)} violations",
        "drain": f"{table.drained.seconds:.0f} s, {table.drained.asked_again} asked for again by the operator",
        **{verdict.check: verdict.said for verdict in table.verdicts},
    }
    for name, said in rows.items():
        yield f"| {name} | {said} |"
