"""Targets without room, and targets that may no longer be written: told, nothing lost, nobody else held up."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from disarray.control import destinations
from disarray.errors import DestinationMisfitError, DestinationUnavailableError
from tests.disks import fill_disk, grow_disk, tiny_disk
from tests.reading_lines import HEADER
from tests.sinks.destination_history import LINE
from tests.sinks.destination_plant import DestinationPlant
from tests.sinks.test_destination_faults import OTHER, SAME
from tests.worker.deliveries import rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.control.destinations import DestinationState

READINGS = 'readings = "line"'


def described(target: str) -> str:
    """A destination beside another one, which is well."""
    return LINE + "".join(
        f'[[destination]]\nname = "{name}"\n{READINGS}\n{where}\n'
        for name, where in {"target": target, "other": SAME.format(name="a", load="upsert")}.items()
    )


def take(plant: DestinationPlant, seed: int) -> None:
    plant.ingest(plant.write(f"L1/{seed}.csv", HEADER + "".join(rows(random.Random(seed), 3_000))))


def states(plant: DestinationPlant) -> dict[str, DestinationState]:
    with plant.pool.connection() as connection:
        return {each.destination: each for each in destinations.list_destinations(connection)}


def assert_waits_alone(plant: DestinationPlant, kind: type[Exception], message: str) -> None:
    """The target is told to be failing, with its lag; the other one is loaded all the same."""
    loader = plant.loaders["target"]
    with pytest.raises(kind, match=message), loader.breaker.guard():
        list(loader.load_due())
    assert loader.breaker.retry_in > 0
    assert list(plant.loaders["other"].load_due())
    found = states(plant)
    assert (found["target"].state, found["target"].lag_commits) == ("failing", 1)
    assert (found["other"].state, found["other"].lag_commits) == ("current", 0)


def assert_untouched(plant: DestinationPlant, has: object) -> None:
    assert set(plant.differences()) == {"target"}
    assert plant.target_rows(plant.loaders["target"].destination) == has


def assert_catches_up(plant: DestinationPlant) -> None:
    [report] = plant.loaders["target"].load_due()
    assert report.commits == 1
    assert plant.differences() == {}
    assert states(plant)["target"].state == "current"


@contextmanager
def database_on(disk: Path, server_dsn: str) -> Iterator[str]:
    """A database of the server whose tables have a disk of their own."""
    name = f"tiny_{uuid.uuid4().hex}"
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        place = disk / "space"
        place.mkdir()
        backend = Path(f"/proc/{admin.info.backend_pid}")
        if not backend.exists():
            pytest.skip("the server is not on this machine: it cannot be given a small disk")
        os.chown(place, backend.stat().st_uid, -1)
        admin.execute(
            sql.SQL("create tablespace {} location {}").format(sql.Identifier(name), sql.Literal(str(place)))
        )
        admin.execute(
            sql.SQL("create database {} template template0 tablespace {}").format(
                sql.Identifier(name), sql.Identifier(name)
            )
        )
        try:
            yield psycopg.conninfo.make_conninfo(server_dsn, dbname=name)
        finally:
            grow_disk(disk, size="512m")
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
            admin.execute(sql.SQL("drop tablespace {}").format(sql.Identifier(name)))


@pytest.fixture
def disk() -> Iterator[Path]:
    """A small disk that anybody may write to."""
    folder = Path(tempfile.mkdtemp(prefix="disarray-tiny-"))
    folder.chmod(0o755)
    with tiny_disk(folder, size="512m"):
        yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("load", ["upsert", "append", "replace"])
def test_a_database_without_room_is_loaded_once_it_has_some(
    tmp_path: Path, dsn: str, server_dsn: str, disk: Path, load: str
) -> None:
    with database_on(disk, server_dsn) as target_dsn:
        description = described(OTHER.format(name="b", load=load))
        plant = DestinationPlant(tmp_path, dsn, description=description, target_dsn=target_dsn)
        take(plant, 1)
        plant.load()
        has = plant.target_rows(plant.loaders["target"].destination)
        take(plant, 2)
        fill_disk(disk)
        assert_waits_alone(plant, DestinationUnavailableError, "No space left|could not extend")
        # A connection may have to write a file too (`pg_internal.init`), so one reads when there is room again.
        grow_disk(disk, size="512m")
        assert_untouched(plant, has)
        assert_catches_up(plant)
        plant.pool.close()


def test_a_folder_without_room_is_loaded_once_it_has_some(tmp_path: Path, dsn: str, disk: Path) -> None:
    plant = DestinationPlant(
        tmp_path, dsn, description=described(f'delta = "{disk}/published"'), target_dsn=dsn
    )
    take(plant, 1)
    plant.load()
    has = plant.target_rows(plant.loaders["target"].destination)
    take(plant, 2)
    fill_disk(disk)
    assert_waits_alone(plant, DestinationUnavailableError, "cannot be written: .*No space left")
    assert_untouched(plant, has)
    grow_disk(disk, size="512m")
    assert_catches_up(plant)
    plant.pool.close()


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ("delete on published.b", "may not DELETE on .*b"),
        ("select, update on published.disarray_position", "may not SELECT, UPDATE on .*disarray_position"),
        ("usage on schema published", "permission denied for schema published"),
    ],
)
def test_a_permission_that_is_lost_is_named_and_what_is_due_waits_for_it(
    tmp_path: Path, dsn: str, target_dsn: str, lost: str, message: str
) -> None:
    role = f"loader_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(target_dsn, autocommit=True) as admin:
        for statement in (
            f"create role {role} login",
            f"create schema published authorization {role}",
        ):
            admin.execute(statement.encode())
        try:
            description = described(OTHER.format(name="b", load="upsert"))
            loader_dsn = psycopg.conninfo.make_conninfo(target_dsn, user=role)
            plant = DestinationPlant(tmp_path, dsn, description=description, target_dsn=loader_dsn)
            take(plant, 1)
            plant.load()
            plant.target_dsn = target_dsn  # whoever looks may look
            has = plant.target_rows(plant.loaders["target"].destination)
            take(plant, 2)
            # Somebody took the tables over, and gave back less.
            for table in "published.b", "published.disarray_position":
                admin.execute(f"alter table {table} owner to current_user".encode())
                admin.execute(f"grant all on {table} to {role}".encode())
            admin.execute(b"alter schema published owner to current_user")
            admin.execute(f"grant all on schema published to {role}".encode())
            admin.execute(f"revoke {lost} from {role}".encode())
            assert_waits_alone(plant, DestinationMisfitError, message)
            assert_untouched(plant, has)
            admin.execute(f"grant {lost} to {role}".encode())
            assert_catches_up(plant)
            plant.pool.close()
        finally:
            admin.execute(f"drop owned by {role} cascade".encode())
            admin.execute(f"drop role {role}".encode())
