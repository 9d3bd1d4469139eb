"""`disarray export`: the same rows in every format, all of them or no file."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from disarray.queries.export import without_formulas

if TYPE_CHECKING:
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


def test_the_ending_of_the_file_says_what_is_written(run: Run, plant: Plant, tmp_path: Path) -> None:
    for ending in ("csv", "parquet", "arrow"):
        output = tmp_path / f"out.{ending}"
        assert run("export", "metrics", "--output", str(output)).returncode == 0
        assert read(output).num_rows == 8
    for wrong in (("out.xlsx",), ("out.parquet", "--format", "csv")):
        ended = run("export", "metrics", "--output", *wrong)
        assert (ended.returncode, "Nothing was written" in " ".join(ended.stderr.split())) == (2, True)
        assert "known endings" in ended.stderr or "ends like parquet" in ended.stderr


@pytest.mark.parametrize("file_format", ["csv", "parquet", "arrow"])
def test_a_dash_is_standard_output_and_messages_go_elsewhere(
    run: Run, plant: Plant, tmp_path: Path, command: Callable[..., list[str]], file_format: str
) -> None:
    output = tmp_path / "piped"
    with output.open("wb") as pipe:
        subprocess.run(
            command("export", "rollups", "--output", "-", "--format", file_format),
            stdout=pipe,
            cwd=tmp_path,
            check=True,
        )
    assert not (tmp_path / "-").exists()
    if file_format == "arrow":
        with pa.ipc.open_stream(output.read_bytes()) as stream:
            assert stream.read_all().num_rows == 8
    else:
        assert read(output.rename(tmp_path / f"piped.{file_format}")).num_rows == 8
    if file_format == "csv":
        assert run("export", "rollups", "--output", "-").stderr == "8 rows of 1 subject.\n"


def test_text_that_a_spreadsheet_would_compute_is_escaped_in_csv_and_in_nothing_else(
    run: Run, plant: Plant, tmp_path: Path
) -> None:
    plant.ingest(plant.write("=HYPERLINK(1)/0.csv", "time,watts,good\n2026-10-01T00:00:00Z,-1.5,-7\n"))
    choice = ("--subject", "=HYPERLINK(1)")
    for name, options in (("a.csv", ()), ("b.csv", ("--no-escape-formulas",)), ("c.parquet", ())):
        ended = run("export", "readings", *choice, "--output", str(tmp_path / name), *options)
        assert ended.returncode == 0, ended.stderr
    escaped, plain, parquet = (
        read(tmp_path / name).to_pylist()[0] for name in ("a.csv", "b.csv", "c.parquet")
    )
    assert escaped["subject_key"] == "'=HYPERLINK(1)"
    assert plain["subject_key"] == parquet["subject_key"] == "=HYPERLINK(1)"
    assert (escaped["watts"], escaped["good"]) == (-1.5, -7)


def test_numbers_in_text_and_what_is_no_formula_are_left_alone() -> None:
    texts = [
        "=1+1",
        "+49 30",
        "-2",
        "+2.5e-3",
        "-2+3",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "a=b",
        "",
        None,
        "'=x",
        "-",
    ]
    table = pa.table({"text": pa.array(texts), "number": pa.array([-1] * len(texts))})
    escaped = without_formulas(table)
    assert escaped.column("number").to_pylist() == [-1] * len(texts)
    changed = [
        text for text, after in zip(texts, escaped.column("text").to_pylist(), strict=True) if text != after
    ]
    assert changed == ["=1+1", "+49 30", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-"]
