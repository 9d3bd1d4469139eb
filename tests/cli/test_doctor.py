"""What the doctor makes of what it finds."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.cli.commands.doctor import (
    Verdict,
    check_disk,
    check_java,
    check_spark_ports,
    judge_database,
)
from disarray.control.inspection import ROLES, ServerInspection, inspect_server
from disarray.errors import DatabaseUnreachableError

if TYPE_CHECKING:
    from pathlib import Path


def server(
    *,
    major_version: int = 18,
    missing_roles: tuple[str, ...] = (),
    extensions: frozenset[str] = frozenset(),
    clock_offset: float = 0.0,
    round_trip: float = 0.001,
) -> ServerInspection:
    return ServerInspection(
        version=f"{major_version}.1",
        major_version=major_version,
        user="alice",
        missing_roles=missing_roles,
        available_extensions=extensions,
        clock_offset=timedelta(seconds=clock_offset),
        round_trip=timedelta(seconds=round_trip),
    )


def java_home(folder: Path, told: str) -> dict[str, str]:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat >&2 <<'end'\n{told}\nend\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(folder)}


@pytest.mark.parametrize(
    ("told", "verdict"),
    [
        ('openjdk version "17.0.15" 2025-04-15', Verdict.OK),
        ('openjdk version "25" 2025-09-16', Verdict.OK),
        ('openjdk version "21-ea" 2023-09-19', Verdict.OK),
        ('java version "1.8.0_401"', Verdict.FAILED),
        ('openjdk version "11.0.2" 2019-01-15', Verdict.FAILED),
        ("segmentation fault", Verdict.FAILED),
    ],
)
def test_java_is_judged_by_its_major_version(tmp_path: Path, told: str, verdict: Verdict) -> None:
    check = check_java(java_home(tmp_path, told))
    assert check.verdict is verdict
    assert (check.fix is not None) == (verdict is Verdict.FAILED)


def test_missing_java_is_told_with_the_package_to_install() -> None:
    check = check_java({"PATH": "/nowhere"})
    assert (check.verdict, check.fix) == (Verdict.FAILED, "sudo apt-get install openjdk-17-jre-headless")


def test_disk_is_measured_where_the_state_folder_will_be(tmp_path: Path) -> None:
    assert str(tmp_path / "not" / "yet") in check_disk(tmp_path / "not" / "yet").found


@pytest.mark.parametrize(
    ("settings", "fix"),
    [
        ({}, None),
        ({"spark.master": "yarn"}, None),
        ({"spark.master": "spark://one:7077", "spark.authenticate": "true"}, None),
        ({"spark.authenticate": "false"}, "take `authenticate` out of [spark]"),
        ({"spark.master": "spark://one:7077"}, "a secret on the cluster"),
    ],
)
def test_ports_of_spark_that_anybody_may_use_are_found_with_what_closes_them(
    settings: dict[str, str], fix: str | None
) -> None:
    check = check_spark_ports(settings)
    assert check.verdict is (Verdict.OK if fix is None else Verdict.FAILED)
    assert (fix or "") in (check.fix or "")


@pytest.mark.parametrize(
    ("found", "failing"),
    [
        pytest.param(server(), set(), id="healthy"),
        pytest.param(server(major_version=15), set(), id="oldest-that-will-do"),
        pytest.param(server(major_version=14), {"postgresql"}, id="too-old"),
        pytest.param(server(missing_roles=ROLES[:1]), {"roles"}, id="not-migrated"),
        pytest.param(server(clock_offset=-3), {"clock"}, id="clock-behind"),
        pytest.param(server(clock_offset=3), {"clock"}, id="clock-ahead"),
        pytest.param(server(clock_offset=3, round_trip=4), set(), id="network-too-slow-to-tell"),
    ],
)
def test_a_server_fails_where_it_will_not_do(found: ServerInspection, failing: set[str]) -> None:
    checks = list(judge_database(found))
    assert {check.name for check in checks if check.verdict is Verdict.FAILED} == failing
    assert {check.name for check in checks if check.fix is not None} == failing


def test_a_server_without_timescale_is_noted_and_does_not_fail() -> None:
    verdicts = {check.name: check.verdict for check in judge_database(server())}
    assert verdicts["extensions"] is Verdict.NOTE


@pytest.mark.postgres
def test_inspection_of_a_real_server_finds_its_version_and_clock(server_dsn: str) -> None:
    inspection = inspect_server(server_dsn)
    assert inspection.major_version >= 15
    assert "plpgsql" in inspection.available_extensions
    assert inspection.round_trip < timedelta(seconds=5)
    assert abs(inspection.clock_offset) < timedelta(seconds=5)


def test_unreachable_server_is_told_without_its_password() -> None:
    with pytest.raises(DatabaseUnreachableError) as refusal:
        inspect_server("postgresql://alice:s3cret@127.0.0.1:1/lab", timeout_seconds=2)
    assert "s3cret" not in str(refusal.value)
