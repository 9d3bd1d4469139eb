from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disarray.kernels.parsing.rejects import RejectReason
from disarray.kernels.reading.outcome import ReadStatus
from disarray.model.description.format import ColumnType, FileKind, Format, LayoutKind, TimeLayout
from disarray.model.seam import Change
from tests.kernels.conftest import Desk, column, spec_of

if TYPE_CHECKING:
    from pathlib import Path

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
