"""A database that an earlier program made, with data in it, is brought forward and works on as if it were new."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from disarray.control import backfills, blacklist, connections, files, quarantine
from disarray.control.backfills import BackfillDecision
from disarray.control.migrations import check_schema, known_migrations, migrate
from disarray.errors import SchemaMissingError, SourceReplacedError
from disarray.store.audit.audit import AuditSettings, audit
from tests.control.test_schema import describe_functions, describe_relations, describe_types
from tests.plant import Plant
from tests.upgrade.history import DESCRIPTION, HELD_BACK, numbers
from tests.upgrade.neighbours import EVENTS, NEIGHBOURS, Neighbours, state_of
from tests.upgrade.record import FOLDER, PLANT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres

RECORDINGS = sorted(FOLDER.glob("schema_*.tar.xz"))
# Since this schema a recording holds more than files.
FIRST_WITH_NEIGHBOURS = 26
AT_REST = AuditSettings(
    patience=timedelta(0), since=timedelta(3650), orphans_after=timedelta(1), is_deep=True
)


def version_of(path: Path) -> int:
    return int(path.name.partition(".")[0].removeprefix("schema_"))


@pytest.fixture(params=RECORDINGS, ids=[path.name.partition(".")[0] for path in RECORDINGS])
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What an earlier program left behind: database, lake and files."""
    folder: Path = tmp_path / request.param.name
    with tarfile.open(request.param) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "plant"
    folder.mkdir()
    return folder


@pytest.fixture
def restored_dsn(server_dsn: str, template_database: str, recording: Path, home: Path) -> Iterator[str]:
    """The recorded database, played back; the roles of the server are there already."""
    assert template_database
    name = f"disarray_upgraded_{uuid.uuid4().hex}"
    dsn = psycopg.conninfo.make_conninfo(server_dsn, dbname=name)
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
        try:
            with psycopg.connect(dsn) as connection:
                dump = (recording / "database.sql").read_text().replace(PLANT, str(home))
                connection.execute(dump.encode())
            yield dsn
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def upgraded(restored_dsn: str, recording: Path) -> Iterator[Connection]:
    with connections.connect(restored_dsn) as connection:
        if version_of(recording) < known_migrations()[-1].version:
            with pytest.raises(SchemaMissingError, match="disarray db migrate"):
                check_schema(connection)
        migrate(connection)
        check_schema(connection)
        yield connection


@pytest.fixture
def plant(upgraded: Connection, restored_dsn: str, recording: Path, home: Path) -> Iterator[Plant]:
    """The plant goes on with this program."""
    assert upgraded
    has_neighbours = version_of(recording) >= FIRST_WITH_NEIGHBOURS
    built = Plant(home, restored_dsn, description=DESCRIPTION + (NEIGHBOURS if has_neighbours else ""))
    for part in ("inbox", "lake", "landing") if has_neighbours else ("inbox", "lake"):
        # With times of today: what nothing names is left alone for a day.
        shutil.copytree(recording / part, home / part, dirs_exist_ok=True, copy_function=shutil.copyfile)
    yield built
    built.pool.close()


def release_everything(plant: Plant) -> None:
    with plant.pool.connection() as connection:
        for uri in sorted({waiting.source_uri for waiting in quarantine.list_quarantine(connection)}):
            quarantine.release_file(connection, uri, reason="it counts", by="ada")
        plant.drain()
        assert quarantine.list_quarantine(connection) == []


def numbers_of(plant: Plant) -> dict[str, list[list[str]]]:
    with plant.pool.connection() as connection:
        return numbers(connection)


def fresh_numbers(fresh: Plant, home: Path) -> dict[str, list[list[str]]]:
    """What this program makes of the same files on a new database, the last name first."""
    shutil.copytree(home / "inbox", fresh.inbox, dirs_exist_ok=True)
    for path in sorted(fresh.inbox.rglob("*.csv"), reverse=True):
        fresh.ingest(path)
        if path.name == "removed.csv":
            with fresh.pool.connection() as connection:
                blacklist.blacklist_file(connection, str(path), "C1", reason="a loose cable", by="ada")
            fresh.drain()
        if path.name == "open_end.csv":
            fresh.ingest(path, reason=files.Reason.QUIET)
    release_everything(fresh)
    return numbers_of(fresh)


def test_there_is_a_recording_of_a_schema_that_landed() -> None:
    assert RECORDINGS


def test_an_upgraded_schema_is_that_of_a_new_database(upgraded: Connection, connection: Connection) -> None:
    migrate(connection)
    for describe in (describe_types, describe_relations, describe_functions):
        new = [part for part in describe(connection) if "test_clock" not in part]
        assert describe(upgraded) == new


def test_an_upgrade_changes_no_number(upgraded: Connection, recording: Path) -> None:
    recorded = json.loads((recording / "numbers.json").read_text())
    neighbours = recorded.pop("neighbours", None)
    assert numbers(upgraded) == recorded
    assert neighbours is None or state_of(upgraded) == neighbours


def test_running_views_of_an_upgraded_database_look_up_each_metric(upgraded: Connection) -> None:
    read = upgraded.execute(
        """
        select distinct view.relname, link.refobjid::regclass::text
        from pg_class as view
        inner join pg_rewrite as rule on view.oid = rule.ev_class
        inner join pg_depend as link on rule.oid = link.objid and link.classid = 'pg_rewrite'::regclass
        where
            view.relnamespace = 'telemetry'::regnamespace
            and view.relkind = 'v'
            and link.refclassid = 'pg_class'::regclass
            and link.refobjid in ('disarray.segment_metric'::regclass, 'disarray.metric_block'::regclass)
        """
    ).fetchall()
    assert read == [("meters_running", "disarray.metric_block")]


@pytest.mark.parametrize("recording", RECORDINGS[-1:], ids=["newest"], indirect=True)
def test_what_was_under_way_in_an_upgraded_database_is_brought_to_its_end(
    plant: Plant, restored_dsn: str, recording: Path
) -> None:
    neighbours = Neighbours(plant, restored_dsn)
    neighbours.drain_inbox()
    plant.drain()
    assert plant.rows("select count(*) from disarray.raw_event where state = 'done'") == [(2 * EVENTS,)]
    with pytest.raises(SourceReplacedError):
        neighbours.pull()
    shutil.copytree(recording / HELD_BACK / "meters", plant.inbox / "meters", dirs_exist_ok=True)
    plant.ingest(plant.inbox / "meters/M1/between.csv")
    neighbours.load()
    neighbours.refresh()
    [counted] = plant.rows("select count(*) from telemetry.meters_running")
    assert [counted] == plant.rows("select count(*) from published.meters")
    assert [counted] == plant.rows("select sum(readings) from telemetry.meter_counts")
    with plant.pool.connection() as connection:
        [begun] = [job for job in backfills.list_backfills(connection) if job.state == "paused"]
        backfills.decide_backfill(
            connection, begun.job_id, BackfillDecision.RESUMED, reason="Monday", by="ada"
        )
        neighbours.run_job(begun.job_id)
        [ended] = backfills.list_backfills(connection, job_id=begun.job_id)
    assert (ended.state, ended.verdict) == ("done", "verified")
    assert plant.rows("select distinct touched, effects from shop.orders") == [(2, 2)]


def digest_rows_anew(plant: Plant) -> None:
    """Rows of tables are digested with the names of their files, and those changed when the recording was unpacked."""
    plant.rows("update disarray.segment set table_digest = null where table_digest is not null returning 1")
    plant.rows("select disarray.queue_copies('meters', null)")
    plant.drain()


def test_everything_holds_after_an_upgrade(plant: Plant) -> None:
    digest_rows_anew(plant)
    with plant.pool.connection() as connection:
        verdicts = audit(connection, plant.place.lake, AT_REST)
    broken = {verdict.rule.name: verdict.findings for verdict in verdicts if verdict.findings}
    assert broken == {}


def test_an_upgraded_plant_takes_in_what_is_late_and_ends_as_one_that_never_knew_another_program(
    plant: Plant, recording: Path, home: Path, dsn: str, tmp_path: Path
) -> None:
    plant.drain()
    shutil.copytree(recording / HELD_BACK, plant.inbox, dirs_exist_ok=True)
    for path in sorted((recording / HELD_BACK).rglob("*.csv")):
        plant.ingest(plant.inbox / path.relative_to(recording / HELD_BACK))
    release_everything(plant)
    (tmp_path / "fresh").mkdir()
    with connections.connect(dsn) as connection:
        # Blocks as long as everywhere: those of the tests are shorter.
        migrate(connection)
    fresh = Plant(tmp_path / "fresh", dsn, description=DESCRIPTION)
    try:
        assert numbers_of(plant) == fresh_numbers(fresh, home)
    finally:
        fresh.pool.close()
    digest_rows_anew(plant)
    with plant.pool.connection() as connection:
        verdicts = audit(connection, plant.place.lake, AT_REST)
    assert [verdict for verdict in verdicts if verdict.findings] == []


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_an_upgraded_plant_is_verified(plant: Plant, restored_dsn: str, home: Path) -> None:
    digest_rows_anew(plant)
    assert (verify := verified(restored_dsn, home))["differences"] == [], verify
    assert verify["compared"]["files"] > 10


def verified(dsn: str, home: Path) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DISARRAY_")}
    command = [sys.executable, "-m", "disarray", "--dsn", dsn, "--state-dir", str(home), "verify", "--json"]
    found = subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, check=False, timeout=1700
    )
    assert found.returncode == 0, found.stdout + found.stderr
    document: dict[str, Any] = json.loads(found.stdout)
    return document
