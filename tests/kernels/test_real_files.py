"""Files that instruments wrote, against the counters that the instruments kept themselves."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from disarray.formats.loader import shipped_descriptions
from disarray.kernels.parsing.zones import pinned_zone
from disarray.kernels.reading.outcome import ReadReason, ReadStatus
from disarray.model.description.read_spec import Key, KeyKind, ReadSpec, RejectLimits
from tests.kernels.conftest import Desk

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

DATA = Path(os.environ.get("DISARRAY_REAL_DATA", Path(__file__).parents[3] / "shared" / "data"))

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.skipif(
        not DATA.is_dir(), reason=f"no real instrument files at {DATA} (set DISARRAY_REAL_DATA)"
    ),
]


def read_real(tmp_path: Path, name: str, zone: str, pattern: str) -> Iterator[pa.Table]:
    """The readings of every file that matches, by the shipped format; none may be rejected."""
    described = shipped_descriptions()[name].format
    assert described.event_time is not None
    spec = ReadSpec(
        dataset=name,
        format=described,
        columns=described.columns,
        event_time=replace(described.event_time, zone=zone),
        channel=None,
        order_by=(),
        key=Key(KeyKind.CONTENT),
        segment_length_us=86_400_000_000,
        future_tolerance_us=None,
        reject_limits=RejectLimits(),
        parse_version="1",
    )
    paths = sorted(DATA.glob(pattern))
    assert paths, pattern
    for path in paths:
        desk = Desk(tmp_path, spec, options={"path": str(path), "roots": (str(DATA),)})
        desk.name = path.name
        desk.folder = tmp_path / path.relative_to(DATA)
        desk.folder.mkdir(parents=True)
        outcome = desk.read(ReadReason.QUIET)
        assert (outcome.status, outcome.counts.rejected) == (ReadStatus.READ, 0), outcome
        assert desk.readings is not None
        yield desk.readings


def steps_of(table: pa.Table, *names: str) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    steps = defaultdict(list)
    for row in table.to_pylist():
        steps[tuple(row[name] for name in names)].append(row)
    return steps


@pytest.mark.parametrize(
    ("pattern", "rows", "charge", "discharge"),
    [
        ("maccor_ch70/*.070", 11_669, 88.6079, 89.2035),
        ("maccor_ch70/*.034", 4_061, 8.6263, 4.7626),
    ],
)
def test_maccor_meets_the_cyclers_own_amp_hours(
    tmp_path: Path, pattern: str, rows: int, charge: float, discharge: float
) -> None:
    (table,) = read_real(tmp_path, "maccor", "America/Los_Angeles", pattern)
    assert table.num_rows == rows
    totals = {"C": 0.0, "D": 0.0}
    run: tuple[Any, ...] | None = None
    last: dict[str, Any] | None = None
    for row in table.to_pylist():
        key = (row["cycle"], row["step"], row["state"])
        if (
            last is not None
            and (key != run or row["amp_hours"] < last["amp_hours"])
            and last["state"] in totals
        ):
            totals[last["state"]] += last["amp_hours"]
        run, last = key, row
    if last is not None and last["state"] in totals:
        totals[last["state"]] += last["amp_hours"]
    assert totals["C"] == pytest.approx(charge, rel=1e-3)
    assert totals["D"] == pytest.approx(discharge, rel=1e-3)


def test_neware_meets_the_cyclers_own_amp_hours_to_the_last_unterminated_line(tmp_path: Path) -> None:
    (table,) = read_real(tmp_path, "neware", "Europe/Oslo", "neware_flat/*.csv")
    assert table.num_rows == 9_065
    steps = steps_of(table, "cycle", "step")
    charge = sum(max(row["charge_ah"] for row in rows) for rows in steps.values())
    discharge = sum(max(row["discharge_ah"] for row in rows) for rows in steps.values())
    assert (charge, discharge) == pytest.approx((0.017769, 0.020744), rel=1e-3)


def test_sunnybeam_meets_the_lifetime_counter_and_blank_is_not_zero(tmp_path: Path) -> None:
    tables = list(read_real(tmp_path, "sunnybeam", "Europe/Berlin", "sunnybeam_pv/*/*.csv"))
    assert sum(table.num_rows for table in tables) == 8_784
    energy = [value for table in tables for value in table.column("energy").to_pylist() if value is not None]
    assert len(energy) == 2_963
    assert (min(energy), max(energy)) == (46_609.111, 46_738.901)
    assert energy == sorted(energy)


def test_danfoss_meets_the_daily_counters_of_thirteen_inverters(tmp_path: Path) -> None:
    (table,) = read_real(tmp_path, "danfoss", "Europe/Rome", "danfoss_pv/*/details.txt")
    assert table.num_rows == 9_477
    zone = pinned_zone("Europe/Rome")
    days: dict[tuple[str, date], float] = defaultdict(float)
    for row in table.to_pylist():
        local = datetime.fromtimestamp(row["_event_us"] / 1e6, tz=zone)
        key = (row["serial"], local.date())
        days[key] = max(days[key], row["energy_today"] or 0.0)
    assert len({serial for serial, _ in days}) == 13
    assert sum(days.values()) == pytest.approx(1_660.736, abs=1e-6)


def test_the_later_danfoss_summary_contains_the_earlier_one(tmp_path: Path) -> None:
    earlier, later = read_real(tmp_path, "danfoss", "Europe/Rome", "danfoss_pv/*/summary.txt")
    stamps = [set(table.column("_event_us").to_pylist()) for table in (earlier, later)]
    assert (len(stamps[0] & stamps[1]), len(stamps[0] | stamps[1])) == (438, 4_067)
