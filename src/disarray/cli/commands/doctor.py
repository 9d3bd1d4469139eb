"""`disarray doctor`: is everything there that disarray needs, and if not, what mends it."""

from __future__ import annotations

import enum
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import typer

from disarray.cli.support.options import AsJson
from disarray.cli.support.printing import print_json
from disarray.cli.support.project import configuration
from disarray.cli.support.text_tables import Table, print_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from disarray.config import Config
    from disarray.control.inspection import ServerInspection

OLDEST_JAVA = 17
LEAST_FREE_BYTES = 2 * 1024**3
WIDEST_CLOCK_OFFSET = timedelta(seconds=2)


class Verdict(enum.StrEnum):
    """How a check ended; a note is worth knowing and needs no fix."""

    OK = "ok"
    FAILED = "failed"
    NOTE = "note"


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    verdict: Verdict
    found: str
    fix: str | None = None

    def rows(self) -> Iterator[list[str]]:
        """The line, and below it what mends it."""
        yield [self.verdict, self.name, self.found]
        if self.fix:
            yield ["", "", f"fix: {self.fix}"]


def doctor(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Check Java, Spark, PostgreSQL, disk and clocks. Each failing line names its fix."""
    checks = list(examine(configuration(context)))
    if as_json:
        print_json(checks)
    else:
        print_parts([Table(["", "", ""], [row for check in checks for row in check.rows()])])
    if any(check.verdict is Verdict.FAILED for check in checks):
        raise typer.Exit(1)


def examine(config: Config) -> Iterator[Check]:
    """Make every check that this configuration asks for."""
    yield check_java(os.environ)
    yield check_spark()
    yield check_spark_ports(config.spark_settings)
    yield check_disk(config.state_dir)
    yield from _check_database(config)


def check_java(environment: Mapping[str, str]) -> Check:
    """Spark needs a Java; JAVA_HOME goes before PATH, as it does for Spark itself."""
    home = environment.get("JAVA_HOME")
    fix = "sudo apt-get install openjdk-17-jre-headless"
    if home:
        fix += " and unset JAVA_HOME, or point it at that Java"
    program = f"{home}/bin/java" if home else shutil.which("java", path=environment.get("PATH"))
    try:
        if program is None:
            raise FileNotFoundError
        answer = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return Check("java", Verdict.FAILED, f"no Java that runs{f' in {home}' if home else ''}", fix)
    # Up to Java 8 the version was written 1.8.0.
    match = re.search(r'version "(?:1\.)?(\d+)[^"]*"', answer)
    if match is None:
        return Check("java", Verdict.FAILED, f"{program} does not print its version", fix)
    found = f"{match[0].removeprefix('version ')} at {program}".replace('"', "")
    if int(match[1]) < OLDEST_JAVA:
        return Check("java", Verdict.FAILED, f"{found} is older than {OLDEST_JAVA}", fix)
    return Check("java", Verdict.OK, found)


def check_spark() -> Check:
    """Spark is looked up, not imported: that alone takes seconds."""
    from importlib import metadata

    try:
        return Check("spark", Verdict.OK, f"pyspark {metadata.version('pyspark')}")
    except metadata.PackageNotFoundError:
        fix = "pip install 'disarray-pipeline[worker]' (a machine that only runs the agent needs no Spark)"
        return Check("spark", Verdict.FAILED, "pyspark is not installed", fix)


def check_spark_ports(settings: Mapping[str, str]) -> Check:
    """Whoever may talk to Spark's ports can run programs as its user; on one machine that is everybody with a login."""
    from disarray.engine.authentication import is_authenticated, makes_its_own_secret

    if is_authenticated(settings):
        return Check("spark ports", Verdict.OK, "only for those who know the secret of the session")
    if makes_its_own_secret(settings.get("spark.master", "local[*]")):
        found = "open to every user of this machine, who could run programs as this one"
        return Check("spark ports", Verdict.FAILED, found, "take `authenticate` out of [spark]")
    found = f"open to everybody who reaches {settings['spark.master']}"
    fix = "set spark.authenticate and a secret on the cluster, and `authenticate` and `authenticate.secret` in [spark]"
    return Check("spark ports", Verdict.FAILED, found, fix)


def check_disk(state_dir: Path) -> Check:
    """Room for the state folder, or for where it will be."""
    folder = next(path for path in (state_dir, *state_dir.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    found = f"{free / 1024**3:.1f} GiB free for {state_dir}"
    if free < LEAST_FREE_BYTES:
        return Check("disk", Verdict.FAILED, found, "make room, or choose another folder with --state-dir")
    return Check("disk", Verdict.OK, found)


def _check_database(config: Config) -> Iterator[Check]:
    from disarray import embedded
    from disarray.control.inspection import inspect_server
    from disarray.errors import DatabaseUnreachableError

    dsn = config.dsn
    if dsn is None:
        status = embedded.status(config.state_dir)
        if status.server is None:
            found = f"the embedded server of {config.state_dir} is {status.condition.value}"
            yield Check("postgresql", Verdict.FAILED, found, "disarray db start")
            return
        dsn = status.server.dsn
    try:
        inspection = inspect_server(dsn)
    except DatabaseUnreachableError as problem:
        fix = f"mend database.dsn ({config.origin('database.dsn')}), or start that server"
        yield Check("postgresql", Verdict.FAILED, str(problem), fix)
        return
    yield from judge_database(inspection)


def judge_database(inspection: ServerInspection) -> Iterator[Check]:
    """Say whether a server will do."""
    from disarray.control.inspection import OLDEST_VERSION

    if inspection.major_version < OLDEST_VERSION:
        fix = f"use PostgreSQL {OLDEST_VERSION} or later, or leave out the DSN for the embedded one"
        yield Check("postgresql", Verdict.FAILED, f"version {inspection.version} is too old", fix)
    else:
        yield Check("postgresql", Verdict.OK, f"version {inspection.version}, connected as {inspection.user}")
    if inspection.missing_roles:
        missing = ", ".join(inspection.missing_roles)
        yield Check("roles", Verdict.FAILED, f"missing: {missing}", "disarray db migrate")
    else:
        yield Check("roles", Verdict.OK, "agent, worker, operator and reader are there")
    if "timescaledb" in inspection.available_extensions:
        yield Check("extensions", Verdict.OK, "timescaledb is available")
    else:
        yield Check("extensions", Verdict.NOTE, "no timescaledb: the timescale store uses plain partitions")
    found = (
        f"the database is {round(inspection.clock_offset.total_seconds(), 3) + 0.0:+.3f} s off this host"
        f" (± {inspection.round_trip.total_seconds() / 2:.3f} s)"
    )
    if abs(inspection.clock_offset) > WIDEST_CLOCK_OFFSET + inspection.round_trip / 2:
        yield Check("clock", Verdict.FAILED, found, "sudo timedatectl set-ntp true, on both machines")
    else:
        yield Check("clock", Verdict.OK, found)
