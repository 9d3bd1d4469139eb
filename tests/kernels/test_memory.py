"""Small files that mean a lot of memory: each ends as a reject, a failed file or readings, within a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from disarray.kernels.reading import line_reader
from disarray.model.description.format import Format, LayoutKind, TimeLayout
from tests.kernels.conftest import JSONL, parse, spec_of
from tests.kernels.memory_probe import probe

if TYPE_CHECKING:
    from pathlib import Path

# Six times what any of them takes today, a tenth of what each of them took before there was a budget.
MOST_MB = 600
GOOD = '{"time": "2024-01-01T00:00:00Z", "text": "good"}\n'


def nested(depth: int, key: str, leaves: str) -> str:
    return f'{{"{key}": ' * depth + f"{{{leaves}}}" + "}" * depth


def test_names_that_nobody_reads_are_not_built(tmp_path: Path) -> None:
    leaves = ", ".join(f'"{number}": 1' for number in range(12_000))
    bomb = nested(900, "k" * 100, leaves)
    path = tmp_path / "bomb.jsonl"
    path.write_text(GOOD + f'{{"time": "2024-01-01T00:00:01Z", "text": "kept", "other": {bomb}}}\n' + GOOD)
    assert path.stat().st_size < 300_000
    told = probe("jsonl", path)
    assert (told["status"], told["kept"], told["rejected"]) == ("read", 3, {})
    assert told["peak_mb"] < MOST_MB


def test_where_a_pattern_may_mean_any_name_a_line_with_too_many_long_ones_is_rejected(tmp_path: Path) -> None:
    leaves = ", ".join(f'"{number}": 1' for number in range(12_000))
    path = tmp_path / "bomb.jsonl"
    path.write_text(GOOD + f'{{"time": "2024-01-01T00:00:01Z", "other": {nested(900, "k" * 100, leaves)}}}\n')
    told = probe("jsonl by pattern", path)
    assert (told["status"], told["kept"], told["rejected"]) == ("read", 1, {"line_too_long": 1})
    assert told["peak_mb"] < MOST_MB


@pytest.mark.parametrize("fmt", [JSONL, Format(name="csv", encodings=("latin-1",))], ids=["jsonl", "csv"])
def test_lines_taken_a_few_at_a_time_for_a_wide_dataset_are_the_same_readings(
    monkeypatch: pytest.MonkeyPatch, fmt: Format
) -> None:
    lines = [f'{{"time": {number}, "value": {number}}}' for number in range(2_500)]
    if fmt is not JSONL:
        lines = ["time,value", *(f"{number},{number}" for number in range(2_500))]
    lines[700] = "neither \xe4 nor"
    data = "\n".join(lines).encode("latin-1")
    spec = spec_of(fmt=fmt, layouts=(TimeLayout(LayoutKind.EPOCH),))
    whole, reader = parse(data, spec)
    assert whole.num_rows == 2_499
    monkeypatch.setattr(line_reader, "_CELLS_AT_ONCE", 1)
    parts, reader_of_parts = parse(data, spec)
    assert parts.equals(whole)
    assert reader_of_parts.log.listed == reader.log.listed


def stamps(rows: int) -> pa.Array:
    return pa.array(range(rows), pa.timestamp("us"))


def one_text(text: str, rows: int) -> pa.Table:
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))
    return pa.table({"time": stamps(rows), "text": texts})


def test_a_dictionary_of_one_long_text_that_stands_for_gigabytes_fails_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    pq.write_table(one_text("x" * 60_000, 65_536), path, compression="zstd")
    assert path.stat().st_size < 300_000
    told = probe("parquet", path)
    assert told["status"] == "failed"
    assert "looks like a decompression bomb" in told["message"].replace("look like", "looks like")
    assert told["peak_mb"] < MOST_MB


def test_what_is_below_the_budget_is_read_a_part_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "long_texts.parquet"
    pq.write_table(one_text("x" * 6_000, 65_536), path, compression="zstd")
    told = probe("parquet", path)
    assert (told["status"], told["kept"]) == ("read", 65_536)
    assert told["peak_mb"] < MOST_MB


def test_a_page_that_unpacks_to_too_much_fails_the_file_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "page.parquet"
    table = pa.table({"time": stamps(2), "text": ["x", "y" * (160 << 20)]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)
    assert path.stat().st_size < 300_000
    told = probe("parquet", path)
    assert told["status"] == "failed"
    assert "a page of column text unpacks to" in told["message"]
    assert told["peak_mb"] < 100


@pytest.mark.parametrize(
    ("encoding", "version", "text"),
    [
        ("PLAIN", "1.0", pa.string()),
        ("DELTA_BYTE_ARRAY", "2.0", pa.string()),
        ("PLAIN", "1.0", pa.large_string()),  # as Polars writes all of its texts
    ],
)
def test_long_cells_are_unpacked_a_few_at_a_time_and_those_beyond_the_limit_rejected(
    tmp_path: Path, encoding: str, version: str, text: pa.DataType
) -> None:
    path = tmp_path / "cells.parquet"
    texts = ["y" * 900_000 + str(number) for number in range(300)] + ["z" * 1_100_000]
    table = pa.table({"time": stamps(301), "text": pa.array(texts, text)})
    pq.write_table(
        table,
        path,
        compression="zstd",
        use_dictionary=False,
        write_statistics=False,
        column_encoding={"text": encoding},
        data_page_version=version,
        write_batch_size=16,
    )
    told = probe("parquet", path)
    assert (told["kept"], told["rejected"]) == (300, {"line_too_long": 1})
    assert told["peak_mb"] < MOST_MB


@pytest.mark.slow
def test_numbers_that_are_all_the_same_do_not_make_a_file_of_a_few_bytes_endless(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    part = pa.table(
        {"time": pa.array([0] * 4_000_000, pa.timestamp("us")), "text": pa.nulls(4_000_000, pa.string())}
    )
    with pq.ParquetWriter(path, part.schema, compression="zstd") as writer:
        for _ in range(12):
            writer.write_table(part, row_group_size=4_000_000)
    assert path.stat().st_size < 400_000
    told = probe("parquet", path)
    assert told["status"] == "failed"
    assert "times the size of the file" in told["message"]
    assert told["peak_mb"] < MOST_MB


def test_a_list_in_a_cell_fails_the_file(tmp_path: Path) -> None:
    path = tmp_path / "lists.parquet"
    pq.write_table(pa.table({"time": stamps(2), "text": [["a"], ["b"] * 100]}), path)
    told = probe("parquet", path)
    assert told["status"] == "failed"
    assert "no single value" in told["message"]
