from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disarray.kernels.parsing.columns import stamps_of
from disarray.kernels.parsing.rejects import RejectReason
from disarray.kernels.parsing.zones import END_EVENT_US, FIRST_EVENT_US
from disarray.kernels.reading.file_reader import read_file
from disarray.kernels.reading.outcome import ReadStatus
from disarray.kernels.reading.parquet_cells import undecodable_rows, without_cells
from disarray.model.description.format import ColumnType, FileKind, Format, LayoutKind, TimeLayout
from disarray.model.seam import Change
from tests.kernels.conftest import Desk, column, read_fragments, spec_of

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

START = datetime(2024, 1, 1, tzinfo=UTC)
SPEC = spec_of(
    column("value"), column("count", ColumnType.INT64), fmt=Format(name="parquet", kind=FileKind.PARQUET)
)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, SPEC, name="file.parquet")


def write(desk: Desk, **columns: object) -> Desk:
    pq.write_table(pa.table(columns), desk.path)
    return desk


def test_rows_keep_their_number_as_position_and_bad_ones_are_rejected(desk: Desk) -> None:
    write(desk, count=[1, 2, 3], time=[START, None, START], value=[1.5, 2.0, float("nan")])
    outcome = desk.read()
    assert desk.readings is not None
    assert [(row["_position"], row["value"], row["count"]) for row in desk.readings.to_pylist()] == [
        (0, 1.5, 1)
    ]
    assert outcome.rejects_by_reason == {RejectReason.BAD_TIME: 1, RejectReason.NONFINITE: 1}


def test_stamps_as_text_or_numbers_are_read_by_their_layouts(tmp_path: Path) -> None:
    spec = spec_of(layouts=(TimeLayout(LayoutKind.EPOCH),), fmt=SPEC.format)
    desk = write(Desk(tmp_path, spec), time=[1, 2], value=[1, 2])
    desk.read()
    assert desk.times() == [1_000_000, 2_000_000]


def test_any_change_reads_the_file_again(desk: Desk) -> None:
    write(desk, count=[1], time=[START], value=[1.0]).read()
    assert desk.read().status is ReadStatus.UNCHANGED
    outcome = write(desk, count=[1, 2], time=[START, START], value=[1.0, 2.0]).read()
    assert (outcome.change, outcome.seam_position, desk.values()) == (Change.REWRITTEN, 0, [1.0, 2.0])


def test_a_damaged_file_fails_with_one_line(desk: Desk) -> None:
    write(desk, count=[1], time=[START], value=[1.0])
    desk.path.write_bytes(desk.path.read_bytes()[:-5])
    outcome = desk.read()
    assert outcome.status is ReadStatus.FAILED
    assert "Parquet" in (outcome.message or "")


def test_a_column_of_another_type_fails_the_file(desk: Desk) -> None:
    outcome = write(desk, count=[1.5], time=[START], value=[1.0]).read()
    assert outcome.status is ReadStatus.FAILED
    assert "count does not fit int64" in (outcome.message or "")


def test_timestamp_columns_may_be_typed_or_numbers_by_their_layout(tmp_path: Path) -> None:
    epoch = TimeLayout(LayoutKind.EPOCH)
    spec = spec_of(
        column("at", ColumnType.TIMESTAMP, layouts=(epoch,)),
        column("then", ColumnType.TIMESTAMP, layouts=(epoch,)),
        fmt=SPEC.format,
    )
    desk = write(Desk(tmp_path, spec), time=[START, START], at=[START, None], then=[7, None])
    desk.read()
    assert desk.values("at") == [START, None]
    assert desk.values("then") == [datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC), None]


@pytest.mark.parametrize("zone", [None, "UTC", "Nowhere/Atall"])
@pytest.mark.parametrize("far", [1 << 62, -(1 << 62), (1 << 62) + 1])
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_an_instant_beyond_any_date_is_one_reject_that_can_be_shown(
    desk: Desk, unit: Literal["ms", "us", "ns"], far: int, zone: str | None
) -> None:
    if unit == "ns" and far > 0:
        far = (1 << 63) - 1  # in the year 2262, which is a date
    near = pa.array([START], pa.timestamp("us")).cast(pa.timestamp(unit)).cast(pa.int64())[0].as_py()
    time = pa.array([near, far, near], pa.int64()).cast(pa.timestamp(unit, zone))
    outcome = write(desk, count=[1, 2, 3], time=time, value=[1.0, 2.0, 3.0]).read()
    assert outcome.status is ReadStatus.READ, outcome.message
    assert desk.times()[0] == desk.times()[-1] == int(START.timestamp()) * 1_000_000
    if unit != "ns":
        assert desk.values() == [1.0, 3.0]
        assert outcome.rejects_by_reason == {RejectReason.TIME_OUT_OF_RANGE: 1}
        assert "'count': 2" in outcome.rejects[0].sample


def test_seconds_and_milliseconds_beyond_any_date_do_not_come_round_to_one() -> None:
    for unit in ("s", "ms"):
        far = pa.array([1 << 62, -(1 << 62), 0, None], pa.int64()).cast(pa.timestamp(unit))
        stamps = stamps_of(far)
        assert stamps.ok.tolist() == [True, True, True, False]
        assert stamps.us[0] > END_EVENT_US
        assert stamps.us[1] < FIRST_EVENT_US
        assert stamps.us[2] == 0


def test_a_reject_beside_a_stamp_to_the_nanosecond_can_be_shown(desk: Desk) -> None:
    time = pa.array([1_704_067_200_000_000_001] * 2, pa.timestamp("ns", "UTC"))
    outcome = write(desk, count=[1, 2], time=time, value=[float("nan"), 2.0]).read()
    assert desk.values() == [2.0]
    assert outcome.rejects_by_reason == {RejectReason.NONFINITE: 1}


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_a_timestamp_column_beyond_any_date_is_a_bad_time(tmp_path: Path, unit: Literal["ms", "us"]) -> None:
    spec = spec_of(column("at", ColumnType.TIMESTAMP), fmt=SPEC.format)
    at = pa.array([0, 1 << 62], pa.int64()).cast(pa.timestamp(unit, "UTC"))
    desk = write(Desk(tmp_path, spec), time=[START, START], at=at)
    outcome = desk.read()
    assert desk.values("at") == [datetime(1970, 1, 1, tzinfo=UTC)]
    assert outcome.rejects_by_reason == {RejectReason.BAD_TIME: 1}


NOT_UTF8 = [b"caf\xe9", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80", b"cut off \xe2\x82"]
TEXT_TYPES = [
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.string_view(),
    pa.binary_view(),
]


def raw_texts(cells: list[bytes | None], kind: pa.DataType) -> pa.Array[Any]:
    """Text as a careless writer makes it: what the type promises of its bytes is not looked at."""
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return pa.Array.from_buffers(kind, len(cells), pa.array(cells, pa.large_binary()).buffers())
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.Array.from_buffers(kind, len(cells), pa.array(cells, pa.binary()).buffers())
    return pa.Array.from_buffers(kind, len(cells), pa.array(cells, pa.binary_view()).buffers())


@pytest.mark.parametrize("in_dictionary", [True, False], ids=["dictionary", "plain"])
@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
@pytest.mark.parametrize("role", ["column", "channel", "subject", "time", "number"])
def test_text_that_is_not_utf_8_is_rejected_wherever_it_stands(
    tmp_path: Path, role: str, kind: pa.DataType, in_dictionary: bool
) -> None:
    more: dict[str, Any] = {"channel": {"channel": "text"}, "subject": {"subject_column": "text"}}.get(
        role, {}
    )
    bound = column("text", ColumnType.FLOAT64 if role == "number" else ColumnType.STRING, nullable=True)
    spec = spec_of(
        *(() if role == "time" else (bound,)),
        column("count", ColumnType.INT64),
        fmt=SPEC.format,
        time=("text" if role == "time" else "time",),
        **more,
    )
    good: list[bytes | None] = [b"2024-01-01T00:00:00Z" if role == "time" else b"3"] * 3
    if role == "column":
        good = [None, "caf\u00e9".encode(), b""]
    cells = [cell for each in zip(NOT_UTF8, [*good, good[0], good[0]], strict=True) for cell in each]
    desk = Desk(tmp_path, spec)
    table = pa.table({"text": raw_texts(cells, kind), "count": list(range(10)), "time": [START] * 10})
    pq.write_table(table, desk.path, use_dictionary=in_dictionary)
    writer = desk.writer()
    outcome = read_file(desk.request(), writer)
    writer.close()
    assert outcome.status is ReadStatus.READ, outcome.message
    assert outcome.rejects_by_reason == {RejectReason.UNDECODABLE: len(NOT_UTF8)}
    assert {each.line for each in outcome.rejects} == {1, 3, 5, 7, 9}
    assert all("\\x" in each.sample for each in outcome.rejects)
    fragments = [*outcome.fragments, *(each for part in outcome.parts or () for each in part.fragments)]
    kept = read_fragments(fragments, spec).to_pylist()
    assert sorted(row["count"] for row in kept) == [1, 3, 5, 7, 9]
    if role == "column":
        assert {row["text"] for row in kept} == {None, "caf\u00e9"}


def test_bad_text_is_told_by_row_also_where_the_column_is_a_slice() -> None:
    array = raw_texts([b"x\xff", b"fine", None, b"y\xff", "\u00e9".encode()], pa.string()).slice(1)
    assert undecodable_rows(array).tolist() == [2]
    assert undecodable_rows(array.slice(0, 2)).tolist() == []
    assert without_cells(array, np.array([2])).to_pylist() == ["fine", None, None, "\u00e9"]


def test_a_column_whose_name_is_no_text_fails_the_file_plainly(desk: Desk) -> None:
    write(desk, count=[1], time=[START], value=[1.0])
    desk.path.write_bytes(desk.path.read_bytes().replace(b"count", b"coun\xff"))
    outcome = read_file(desk.request(), desk.writer())
    assert outcome.status is ReadStatus.FAILED
    assert (outcome.message or "").startswith("is not a whole Parquet file")


def test_mutated_files_fail_plainly(tmp_path: Path) -> None:
    count = int(os.environ.get("DISARRAY_TEST_MUTATIONS", "300"))
    asked = [sys.executable, "-m", "tests.kernels.mutated_parquet", str(tmp_path), "0", str(count)]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    last = tmp_path / "last"
    assert told.returncode == 0, f"{last.read_text() if last.exists() else 'no file'}: {told.stderr}"
    found = json.loads(told.stdout)
    assert found["faults"] == {}
    # What the rows of a file may unpack to, whatever its size, and the program itself.
    assert found["bytes"] < 1 << 30
