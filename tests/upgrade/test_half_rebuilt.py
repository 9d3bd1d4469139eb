"""A plant that was stopped in the middle of a rebuild ends, after an upgrade, as one that is made new from its files.

DISARRAY_HALF_REBUILT_PLANT names a folder that an earlier program wrote, by
`python -m tests.upgrade.half_rebuilt --readings 1000000 --folder FOLDER`: the same at another size.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from disarray.control import connections, instances
from disarray.control.migrations import migrate
from disarray.store.audit.audit import AuditSettings, audit
from tests.plant import Plant
from tests.upgrade.half_rebuilt import (
    BEGUN,
    DAYS,
    FORMER,
    IN_FORCE,
    REBUILT,
    SHIFTED_LATER,
    SUBJECTS,
    decide,
    numbers,
)
from tests.upgrade.record import FOLDER, PLANT
from tests.upgrade.test_upgrade import verified

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.databases import Databases

pytestmark = pytest.mark.postgres

AT_REST = AuditSettings(
    patience=timedelta(0), since=timedelta(3650), orphans_after=timedelta(1), is_deep=True
)
Numbers = dict[str, list[list[str]]]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Database, lake and files as the earlier program left them."""
    if given := os.environ.get("DISARRAY_HALF_REBUILT_PLANT"):
        return Path(given)
    [archive] = FOLDER.glob("half_rebuilt_*.tar.xz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path / "recording", filter="data")
    return tmp_path / "recording"


@pytest.fixture
def new_database(databases: Databases, template_database: str) -> Iterator[Callable[[], str]]:
    """Makes databases that are empty but for the roles of the server."""
    assert template_database
    made: list[str] = []

    def make() -> str:
        made.append(databases.create())
        return databases.dsn(made[-1])

    yield make
    for name in made:
        databases.discard(name)


@pytest.fixture
def home(tmp_path: Path, recording: Path) -> Path:
    """The folder of the plant."""
    folder = tmp_path / "plant"
    for part in ("inbox", "lake"):
        # With times of today: what nothing names is left alone for a day.
        shutil.copytree(recording / part, folder / part, copy_function=shutil.copyfile)
    return folder


@pytest.fixture
def upgraded_dsn(new_database: Callable[[], str], recording: Path, home: Path) -> str:
    """The database of the earlier program, upgraded."""
    dsn = new_database()
    with connections.connect(dsn) as connection:
        connection.execute((recording / "database.sql").read_text().replace(PLANT, str(home)).encode())
    with connections.connect(dsn) as connection:
        migrate(connection)
    return dsn


@pytest.fixture
def make_new(
    new_database: Callable[[], str], home: Path, tmp_path: Path
) -> Iterator[Callable[[str], Numbers]]:
    """Makes a plant from the same files by this program alone, under a definition; its numbers."""
    plants: list[Plant] = []

    def make(description: str) -> Numbers:
        root = tmp_path / f"new {len(plants)}"
        shutil.copytree(home / "inbox", root / "inbox")
        dsn = new_database()
        with connections.connect(dsn) as connection:
            migrate(connection)
        plant = Plant(root, dsn, description=description)
        plants.append(plant)
        for days in (range(DAYS // 2), range(DAYS // 2, DAYS)):
            plant.ingest(
                *(plant.inbox / subject / f"{day:02}.csv" for subject in SUBJECTS for day in reversed(days))
            )
        for subject in SUBJECTS:
            decide(plant, subject)
        return numbers_of(plant)

    yield make
    for plant in plants:
        plant.pool.close()


def numbers_of(plant: Plant, *subjects: str) -> Numbers:
    with plant.pool.connection() as connection:
        return about(numbers(connection), *subjects or SUBJECTS)


def finish(plant: Plant) -> None:
    """Let the worker, which served two of the subjects, do what is left of all."""
    with plant.pool.connection() as connection:
        holder = instances.register_instance(connection, "Worker01", subject_patterns=["*"])
    plant.place = replace(plant.place, holder=holder)
    plant.drain()


def about(found: Numbers, *subjects: str) -> Numbers:
    names = {repr(subject) for subject in subjects}
    return {table: [row for row in rows if row[0] in names] for table, rows in found.items()}


def test_an_upgrade_in_the_middle_of_a_rebuild_ends_as_a_plant_that_is_made_new(
    upgraded_dsn: str, home: Path, make_new: Callable[[str], Numbers]
) -> None:
    plant = Plant(home, upgraded_dsn, description=IN_FORCE)
    try:
        waiting = plant.rows(
            "select subject_key from disarray.ingest_queue where kind = 'rebuild' order by 1"
        )
        assert waiting == [(BEGUN,), (SHIFTED_LATER,)]
        former, new = make_new(FORMER), make_new(IN_FORCE)
        assert all(new.values())
        assert numbers_of(plant, REBUILT) == about(new, REBUILT)
        assert numbers_of(plant, BEGUN, SHIFTED_LATER) == about(former, BEGUN, SHIFTED_LATER)
        finish(plant)
        assert numbers_of(plant) == new
        with plant.pool.connection() as connection:
            verdicts = audit(connection, plant.place.lake, AT_REST)
        assert {verdict.rule.name: verdict.findings for verdict in verdicts if verdict.findings} == {}
    finally:
        plant.pool.close()


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(3600)
def test_a_plant_that_was_upgraded_in_the_middle_of_a_rebuild_is_verified(
    upgraded_dsn: str, home: Path
) -> None:
    plant = Plant(home, upgraded_dsn, description=IN_FORCE)
    finish(plant)
    plant.pool.close()
    found = verified(upgraded_dsn, home)
    assert found["differences"] == [], found
    assert found["compared"]["files"] >= len(SUBJECTS) * DAYS
