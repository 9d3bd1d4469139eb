"""Strikes the plant as planned; what took effect is counted."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from disarray.errors import ControlError
from disarray.failpoints import POINTS
from disarray.worker.upkeep.housekeeping import keep_house
from tests.soak.plan import Fault, Strike
from tests.soak.site import LEASE_SECONDS
from tests.soak.stations import resume
from tests.wire import Cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.soak.site import Site
    from tests.soak.stations import Station

_SIDE_BY_SIDE = 12
_SPARK_SECONDS = 75.0
_ZOMBIE_SECONDS = 45.0
_ARMED_SECONDS = 40.0
# The steps of a file's way; those of tables, rebuilds and housekeeping are not reached here by a worker.
_ELSEWHERE = (
    "rebuild.",
    "commit.rows",
    "commit.settling",
    "housekeeping.",
    "seal.",
    "vacuum.",
    "sweep.",
    "copy.",
)
_OF_THE_AGENT = ("agent.", "spool.", "publish.")
WORKER_STEPS = tuple(name for name in POINTS if not name.startswith((*_ELSEWHERE, *_OF_THE_AGENT)))
AGENT_STEPS = tuple(name for name in POINTS if name.startswith(_OF_THE_AGENT))


class Injector:
    """Works off a plan of strikes; several may be under way at a time, as misfortunes are."""

    def __init__(self, site: Site, strikes: Sequence[Strike]) -> None:
        self._site = site
        self._strikes = strikes
        self._stop = threading.Event()
        self._spark = threading.Lock()
        self._commit = threading.Lock()
        self.done: Counter[Fault] = Counter()
        self.without_effect: Counter[Fault] = Counter()
        self.struck: Counter[str] = Counter()  # by failpoint
        self.troubles: list[str] = []

    def run(self) -> None:
        """Strike until the plan is done or `stop` is called, and wait for what is under way."""
        began = time.monotonic()
        with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="strike") as pool:
            try:
                for strike in self._strikes:
                    if self._stop.wait(max(0.0, strike.at - (time.monotonic() - began))):
                        break
                    pool.submit(self._strike, strike)
            except BaseException:
                self._stop.set()  # Ctrl-C does not wait for what is under way
                raise

    def stop(self) -> None:
        """Begin no more."""
        self._stop.set()

    def _strike(self, strike: Strike) -> None:
        if self._stop.is_set():
            return
        try:
            took_effect = self._inflict(strike)
        except ControlError:
            took_effect = False  # the database was away at that moment
        except Exception as error:
            self.troubles.append(f"{strike}: {type(error).__name__}: {error}")
            return
        (self.done if took_effect else self.without_effect)[strike.fault] += 1

    def _inflict(self, strike: Strike) -> bool:
        site, amount = self._site, strike.amount
        match strike.fault:
            case Fault.KILL_WORKER:
                return self._light_worker(strike).kill()
            case Fault.KILL_AT_FAILPOINT:
                return self._arm(self._light_worker(strike), arming(strike, WORKER_STEPS))
            case Fault.KILL_AGENT_AT_FAILPOINT:
                return self._arm(site.agent, arming(strike, AGENT_STEPS, may_fail=False))
            case Fault.KILL_SPARK_WORKER:
                return self._kill_with_spark(strike)
            case Fault.FREEZE_WORKER:
                return self._freeze(self._light_worker(strike), LEASE_SECONDS * (1.2 + 0.4 * amount))
            case Fault.REPLACE_FROZEN_WORKER:
                return self._replace_frozen(self._light_worker(strike), 2 + 8 * amount)
            case Fault.CRASH_POSTGRES:
                site.postgres.crash(away_seconds=4 * amount)
            case Fault.CRASH_BROKER:
                site.broker.crash(away_seconds=4 * amount)
            case Fault.CUT_DATABASE:
                site.database_line.shut(3 * amount)
            case Fault.DEAD_DATABASE:
                site.database_line.go_dead(1 + 7 * amount)
            case Fault.CUT_BEFORE_COMMIT:
                return self._cut_at_commit(Cut.BEFORE_COMMIT)
            case Fault.CUT_AFTER_COMMIT:
                return self._cut_at_commit(Cut.AFTER_COMMIT)
            case Fault.CUT_BROKER:
                site.broker_line.shut(3 * amount)
            case Fault.KILL_AGENT:
                return site.agent.kill()
            case Fault.SHARE_AWAY:
                site.inbox.go_away(1 + 4 * amount)
            case Fault.RETRY:
                return site.operator.ask("dead-letters", "retry", "--all")
            case Fault.RECONCILE:
                return site.operator.ask("reconcile", "--all")
            case Fault.KEEP_HOUSE:
                return keep_house(site.house) is not None
            case _:
                return site.operator.decide(strike.fault, strike.target)
        return True

    def _light_worker(self, strike: Strike) -> Station:
        light = [worker for worker in self._site.workers if not worker.is_spark]
        return light[int(strike.target * len(light))]

    def _arm(self, station: Station, line: str) -> bool:
        """Let the next life end, or fail, at a step of its own; whether it came there in time."""
        log = self._site.folder / f"failpoint-{time.monotonic_ns()}.log"
        station.prepare(DISARRAY_FAILPOINTS=line, DISARRAY_FAILPOINT_LOG=str(log))
        station.kill()
        give_up_at = time.monotonic() + _ARMED_SECONDS
        action = line.partition("=")[2].partition("@")[0]
        while not (log.exists() and f" {action}\n" in log.read_text()):
            if self._stop.wait(0.5) or time.monotonic() > give_up_at:
                return False
        self.struck[line.partition("=")[0]] += 1
        return True

    def _kill_with_spark(self, strike: Strike) -> bool:
        """Let Spark take the place of a light worker for one life, give it time to work, and kill it."""
        with self._spark:
            worker = self._site.workers[-1]
            worker.prepare(DISARRAY_WORKER_RUNNER="spark")
            lives = worker.lives
            worker.kill()
            give_up_at = time.monotonic() + _SPARK_SECONDS
            while not (worker.lives > lives and worker.says(" items in ")):
                if self._stop.wait(0.5) or time.monotonic() > give_up_at:
                    break
            self._stop.wait(12 * strike.amount)
            return worker.is_spark and worker.kill()

    def _freeze(self, worker: Station, seconds: float) -> bool:
        process = worker.suspend()
        if process is None:
            return False
        try:
            self._stop.wait(seconds)
        finally:
            resume(process)
        return True

    def _replace_frozen(self, worker: Station, seconds: float) -> bool:
        process = worker.suspend()
        if process is None:
            return False
        worker.leave_to_a_successor()
        try:
            self._stop.wait(seconds)
        finally:
            resume(process)
        give_up_at = time.monotonic() + _ZOMBIE_SECONDS
        while process.poll() is None and time.monotonic() < give_up_at:
            time.sleep(0.2)
        if process.poll() is None:
            self.troubles.append(f"{worker.name}: woken after it was replaced, it did not end")
        return True

    def _cut_at_commit(self, cut: Cut) -> bool:
        with self._commit:
            line = self._site.database_line
            line.armed = cut
            give_up_at = time.monotonic() + 20
            while line.armed is not None and time.monotonic() < give_up_at and not self._stop.is_set():
                time.sleep(0.1)
            is_done = line.armed is None
            line.armed = None
            return is_done


def arming(strike: Strike, steps: Sequence[str], *, may_fail: bool = True) -> str:
    """What a life is armed with: mostly to die at the n-th time that it comes to a step, sometimes to fail there."""
    generator = random.Random(strike.amount)
    action = "raise" if may_fail and generator.random() < 0.2 else "kill"
    return f"{generator.choice(steps)}={action}@{generator.randint(1, 5)}"
