from __future__ import annotations

import pytest

from disarray.testing import Expect, check_format
from tests.formats.conftest import FIXTURES

CASES = {
    "maccor.070": (
        "America/Los_Angeles",
        Expect(
            readings=7,
            first={"event_time": "2024-03-01T17:15:00+00:00", "rec": 1, "state": "R", "amps": 0.0},
            last={"event_time": "2024-03-01T17:15:35+00:00", "rec": 7, "amps": -1.5, "volts": 3.46},
            preamble={"barcode": "CELL-17", "procedure": "demo.000"},
        ),
    ),
    "neware.csv": (
        "Europe/Oslo",
        Expect(
            readings=6,
            first={"event_time": "2024-05-02T06:00:00+00:00", "record": 1, "step_type": "Rest"},
            last={"event_time": "2024-05-02T06:03:00+00:00", "amps": -0.0012, "discharge_ah": 0.00002},
        ),
    ),
    "sunnybeam.csv": (
        "Europe/Berlin",
        Expect(
            readings=6,
            first={"event_time": "2024-06-05T03:30:00+00:00", "energy": None},
            last={"event_time": "2024-06-05T04:20:00+00:00", "energy": None},
            preamble={"serial": "2009990001", "model": "SB 1700"},
        ),
    ),
    "danfoss.txt": (
        "Europe/Rome",
        Expect(
            readings=6,
            first={"event_time": "2024-06-01T10:00:00+00:00", "serial": "000001N001", "temperature": 41.0},
            last={"event_time": "2024-06-02T04:00:00+00:00", "power": 110.0, "irradiance": None},
        ),
    ),
    "arbin.csv": (
        "America/Chicago",
        Expect(
            readings=5,
            first={"event_time": "2024-03-01T16:00:00+00:00", "record": 1, "temperature": None},
            last={"event_time": "2024-03-01T16:00:30.100000+00:00", "charge_ah": 0.013889},
        ),
    ),
    "biologic.mpt": (
        "Europe/Paris",
        Expect(
            readings=4,
            first={"event_time": "2024-03-01T09:00:00.250000+00:00", "amps": 0.0, "cycle": 0.0},
            last={"event_time": "2024-03-01T09:00:30.250000+00:00", "amps": -0.015, "step": 2},
            preamble={"device": "VMP-3 (SN 0002)"},
        ),
    ),
    "novonix.csv": (
        "America/Halifax",
        Expect(
            readings=4,
            first={"event_time": "2024-03-01T15:59:58+00:00", "step_type": "0", "temperature": 40.01},
            last={"event_time": "2024-03-01T17:00:18+00:00", "amps": -0.02, "step": 3},
        ),
    ),
    "basytec.txt": (
        "Europe/Berlin",
        Expect(
            readings=5,
            first={"event_time": "2024-03-01T09:00:00+00:00", "command": "Pause", "temperature": 24.9},
            last={"event_time": "2024-03-01T10:30:00+00:00", "record": 5, "amps": -1.5},
            preamble={"battery": "CELL 17"},
        ),
    ),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_shipped_description_reads_its_instrument_and_every_variation(name: str) -> None:
    zone, expect = CASES[name]
    checked = check_format(name.split(".")[0], (FIXTURES / name).read_bytes(), expect=expect, zone=zone)
    assert len(checked.checks) > 15


def test_csv_keeps_quoted_commas_and_repeated_rows() -> None:
    checked = check_format(
        "csv",
        (FIXTURES / "csv.csv").read_bytes(),
        expect=Expect(
            readings=5,
            first={"event_time": "2024-03-01T10:00:00+00:00", "power": 101.5, "place": "Hall A, north"},
            last={"power": -350.0, "state": "off"},
        ),
        dataset={
            "event_time": {"from": "time", "layouts": "iso"},
            "columns": {"power": "float64", "state": "string", "place": "string"},
        },
    )
    assert checked.readings[2]["place"] == 'say "hi"'


def test_tsv_takes_quotes_as_text_and_epochs_as_instants() -> None:
    checked = check_format(
        "tsv",
        (FIXTURES / "tsv.tsv").read_bytes(),
        expect=Expect(readings=4, last={"event_time": "2024-03-01T10:00:03.500000+00:00", "power": 98.75}),
        dataset={
            "event_time": {"from": "time", "layouts": "epoch ms"},
            "columns": {"power": "float64", "state": "string"},
        },
    )
    assert checked.readings[1]["state"] == '5" pipe'


def test_jsonl_finds_nested_keys_and_whole_numbers_as_floats() -> None:
    check_format(
        "jsonl",
        (FIXTURES / "jsonl.jsonl").read_bytes(),
        expect=Expect(
            readings=4,
            first={"event_time": "2024-03-01T09:00:00+00:00", "power": 101.5},
            last={"event_time": "2024-03-01T09:00:03+00:00", "power": 98.0},
        ),
        dataset={
            "event_time": {"from": "time", "layouts": "iso"},
            "columns": {"power": {"from": "sensor.power", "type": "float64"}, "state": "string"},
        },
    )


def test_parquet_reads_its_columns_by_name() -> None:
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    stamps = pa.array([1_709_287_200_000_000, 1_709_287_201_000_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"time": stamps, "P [W]": [1.5, None], "n": [1, 2]}), buffer)
    check_format(
        "parquet",
        buffer.getvalue(),
        expect=Expect(
            readings=2,
            first={"event_time": "2024-03-01T10:00:00+00:00", "power": 1.5, "n": 1},
            last={"power": None},
        ),
        dataset={
            "event_time": {"from": "time", "layouts": "iso"},
            "columns": {"power": {"from": "P [W]", "type": "float64"}, "n": "int64"},
        },
    )
