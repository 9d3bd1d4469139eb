"""Random histories of a plant with destinations: files in any order, and what happens to loaders and definitions."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
from deltalake import DeltaTable
from psycopg import sql

from disarray.control import destinations, instances
from disarray.errors import DestinationError
from disarray.failpoints import InjectedError
from disarray.model.description.destination import DeltaTarget
from disarray.sinks.destination_delta_store import open_store
from tests.crashes import CrashError, crash, fail, striking
from tests.sinks.destination_plant import URL
from tests.worker.deliveries import DATASET, deliveries, remove_and_allow

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.model.description.destination import Destination
    from tests.sinks.destination_plant import DestinationPlant

STEPS = (
    "destination.claimed",
    "destination.staged",
    "destination.merged",
    "destination.committed",
    "destination.advanced",
)
# Of a large load, which is cut into pieces: only where the target is another PostgreSQL.
STEPS_OF_PIECES = ("destination.begun", "destination.pieced")
LINE = DATASET % {"key": 'key = ["part"]'}
WHERE = {"delta": "delta", "same": 'database = "same"', "other": f'url = {{ env = "{URL}" }}'}


@dataclass(frozen=True)
class Definition:
    """What of the dataset and of its destinations is defined anew in a history."""

    where: str
    load: str
    factor: float = 0.1
    has_most: bool = False
    every: str = "1 h"
    place: str = "published"
    subjects: str = "*"
    keep: str = "7 d"
    bucket: str = ""  # the lines of a destination in a bucket, with <path>

    def text(self) -> str:
        """A disarray.toml, with a destination for each thing that can be loaded."""
        line = LINE.replace('input = "volts * 0.1"', f'input = "volts * {self.factor}"')
        if self.has_most:
            total = 'total = { function = "sum", input = "volts" }'
            line = line.replace(
                total, f'{total}\nmost = {{ function = "max", input = "volts * {self.factor}" }}'
            )
        return line + "".join(self._destination(name, what) for name, what in self._contents().items())

    def _contents(self) -> dict[str, str]:
        return {
            "readings": 'readings = "line"',
            "shift": 'rollup = "line.shift"',
            "quarter": 'rollup = "line.quarter"',
            "energy": f'metric = "line.energy"\nevery = "{self.every}"',
            "parts": 'metric = "line.parts"\nevery = "30 min"',
            "newest": 'newest = "line"',
        }

    def _destination(self, name: str, what: str) -> str:
        target = f'delta = "{self.place}/{name}"'
        if self.bucket:
            target = self.bucket.replace("<path>", f"{self.place}/{name}")
        if self.where != "delta":
            target = (
                f'{WHERE[self.where]}\ntable = "{self.place}.{name}"\nload = "{self.load}"\ncreate = true'
            )
            if self.load == "append":
                target += f'\nkeep_superseded = "{self.keep}"'
        return f'\n[[destination]]\nname = "{name}"\n{what}\nsubjects = ["{self.subjects}"]\n{target}\n'


class DestinationHistory:
    """One history, all of it decided by its seed."""

    def __init__(self, plant: DestinationPlant, definition: Definition, seed: int) -> None:
        self.plant = plant
        self.definition = definition
        self.seed = seed
        self.generator = random.Random(seed)
        self.arrived: list[Path] = []
        self.happened: list[str] = []
        # In half of the histories every load of readings is a large one.
        self.cut_readings = 1 if seed % 2 == 0 else 1_000_000
        self.make_loaders()

    def run(self) -> None:
        """Everything that arrives, with something happening after each step; in the end all targets are right."""
        for each in deliveries(self.seed):
            for size in [*each.steps, len(each.text)]:
                path = self.plant.write(each.name, each.text[:size])
                self.plant.ingest(path)
                self.happen()
            self.arrived.append(path)
            if self.generator.random() < 0.3:
                remove_and_allow(self.plant, self.generator.choice(self.arrived))
        self.load_and_compare()
        assert self.plant.load() == [], f"all was loaded, and something is due: {self.happened}"

    def happen(self) -> None:
        """Whatever the history has next."""
        event = self.generator.choices(
            [
                self.wait,
                self.load_and_compare,
                self.die,
                self.redefine,
                self.republish,
                self.freeze,
                self.vacuum,
            ],
            [6, 5, 5, 3, 3, 2, 1],
        )[0]
        self.happened.append(event.__name__)
        event()

    def wait(self) -> None:
        """Commits pile up."""

    def load_and_compare(self) -> None:
        """Everybody loads, and every target is what is answered."""
        # Whatever was put off, or was held by somebody who is gone, is due.
        self.pass_time(timedelta(minutes=30))
        self.plant.load()
        differences = self.plant.differences()
        assert differences == {}, f"{self.happened}\n{self.definition}\n{differences}"

    def die(self) -> None:
        """A loader dies at some step, or the step fails; a new life goes on."""
        steps = STEPS + STEPS_OF_PIECES if self.definition.where == "other" else STEPS
        point, hit = self.generator.choice(steps), self.generator.randrange(1, 5)
        action = self.generator.choice([crash, crash, fail])
        self.happened.append(f"{action.__name__} at {point}, hit {hit}")
        self.pass_time(timedelta(minutes=30))
        with striking(point, action, at_hit=hit):
            try:
                self.plant.load()
            except (CrashError, InjectedError, DestinationError):
                self.start_again("Worker01")

    def freeze(self) -> None:
        """A loader sleeps longer than its lease while another one does more than its work; then it wakes up."""
        points = ["destination.claimed", "destination.committed"]
        # Elsewhere a lock is held, for which the other would wait until the server ends the session.
        points += ["destination.staged"] if self.definition.where == "delta" else []
        point, hit = self.generator.choice(points), self.generator.randrange(1, 5)
        self.happened.append(f"frozen at {point}, hit {hit}")

        def others_go_on() -> None:
            former = self.plant.place
            self.start_again("Worker02")
            self.generator.choice([self.wait, self.redefine, self.republish])()
            self.load_and_compare()
            self.plant.place = former

        sleepers = list(self.plant.loaders.values())
        self.pass_time(timedelta(minutes=30))
        with striking(point, others_go_on, at_hit=hit) as strike:
            for loader in sleepers:
                list(loader.load_due())
        if strike.has_struck:
            differences = self.plant.differences()
            assert differences == {}, f"{self.happened}\n{differences}"
        self.start_again("Worker01")

    def redefine(self) -> None:
        """A worker is started with another definition of the dataset or of the destinations."""
        now = self.definition
        self.definition = self.generator.choice(
            [
                replace(now, factor=0.3 - now.factor),
                replace(now, has_most=not now.has_most),
                replace(now, every="30 min" if now.every == "1 h" else "1 h"),
                replace(now, place="elsewhere" if now.place == "published" else "published"),
                replace(now, subjects="L1" if now.subjects == "*" else "*"),
                replace(now, keep="0 s" if now.keep == "7 d" else "7 d"),
            ]
        )
        self.happened.append(f"redefined as {self.definition}")
        former = list(self.plant.loaders.values())
        self.plant.redefine(self.definition.text(), is_on_purpose=True)
        self.make_loaders()
        if self.generator.random() < 0.5:
            # Numbers of the former definition are there, and a worker that knows no better.
            for loader in former:
                list(loader.load_due())
            self.plant.load()
        self.plant.drain()

    def republish(self) -> None:
        """A destination is loaded anew, whole or one subject; often somebody changed its target before."""
        loader = self.plant.loaders[self.generator.choice(sorted(self.plant.loaders))]
        name = loader.destination.name
        with self.plant.pool.connection() as connection:
            # Of others the target has nothing yet.
            subjects = [
                each.subject_key
                for each in destinations.list_destination_subjects(connection, name)
                if each.next_at is not None
            ]
            chosen = self.generator.choice([None, *subjects])
            damage = self.generator.choice(["none", "deleted", "changed"])
            self.happened.append(f"{name}, {chosen or 'whole'}, its rows: {damage}")
            if damage != "none":
                tamper(self.plant, loader.destination, chosen, damage=damage)
            destinations.decide_destination(
                connection, name, "republished", reason="a test", by="ada", subject_key=chosen
            )

    def vacuum(self) -> None:
        """Housekeeping clears the targets."""
        for loader in self.plant.loaders.values():
            loader.vacuum()

    def start_again(self, name: str) -> None:
        """A new life of a worker: whatever the former one held is free."""
        with self.plant.pool.connection() as connection:
            holder = instances.register_instance(connection, name)
        self.plant.place = replace(self.plant.place, holder=holder)
        self.make_loaders()

    def make_loaders(self) -> None:
        """Loaders of a worker that was just started."""
        self.plant.loaders = self.plant.make_loaders(cut_readings=self.cut_readings)

    def pass_time(self, by: timedelta) -> None:
        """Let the clock of the database jump."""
        with self.plant.pool.connection() as connection:
            connection.execute("update disarray.test_clock set ahead = ahead + %s", (by,))


def tamper(
    plant: DestinationPlant, destination: Destination, subject_key: str | None, *, damage: str
) -> None:
    """Delete rows of a target behind its back, or change what they are known by; nothing where it is not there yet."""
    target = destination.target
    if isinstance(target, DeltaTarget):
        store = open_store(target)
        if not DeltaTable.is_deltatable(store.path, dict(store.options)):
            return
        predicate = None if subject_key is None else f"subject_key = '{subject_key}'"
        if damage == "deleted":
            store.open().delete(predicate)
        else:
            store.open().update({"channel": "channel || '?'"}, predicate=predicate)
        return
    table = sql.Identifier(target.schema, target.table)
    statement = sql.SQL("delete from {}" if damage == "deleted" else "update {} set channel = channel || '?'")
    chosen = sql.SQL("") if subject_key is None else sql.SQL(" where subject_key = {}").format(subject_key)
    with psycopg.connect(
        plant.dsn if target.url is None else plant.target_dsn, autocommit=True
    ) as connection:
        [is_there] = connection.execute(
            "select to_regclass(%s) is not null", (f"{target.schema}.{target.table}",)
        )
        if is_there[0]:
            connection.execute(statement.format(table) + chosen)
