"""The order of a backup: the database first, then the lake, while work goes on."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from disarray.control import connections, instances
from disarray.store.lake import Lake
from tests.worker.test_compaction import EAGER, grow, line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.plant import Plant

pytestmark = pytest.mark.postgres

NAMED = "select distinct path from disarray.fragment where state = 'active'"


@pytest.fixture
def dump(server_dsn: str, dsn: str) -> Iterator[Callable[[Plant], str]]:
    """Copies the plant's database as it is now; nobody may be connected meanwhile, so the pool is opened anew."""
    name = f"disarray_restored_{uuid.uuid4().hex}"

    def copy(plant: Plant) -> str:
        plant.pool.close()
        source = str(conninfo_to_dict(dsn)["dbname"])
        statement = sql.SQL("create database {} template {}")
        with psycopg.connect(server_dsn, autocommit=True) as admin:
            admin.execute(statement.format(sql.Identifier(name), sql.Identifier(source)))
        use(plant, dsn, plant.place.lake)
        return make_conninfo(dsn, dbname=name)

    yield copy
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def use(plant: Plant, dsn: str, lake: Lake) -> None:
    """The same inbox and worker, on another database and lake."""
    plant.pool.close()
    plant.pool = connections.open_pool(dsn)
    with plant.pool.connection() as connection:
        holder = instances.register_instance(connection, "Worker01")
    plant.place = replace(plant.place, pool=plant.pool, lake=lake, holder=holder, housekeeping=EAGER)


def missing(plant: Plant) -> list[str]:
    """The files that the catalog names and the lake does not have."""
    lake = plant.place.lake
    return [str(path) for (path,) in plant.rows(NAMED) if not (lake.root / str(path)).exists()]


def work_on(plant: Plant, first: Path) -> list[Path]:
    """What happens between the two halves of a backup: files come and grow, and fragments are merged."""
    first.write_text(first.read_text() + line(20))
    other = plant.write("T1/other.csv", "time,watts,good\n" + line(70))
    plant.ingest(first, other)
    plant.keep_house()
    return [first, other]


def test_database_first_then_lake_restores_and_catches_up_with_what_came_since(
    plant: Plant, dump: Callable[[Plant], str], tmp_path: Path
) -> None:
    first = grow(plant, "T1/grown.csv", steps=4)
    before = plant.derived()
    restored = dump(plant)
    changed = work_on(plant, first)
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    after = plant.derived()

    use(plant, restored, Lake(tmp_path / "copy"))

    assert missing(plant) == []
    assert plant.derived() == before
    plant.ingest(*changed)
    assert plant.derived() == after


def test_lake_first_then_database_names_files_that_the_copy_lacks(
    plant: Plant, dump: Callable[[Plant], str], tmp_path: Path
) -> None:
    first = grow(plant, "T1/grown.csv", steps=4)
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    work_on(plant, first)
    restored = dump(plant)

    use(plant, restored, Lake(tmp_path / "copy"))

    assert missing(plant)
