"""Instruments keep totals of their own; readings that were read right add up to them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from disarray.kernels.reading.outcome import ReadStatus
from disarray.model.description.format import CHANNEL, EVENT_US, POSITION
from disarray.model.segments import datetime_of
from tests.formats.conftest import dataset_of, read_quiet

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from disarray.formats.loader import Description

pytestmark = pytest.mark.real_data

Shipped = dict[str, "Description"]


def read(shipped: Shipped, name: str, root: Path, path: str, **own: object) -> pa.Table:
    preview = read_quiet(dataset_of(shipped[name].table, root, **own), root / path)
    assert preview.outcome.status is ReadStatus.READ, preview.outcome.message
    assert preview.outcome.counts.is_balanced
    assert preview.outcome.counts.rejected == 0
    return preview.table


def step_ends(*changing: NDArray[Any]) -> NDArray[np.int64]:
    """The last reading of each step: where one of the columns changes next."""
    changed = np.any([column[1:] != column[:-1] for column in changing], axis=0)
    return np.append(np.flatnonzero(changed), len(changing[0]) - 1)


def integral_within_steps(table: pa.Table, ends: NDArray[np.int64]) -> tuple[float, float]:
    """Ampere-hours in and out by trapezoids over event time that bridge no step."""
    amps, seconds = table["amps"].to_numpy(), table[EVENT_US].to_numpy() / 1e6
    parts = (amps[1:] + amps[:-1]) * 0.5 * np.diff(seconds) / 3600
    parts[ends[:-1]] = 0.0
    return float(parts[parts > 0].sum()), float(-parts[parts < 0].sum())


@pytest.mark.parametrize(
    ("path", "readings", "charge", "discharge"),
    [
        ("maccor_ch70/xTESLADIAG_000019_CH70.070", 11_669, 88.6079, 89.2035),
        ("maccor_ch70/PreDiag_000229_000229_truncated.034", 4_061, 8.6263, 4.7626),
    ],
)
def test_maccor_meets_the_cyclers_own_charge(
    shipped: Shipped, real_data: Path, path: str, readings: int, charge: float, discharge: float
) -> None:
    table = read(shipped, "maccor", real_data, path, zone="America/Los_Angeles")
    state, counter = np.array(table["state"].to_pylist()), table["amp_hours"].to_numpy()
    ends = step_ends(table["step"].to_numpy(), state, np.append(0, np.cumsum(np.diff(counter) < 0)))
    assert table.num_rows == readings
    assert counter[ends][state[ends] == "C"].sum() == pytest.approx(charge, abs=5e-5)
    assert counter[ends][state[ends] == "D"].sum() == pytest.approx(discharge, abs=5e-5)
    assert integral_within_steps(table, ends) == pytest.approx((charge, discharge), rel=1e-3)


def test_neware_meets_the_cyclers_own_charge_and_keeps_its_unterminated_last_line(
    shipped: Shipped, real_data: Path
) -> None:
    table = read(shipped, "neware", real_data, "neware_flat/neware_uio.csv", zone="Europe/Oslo")
    ends = step_ends(table["step"].to_numpy())
    assert table.num_rows == 9_065
    assert table["record"][-1].as_py() == 9_065
    assert len(np.unique(table[EVENT_US].to_numpy())) == 9_065 - 99
    assert table["charge_ah"].to_numpy()[ends].sum() == pytest.approx(0.017769, abs=5e-7)
    assert table["discharge_ah"].to_numpy()[ends].sum() == pytest.approx(0.020744, abs=5e-7)
    assert integral_within_steps(table, ends) == pytest.approx((0.017769, 0.020744), rel=1e-3)


def test_sunnybeam_meets_the_lifetime_counter_and_blank_is_not_zero(
    shipped: Shipped, real_data: Path
) -> None:
    paths = sorted((real_data / "sunnybeam_pv").glob("*/*.csv"))
    cells = [
        value
        for path in paths
        for value in read(
            shipped, "sunnybeam", real_data, str(path.relative_to(real_data)), zone="Europe/Berlin"
        )["energy"].to_pylist()
    ]
    values = [value for value in cells if value is not None]
    assert (len(paths), len(cells), len(values)) == (61, 8_784, 2_963)
    assert (values[0], values[-1]) == (46_609.111, 46_738.901)
    assert values == sorted(values)


def test_danfoss_meets_the_daily_counters_of_thirteen_inverters(shipped: Shipped, real_data: Path) -> None:
    path = "danfoss_pv/2019-09-26/details.txt"
    table = read(shipped, "danfoss", real_data, path, zone="Europe/Rome", channel="serial")
    highest: defaultdict[tuple[str, str], float] = defaultdict(float)
    for row in table.select([EVENT_US, CHANNEL, "energy_today"]).to_pylist():
        day = datetime_of(row[EVENT_US]).astimezone(ZoneInfo("Europe/Rome")).date().isoformat()
        highest[row[CHANNEL], day] = max(highest[row[CHANNEL], day], row["energy_today"] or 0.0)
    assert table.num_rows == 9_477
    assert len({channel for channel, _ in highest}) == 13
    assert sum(highest.values()) == pytest.approx(1_660.736, abs=1e-9)


def test_the_later_danfoss_summary_repeats_the_earlier_one_exactly(shipped: Shipped, real_data: Path) -> None:
    earlier, later = (
        {
            row[EVENT_US]: row
            for row in read(
                shipped, "danfoss", real_data, f"danfoss_pv/{day}/summary.txt", zone="Europe/Rome"
            )
            .drop_columns([POSITION])
            .to_pylist()
        }
        for day in ("2019-09-26", "2019-10-05")
    )
    shared = earlier.keys() & later.keys()
    assert (len(shared), len(earlier | later)) == (438, 4_067)
    assert all(earlier[stamp] == later[stamp] for stamp in shared)


def test_quakes_keep_quoted_commas_and_every_event(shipped: Shipped, real_data: Path) -> None:
    table = read(
        shipped,
        "csv",
        real_data,
        "usgs_quakes/all_month.csv",
        zone="UTC",
        event_time={"from": "time", "layouts": "iso"},
        columns={
            "id": "string",
            "place": "string",
            "mag": "float64",
            "updated": {"type": "timestamp", "layouts": "iso"},
        },
    )
    assert table.num_rows == len(set(table["id"].to_pylist())) == 10_134
    assert table["place"][0].as_py() == "18 km ESE of Clam Gulch, Alaska"
