"""Files of the demo's factory that land in an inbox all along, and what each of them says."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from disarray.demo.factory import DATASET, START, Arrival, Factory
from disarray.model.uris import file_uri

if TYPE_CHECKING:
    import random
    from pathlib import Path

DRAWER, DAMAGED = "_found_in_a_drawer", "_damaged"
SECONDS_A_PART = 480
_BACKLOG_LANDS_AT = 0.7


@dataclass(frozen=True)
class Delivery:
    """What lands when, in seconds from the start."""

    at: float
    arrival: Arrival


def description(*, days: int, quiet_minutes: float) -> str:
    """The demo's dataset, with a horizon that a backlog of all the factory's days is within."""
    seconds = max(1, round(quiet_minutes * 60))
    return DATASET.replace('horizon = "40 d"', f'horizon = "{days + 7} d"\nquiet_after = "{seconds} s"')


def plan_deliveries(factory: Factory, generator: random.Random, *, seconds: float) -> list[Delivery]:
    """The factory's days in so many seconds: in its disorder, with backlog, damaged files and finds of long ago."""
    arrivals = factory.arrivals()
    begin = arrivals[0].at
    scale = seconds / (arrivals[-1].at - begin).total_seconds()
    planned = [Delivery((each.at - begin).total_seconds() * scale, each) for each in arrivals]
    planned += [
        Delivery(seconds * (_BACKLOG_LANDS_AT + number / 1000), each)
        for number, each in enumerate(factory.backlog())
    ]
    tools = [f"TOOL{number + 1:02d}" for number in range(factory.tools)]
    finds = max(2, round(seconds / 60))
    for number, tool in enumerate(generator.sample(tools, k=min(finds, factory.tools // 2))):
        old = replace(factory, seed=factory.seed + number).from_beyond_the_horizon()
        name = f"{tool}/report{DRAWER}.csv"
        # Once the newest reading is a horizon away from them.
        planned.append(Delivery(seconds * generator.uniform(0.55, 0.95), replace(old, name=name)))
    for tool in generator.sample(tools, k=max(1, finds // 4)):
        name = f"{tool}/report{DAMAGED}.csv"
        planned.append(Delivery(seconds * generator.uniform(0.1, 0.9), replace(factory.damaged(), name=name)))
    return sorted(planned, key=lambda each: each.at)


class Inbox:
    """The share: files land in it, grow in it, and sometimes it is not there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.texts: dict[str, str] = {}  # as far as they have landed
        self.landings = 0
        self._share = threading.Lock()

    def land(self, arrival: Arrival) -> None:
        """Append what is new of a file that grows; any other appears whole."""
        with self._share:
            path = self.root / arrival.name
            path.parent.mkdir(exist_ok=True)
            before = self.texts.get(arrival.name)
            if before is not None and arrival.text.startswith(before):
                with path.open("a", encoding="latin-1") as file:
                    file.write(arrival.text[len(before) :])
            else:
                unseen = path.with_suffix(".part")
                unseen.write_text(arrival.text, encoding="latin-1")
                unseen.rename(path)
            self.texts[arrival.name] = arrival.text
            self.landings += 1

    def go_away(self, seconds: float) -> None:
        """Nobody can reach the share for a while, those who write to it neither."""
        elsewhere = self.root.with_name(self.root.name + ".away")
        with self._share:
            self.root.rename(elsewhere)
            try:
                time.sleep(seconds)
            finally:
                elsewhere.rename(self.root)

    def uri(self, name: str) -> str:
        """What the pipeline calls a file."""
        return file_uri(str(self.root / name))


class Lander:
    """Lands what is planned, in a thread of its own, until all of it is there."""

    def __init__(self, inbox: Inbox, planned: list[Delivery]) -> None:
        self._inbox = inbox
        self._planned = planned
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lander", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self) -> None:
        """Wait until all has landed."""
        self._thread.join()

    def stop(self) -> None:
        """Land no more."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        began = time.monotonic()
        for delivery in self._planned:
            wait = delivery.at - (time.monotonic() - began)
            if self._stop.wait(max(0.0, wait)):
                return
            self._inbox.land(delivery.arrival)


def report_of(name: str) -> str:
    """The report that a file is, or is a copy of."""
    return name.replace("_copy", "")


def is_ordinary(name: str) -> bool:
    """Neither damaged nor from beyond the horizon."""
    return DRAWER not in name and DAMAGED not in name


def span_of(day: int, *, days: int) -> tuple[int, int]:
    """Some days of the factory, in microseconds."""
    first = START + timedelta(days=day)
    begin = int(first.timestamp()) * 1_000_000
    return begin, begin + days * 86_400_000_000
