"""A project folder whose commands are run as processes that can be armed, and its questions at rest."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from tests.faults.checkers import problems
from tests.faults.deliveries import DESCRIPTION, Deliveries
from tests.faults.lives import Life
from tests.plant import Plant

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.watcher import Watcher

_SETTINGS = """
[database]
dsn = "{dsn}"
[worker]
runner = "in-process"
lease = "{lease}"
[lake]
root = "lake"
"""


class Site:
    """A project folder whose commands are run as processes, one life after the other."""

    def __init__(self, root: Path, dsn: str, *, description: str = DESCRIPTION, lease: str = "5 min") -> None:
        self.dsn = dsn
        self.root = root
        self.plant = Plant(root, dsn, description=_SETTINGS.format(dsn=dsn, lease=lease) + description)
        self.deliveries = Deliveries(self.plant)
        self.lives: list[Life] = []

    def start(self, *arguments: str, armed: str = "", clock_ahead: float = 0) -> Life:
        """A command; `worker` as W1 unless something else is said."""
        life = Life(
            *(arguments or ("worker", "--name", "W1")),
            project=self.root,
            armed=armed,
            number=len(self.lives),
            clock_ahead=clock_ahead,
        )
        self.lives.append(life)
        return life

    def queued(self) -> int:
        """How much is queued."""
        return len(self.plant.rows("select 1 from disarray.ingest_queue"))

    def is_drained(self) -> bool:
        """Whether nothing is queued; what waits for another try has its turn at once, when nothing else runs."""
        [(rows, claimed, due)] = self.plant.rows(
            """
            select count(*), count(*) filter (where status = 'claimed'),
                count(*) filter (where available_at <= disarray.clock())
            from disarray.ingest_queue
            """
        )
        if rows and not claimed and not due:
            self.advance(timedelta(minutes=10))
        return rows == 0

    def advance(self, by: timedelta) -> None:
        """Let the database's clock jump: leases run out, delays end."""
        with self.plant.pool.connection() as connection:
            connection.execute("update disarray.test_clock set ahead = ahead + %s", (by,))

    def live_until_struck(self, armed: str, *, seconds: float = 240) -> Life:
        """Start a worker armed, and wait until it is dead or has nothing left to do."""
        life = self.start(armed=armed)
        deadline = time.monotonic() + seconds
        while not life.is_over and not self.is_drained():
            assert time.monotonic() < deadline, f"{armed}: neither dead nor done\n{life.log}"
            time.sleep(0.02)
        return life

    def heal(self) -> Life:
        """Start a worker unarmed under the same name, let it drain, and end it in good order."""
        for life in self.lives:
            if not life.is_over:
                life.end()
        healer = self.start()
        healer.await_(lambda: "W1 (life" in healer.log)
        healer.await_(self.is_drained)
        assert healer.end() == 0, healer.log
        return healer

    def set(self, former: str, new: str) -> None:
        """Change a setting; counts for whoever is started from then on."""
        settings = self.root / "disarray.toml"
        assert former in settings.read_text()
        settings.write_text(settings.read_text().replace(former, new))

    def problems(self) -> list[str]:
        """Whatever does not hold at rest."""
        return problems(self.plant, self.deliveries)

    def close(self) -> None:
        for life in self.lives:
            life.kill()
        self.plant.pool.close()


def assert_sound(site: Site, watcher: Watcher) -> None:
    """Once faults stop the backlog drains, and everything is as if there had been none."""
    site.heal()
    site.deliveries.note_versions()
    assert site.problems() == []
    assert watcher.problems() == []
    assert watcher.sights, "nobody looked"
