from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disarray.errors import ConfigError
from disarray.formats.parquet_guess import guess_parquet

if TYPE_CHECKING:
    from pathlib import Path


def test_columns_of_plain_types_are_taken_and_others_are_pointed_out(tmp_path: Path) -> None:
    stamps = pa.array([0, 1], pa.timestamp("us"))
    table = {
        "made": stamps,
        "time": stamps,
        "P [W]": [1.5, 2.5],
        "n": [1, 2],
        "ok": [True, None],
        "tags": [["a"], []],
    }
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    found = guess_parquet(tmp_path / "a.parquet")
    assert found.event_time == {"from": "time", "layouts": ["iso"]}
    assert found.local_time
    assert found.columns == {
        "made": {"type": "timestamp", "layouts": "iso"},
        "p": {"from": "P [W]", "type": "float64", "unit": "W"},
        "n": {"type": "int64"},
        "ok": {"type": "bool"},
    }
    assert [check for check in found.checks if "'tags' is of type list" in check]


def test_stamps_with_a_zone_are_not_local(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"t": pa.array([0], pa.timestamp("us", "UTC")), "x": [1]}), tmp_path / "a.parquet"
    )
    assert not guess_parquet(tmp_path / "a.parquet").local_time


def test_a_file_without_stamps_cannot_be_guessed(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    with pytest.raises(ConfigError, match="no timestamp column"):
        guess_parquet(tmp_path / "a.parquet")


def test_half_a_file_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(ConfigError, match="not a whole one"):
        guess_parquet(tmp_path / "a.parquet")
