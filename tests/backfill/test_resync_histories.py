"""Random histories of a table that is resynced, with writers, pulls and crashes beside: the numbers are the table's."""

from __future__ import annotations

import os
import random
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
import pytest

from disarray.control.backfills import BackfillDecision
from disarray.errors import LeaseLostError
from tests.backfill.resynced_plant import ResyncedPlant
from tests.backfill.test_killed_resyncs import ENGINE, RESYNCS, SWAPS
from tests.crashes import CrashError, crash, striking
from tests.sources.table_history import make_table, reader_url
from tests.sources.test_settled_watermarks import EXACT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

HISTORIES = range(int(os.environ.get("DISARRAY_RESYNC_HISTORIES", "1")))
TOOLS = ("TOOL01", "TOOL02", "TOOL03")
NOON = "timestamptz '2026-03-02 12:00+00'"


@pytest.fixture
def plant(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[ResyncedPlant]:
    monkeypatch.setenv("HISTORIAN_URL", reader_url(dsn))
    watermark = request.node.callspec.params["watermark"]
    make_table(dsn, cache=5 if watermark == "cached sequence" else 1)
    known = "sequence" if watermark == "cached sequence" else watermark
    chance = random.Random(request.node.name)
    built = ResyncedPlant(tmp_path, dsn, watermark=known, limit=chance.choice([2, 7, 1000]))
    yield built
    built.pool.close()


class Writers:
    """Sessions that change the table one statement at a time; some commit late."""

    def __init__(self, dsn: str, chance: random.Random) -> None:
        self.chance = chance
        self.sessions = [psycopg.connect(dsn, autocommit=True) for _ in range(3)]
        self.is_open = [False] * len(self.sessions)
        self.watts = 0

    def step(self, *, hides: bool) -> None:
        """A statement of one session; where it `hides`, perhaps one that no watermark shows."""
        index = self.chance.randrange(len(self.sessions))
        session = self.sessions[index]
        if not self.is_open[index] and self.chance.random() < 0.4:
            session.execute("begin")
            self.is_open[index] = True
        if self.is_open[index] and self.chance.random() < 0.4:
            session.execute(self.chance.choice([b"commit", b"commit", b"rollback"]))
            self.is_open[index] = False
            return
        self._write(session, hides=hides and self.chance.random() < 0.4)

    def end(self) -> None:
        """All commit what they have."""
        for index, session in enumerate(self.sessions):
            if self.is_open[index]:
                session.execute("commit")
                self.is_open[index] = False

    def close(self) -> None:
        for session in self.sessions:
            session.close()

    def _write(self, session: psycopg.Connection[Any], *, hides: bool) -> None:
        self.watts += 1
        some = "(select id from public.readings order by random() for update skip locked limit 1)"
        tool, minutes = self.chance.choice(TOOLS), self.chance.randrange(600)
        at = f"{NOON} + {minutes} * interval '1 min'"
        if hides:
            statement = self.chance.choice(
                [
                    f"delete from public.readings where id in {some}",
                    f"update public.readings set at = {at} where id in {some}",
                    f"update public.readings set tool = '{tool}' where id in {some}",
                    f"update public.readings set id = nextval('public.ids') where id in {some}",
                ]
            )
        elif self.chance.random() < 0.6:
            statement = (
                "insert into public.readings (id, tool, at, watts) "
                f"values (nextval('public.ids'), '{tool}', {at}, {self.watts})"
            )
        else:
            statement = (
                f"update public.readings set watts = {self.watts}, updated_at = clock_timestamp(), "
                f"changed = nextval('public.changes') where id in {some}"
            )
        session.execute(statement.encode())


@pytest.mark.parametrize("seed", HISTORIES)
@pytest.mark.parametrize("hides_beside", [False, True], ids=["", "hidden changes beside"])
@pytest.mark.parametrize("watermark", EXACT)
def test_numbers_are_those_of_the_table_whatever_went_on_before_and_beside_a_resync(
    plant: ResyncedPlant, dsn: str, watermark: str, hides_beside: bool, seed: int
) -> None:
    chance = random.Random(f"{watermark} {hides_beside} {seed}")
    writers = Writers(dsn, chance)
    for _ in range(50):
        if chance.random() < 0.8:
            writers.step(hides=True)
        else:
            pull(plant)
    # What is open now and hides something may be seen or not: a resync finds what was hidden before it began.
    writers.end()
    pull(plant)

    def beside() -> bool:
        for _ in range(chance.randrange(4)):
            chance.choice(
                [
                    lambda: writers.step(hides=hides_beside),
                    lambda: writers.step(hides=hides_beside),
                    lambda: pull(plant),
                    plant.drain,
                ]
            )()
        plant.drain()
        return False

    plant.is_over = beside
    resync_with_crashes(plant, chance)
    writers.end()
    writers.close()
    if hides_beside:
        plant.is_over = lambda: bool(plant.drain()) and False
        resync_with_crashes(plant, chance)
    for _ in range(3):  # what was open is over, and what it hid is read
        pull(plant)
    plant.drain()
    table = plant.table()
    assert plant.numbers() == table
    for tool in TOOLS:
        assert plant.total(tool) == sum(watts for subject, _, _, watts in table if subject == tool)
    assert plant.rows("select * from disarray.staged_delivery") == []


def pull(plant: ResyncedPlant) -> None:
    # Where a resync begins meanwhile, the next pull takes the same rows.
    with suppress(LeaseLostError):
        plant.pull()


def resync_with_crashes(plant: ResyncedPlant, chance: random.Random) -> None:
    """Lives of a worker, of which some end at a random step, until the resync has its verdict."""
    job_id = plant.start()
    for life in range(20):
        server = plant.server("Backfiller")
        point = chance.choice([*RESYNCS, *ENGINE, *SWAPS])
        try:
            if life < 4 and chance.random() < 0.7:
                with striking(point, crash, at_hit=chance.randrange(1, 4)):
                    server.run_job(job_id, threading.Event(), threads=1)
            else:
                server.run_job(job_id, threading.Event(), threads=1)
        except CrashError:
            plant.revive()
        job = plant.job(job_id)
        if job.state == "done":
            assert job.verdict == "verified", job
            return
        if job.state == "stopped":
            plant.decide(job_id, BackfillDecision.RESUMED)
    pytest.fail(f"the resync never ended: {job}")
