from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from disarray.errors import FragmentWriteError, UnreadableFileError
from disarray.kernels.fragments import fragment_writer as fragments_module
from disarray.kernels.fragments.fragment_reader import FragmentReader, read_fragment
from disarray.kernels.fragments.fragment_writer import (
    FragmentBuilder,
    FragmentWriter,
    MemorySink,
)
from disarray.kernels.fragments.ordering import digest_table, in_canonical_order
from disarray.kernels.parsing.readings import readings_schema
from disarray.model.description.format import EVENT_US, POSITION, ColumnType
from tests.kernels.conftest import HOUR_US, Desk, column, spec_of
from tests.kernels.test_reading import HEADER, lines

SPEC = spec_of(column("value"), column("order", ColumnType.INT64), column("text", ColumnType.STRING))


def readings(*rows: tuple[int, float | None, int | None, str | None]) -> pa.Table:
    """Rows of (event time, value, order, text) at positions 0, 10, 20, …"""
    event_us, value, order, text = ([row[at] for row in rows] for at in range(4))
    arrays = [event_us, [at * 10 for at in range(len(rows))], value, order, text]
    schema = readings_schema(SPEC)
    return pa.Table.from_arrays(
        [pa.array(array, kind) for array, kind in zip(arrays, schema.types, strict=True)], schema=schema
    )


def test_readings_are_cut_by_aligned_segment_also_before_1970(tmp_path: Path) -> None:
    builder = FragmentBuilder(SPEC, MemorySink())
    builder.add(readings((HOUR_US, 1, 1, ""), (-1, 2, 1, ""), (HOUR_US + 5, 3, 1, ""), (0, 4, 1, "")))
    builder.cut()
    assert [(part.segment_us, part.readings) for part in builder.fragments] == [
        (-HOUR_US, 1),
        (0, 1),
        (HOUR_US, 2),
    ]
    last = builder.fragments[-1]
    assert (last.first_us, last.last_us, last.first_position, last.last_position) == (
        HOUR_US,
        HOUR_US + 5,
        0,
        20,
    )


def test_the_order_is_event_time_then_order_columns_with_nulls_first_then_position() -> None:
    table = readings((5, 0, 2, ""), (5, 1, None, ""), (5, 2, 1, ""), (1, 3, 9, ""), (5, 4, 1, ""))
    ordered = in_canonical_order(table, ("order",))
    assert ordered.column("value").to_pylist() == [3, 1, 2, 4, 0]
    assert in_canonical_order(table, ()).column("value").to_pylist() == [3, 0, 1, 2, 4]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 2))), max_size=8),
    st.booleans(),
    st.booleans(),
    st.integers(0, 8),
)
def test_a_table_that_needs_no_sorting_is_told_from_one_that_does(
    rows: list[tuple[int, int | None]], is_sorted: bool, is_by_order: bool, cut: int
) -> None:
    event_us = sorted(row[0] for row in rows) if is_sorted else [row[0] for row in rows]
    table = readings(*((us, at, row[1], "") for at, (us, row) in enumerate(zip(event_us, rows, strict=True))))
    # Positions that run against the rows, in two chunks: as when parts of a file were put together.
    table = pa.concat_tables([table.slice(cut), table.slice(0, cut)])
    names = [EVENT_US, *(["order"] if is_by_order else []), POSITION]

    def key(row: dict[str, int | None]) -> list[tuple[bool, int]]:
        return [(row[name] is not None, row[name] or 0) for name in names]

    ordered = in_canonical_order(table, ("order",) if is_by_order else ())
    assert ordered.to_pylist() == sorted(table.to_pylist(), key=key)


values = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))
any_rows = st.lists(
    st.tuples(
        st.integers(0, 5 * HOUR_US),
        values,
        st.one_of(st.none(), st.integers(-5, 5)),
        st.one_of(st.none(), st.text("ab", max_size=3)),
    ),
    min_size=1,
    max_size=30,
)


@given(any_rows, st.integers(1, 29))
def test_a_digest_depends_on_values_alone_and_not_on_chunks_or_slices(
    rows: list[tuple[int, float | None, int | None, str | None]], cut: int
) -> None:
    table = readings(*rows)
    cut = min(cut, len(rows))
    chunked = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    shifted = pa.concat_tables([table, table]).combine_chunks().slice(len(rows))
    assert digest_table(chunked) == digest_table(table) == digest_table(shifted)


def test_digests_tell_nulls_lengths_and_columns_apart() -> None:
    variants = [
        readings((1, 0.0, 0, "")),
        readings((1, None, 0, "")),
        readings((1, 0.0, None, "")),
        readings((1, 0.0, 0, None)),
        readings((1, 0.0, 0, "a")),
        readings((1, 0.0, 0, "a"), (1, 0.0, 0, "b")),
        readings((1, 0.0, 0, "ab"), (1, 0.0, 0, "")),
    ]
    assert len({digest_table(table) for table in variants}) == len(variants)


@settings(max_examples=40)
@given(any_rows)
def test_what_is_written_is_read_back_bit_by_bit(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, float | None, int | None, str | None]]
) -> None:
    path = tmp_path_factory.mktemp("lake") / "part.parquet"
    writer = FragmentWriter(str(path), SPEC)
    builder = FragmentBuilder(SPEC, writer)
    memory = MemorySink()
    in_memory = FragmentBuilder(SPEC, memory)
    for each in (builder, in_memory):
        each.add(readings(*rows))
        each.cut()
    file = writer.close()
    assert file is not None
    assert (file.bytes, pq.read_metadata(path).num_row_groups) == (
        path.stat().st_size,
        len(builder.fragments),
    )
    assert file.checksum == blake3(path.read_bytes()).hexdigest()
    for part, kept in zip(builder.fragments, memory.tables, strict=True):
        assert digest_table(read_fragment(part.path, part.row_group)) == digest_table(kept)


def test_fragments_of_many_files_share_one_parquet_file(tmp_path: Path) -> None:
    writer = FragmentWriter(str(tmp_path / "part.parquet"), SPEC)
    for at in range(3):
        builder = FragmentBuilder(SPEC, writer)
        builder.add(readings((at * HOUR_US, at, 1, "x")))
        builder.cut()
        assert [part.row_group for part in builder.fragments] == [at]
    file = writer.close()
    assert file is not None
    assert [read_fragment(file.path, at).column("value").to_pylist() for at in range(3)] == [[0], [1], [2]]


def test_a_reader_goes_through_more_files_than_it_keeps_open(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{number}.parquet") for number in range(40)]
    for number, path in enumerate(paths):
        writer = FragmentWriter(path, SPEC)
        writer.write(readings((0, number, 1, "x"), (1, number, 1, "x")))
        writer.close()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with FragmentReader() as reader:
        values = [reader.read(path, [0])[0].column("value")[0].as_py() for path in (*paths, *paths)]
        assert len(list(Path("/proc/self/fd").iterdir())) - before < len(paths)
    assert values == [*range(40), *range(40)]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_nothing_is_written_where_there_is_nothing_to_write(tmp_path: Path) -> None:
    writer = FragmentWriter(str(tmp_path / "part.parquet"), SPEC)
    assert writer.close() is None
    assert list(tmp_path.iterdir()) == []


def test_two_writers_never_share_a_name(tmp_path: Path) -> None:
    first, second = (FragmentWriter(str(tmp_path / "part.parquet"), SPEC) for _ in range(2))
    first.write(readings((1, 1, 1, "")))
    first.close()
    with pytest.raises(FragmentWriteError, match="File exists"):
        second.write(readings((1, 1, 1, "")))


def test_file_and_directory_are_synced_before_the_file_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    really_sync = os.fsync

    def note(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        really_sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    writer = FragmentWriter(str(tmp_path / "part.parquet"), SPEC)
    writer.write(readings((1, 1, 1, "")))
    writer.close()
    assert synced == ["part.parquet", tmp_path.name]


def test_a_full_disk_is_the_lakes_fault_and_not_the_files(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    desk.write(HEADER + lines(0, 10))
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(FragmentWriteError, match="No space left"):
        desk.read()


def test_a_file_that_cannot_be_synced_is_never_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    writer = FragmentWriter(str(tmp_path / "part.parquet"), SPEC)
    writer.write(readings((1, 1, 1, "")))
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(FragmentWriteError, match=r"cannot be written: .*Input/output error"):
        writer.close()


def test_a_discarded_file_leaves_nothing_behind(tmp_path: Path) -> None:
    writer = FragmentWriter(str(tmp_path / "part.parquet"), SPEC)
    writer.write(readings((1, 1, 1, "")))
    writer.discard()
    assert list(tmp_path.iterdir()) == []


def test_the_readings_of_a_big_file_are_written_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments_module, "_FLUSH_BYTES", 2_000)
    sink = MemorySink()
    builder = FragmentBuilder(SPEC, sink)
    for at in range(100):
        builder.add(readings(*[(at * HOUR_US // 2 + second, 1, 1, "x") for second in range(10)]))
        assert builder._held_bytes < 4_000
    builder.cut()
    assert sum(part.readings for part in builder.fragments) == 1000
    assert sorted(row for table in sink.tables for row in table.column("_event_us").to_pylist()) == [
        at * HOUR_US // 2 + second for at in range(100) for second in range(10)
    ]


def test_a_file_that_would_shatter_into_endless_fragments_fails(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragments_module, "_MAX_FRAGMENTS_PER_FILE", 5)
    desk.spec = replace(desk.spec, segment_length_us=1_000_000)
    outcome = desk.write(HEADER + lines(0, 10)).read()
    assert "longer segment" in (outcome.message or "")


def test_a_file_of_crumbs_is_refused_before_any_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments_module, "_MAX_FRAGMENTS_PER_FILE", 5)
    sink = MemorySink()
    builder = FragmentBuilder(SPEC, sink)
    builder.add(readings(*((at * HOUR_US, 1.0, 1, "") for at in range(5))))
    builder.cut()
    assert len(sink.tables) == 5
    builder.add(readings((9 * HOUR_US, 1.0, 1, ""), (10 * HOUR_US, 1.0, 1, "")))
    with pytest.raises(UnreadableFileError, match=r"more than 5 segments \(7, with about 1 readings each\)"):
        builder.cut()
    assert len(sink.tables) == 5
    # So many readings in as many segments as are allowed are no crumbs.
    many = FragmentBuilder(SPEC, MemorySink())
    many.add(readings(*((at % 5 * HOUR_US * 100, 1.0, 1, "") for at in range(50))))
    many.cut()
    assert len(many.fragments) == 5


def test_a_file_that_holds_one_channel_after_the_other_does_not_crumble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fragments_module, "_FLUSH_BYTES", 2_000)
    builder = FragmentBuilder(SPEC, MemorySink())
    for _ in range(20):
        builder.add(readings(*[(hour * HOUR_US, 1, 1, "x") for hour in range(20)]))
    builder.cut()
    assert sum(part.readings for part in builder.fragments) == 400
    assert len(builder.fragments) <= 20 * 3
