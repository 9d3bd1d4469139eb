"""`disarray export`: the same rows in every format, all of them or no file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from tests.plant import Plant

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres


def read(path: Path) -> pa.Table:
    if path.suffix == ".csv":
        return pa_csv.read_csv(path)
    if path.suffix == ".parquet":
        return pq.read_table(path)
    with pa.ipc.open_file(str(path)) as file:
        return file.read_all()


@pytest.mark.parametrize(("what", "rows"), [("readings", 480), ("metrics", 8), ("rollups", 8)])
def test_every_format_holds_the_same(run: Run, plant: Plant, tmp_path: Path, what: str, rows: int) -> None:
    tables = []
    for file_format in ("csv", "parquet", "arrow"):
        output = tmp_path / f"out.{file_format}"
        ended = run("export", what, "--format", file_format, "--output", str(output))
        assert ended.stdout == f"{rows} rows of 1 subject in {output}.\n", ended.stderr
        tables.append(read(output))
    assert {table.num_rows for table in tables} == {rows}
    assert tables[1] == tables[2]
    assert tables[0].column_names == tables[1].column_names
    number = "energy" if what == "readings" else "float_value"
    assert tables[0].column(number).cast(pa.float64()).to_pylist() == tables[1].column(number).to_pylist()


def test_a_span_and_a_subject_can_be_chosen(run: Run, plant: Plant, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    span = ("--from", "2026-10-01T09:30", "--to", "2026-10-01T10:00:01")
    run("export", "readings", "--format", "parquet", "--output", str(output), "--subject", "TOOL07", *span)
    table = read(output)
    assert table.num_rows == 61
    assert table.column("good_total")[-1].as_py() == 240
    ended = run("export", "readings", "--output", str(output), "--subject", "TOOL08")
    assert "did you mean 'TOOL07'" in ended.stderr


def test_a_file_that_cannot_be_written_leaves_nothing_behind(run: Run, plant: Plant, tmp_path: Path) -> None:
    ended = run("export", "metrics", "--output", str(tmp_path / "nowhere" / "out.csv"))
    assert ended.returncode == 1
    assert "cannot be written" in ended.stderr
    assert list(tmp_path.glob("**/*.part")) == []
