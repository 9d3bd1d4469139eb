"""Random tables written as each instrument would write them, and read back: equal to the last bit."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disarray.kernels.reading.outcome import ReadStatus
from disarray.model.description.format import EVENT_US, ColumnType, Format, LayoutKind, Origin, QuoteEscape
from disarray.model.segments import microseconds_of
from tests.formats.conftest import FIXTURES, dataset_of, read_quiet

if TYPE_CHECKING:
    from disarray.formats.loader import Description
    from disarray.model.description.format import Column

Shipped = dict[str, "Description"]
GENERAL: dict[str, dict[str, Any]] = {
    "csv": {"event_time": {"from": "time", "layouts": "iso"}},
    "tsv": {"event_time": {"from": "time", "layouts": "epoch ms"}},
    "jsonl": {"event_time": {"from": "time", "layouts": "iso"}},
}
COLUMNS = {"power": "float64", "count": "int64", "state": "string", "good": "bool"}
HEADS = {path.stem: path.read_bytes() for path in FIXTURES.iterdir() if not path.name.startswith(".")} | {
    "csv": b"time,power,count,state,good\n",
    "tsv": b"good\tpower\ttime\tcount\tstate\n",
}
NAMES = sorted(HEADS)


@dataclass(frozen=True)
class Row:
    """A reading as it should come out, and the cells (or JSON values) in which it is written."""

    expected: dict[str, Any]
    cells: dict[str, Any]


@given(data=st.data())
@settings(max_examples=15, deadline=None)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read_back_equal(shipped: Shipped, name: str, data: st.DataObject) -> None:
    own = {**GENERAL[name], "columns": COLUMNS} if name in GENERAL else {}
    with TemporaryDirectory() as folder:
        dataset = dataset_of(shipped[name].table, Path(folder), zone="UTC", **own)
        written = _json_lines if name == "jsonl" else _delimited
        rows, content = data.draw(written(dataset.format, HEADS[name]))
        path = Path(folder) / "file"
        path.write_bytes(content)
        preview = read_quiet(dataset, path)
    assert preview.outcome.status is ReadStatus.READ, preview.outcome.message
    assert preview.outcome.rejects == ()
    found = preview.table.drop_columns(["_position"]).to_pylist()
    assert [_exact(row) for row in found] == [_exact(row.expected) for row in rows]


def _exact(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.hex() if isinstance(value, float) else value for name, value in row.items()}


@st.composite
def _delimited(draw: st.DrawFn, described: Format, sample: bytes) -> tuple[list[Row], bytes]:
    lines = sample.decode(described.encodings[-1]).splitlines()
    at = next(at for at, line in enumerate(lines) if re.search(described.header.pattern, line))
    header = tuple(cell.strip() for cell in lines[at].split(described.delimiter))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    rows = [_draw_row(draw, described, header, lines[:at]) for _ in range(draw(st.integers(0, 6)))]
    texts = [
        described.delimiter.join(_quoted(row.cells.get(cell, ""), described) for cell in header)
        for row in rows
    ]
    head = newline.join(lines[: at + 1]).encode(described.encodings[-1])
    body = newline.join(["", *texts]).encode("utf-8")
    return rows, head + body + draw(st.sampled_from([b"", newline.encode()]))


@st.composite
def _json_lines(draw: st.DrawFn, described: Format, _sample: bytes) -> tuple[list[Row], bytes]:
    rows = []
    for _ in range(draw(st.integers(0, 6))):
        stamp = draw(_instants)
        values = {
            column.name: draw(st.none() | _values(column.type, described)) for column in described.columns
        }
        cells = {"time": stamp.isoformat(), **values}
        rows.append(Row({EVENT_US: microseconds_of(stamp), **_without_minus_zero(values)}, cells))
    return rows, "".join(
        json.dumps(row.cells, ensure_ascii=draw(st.booleans())) + "\n" for row in rows
    ).encode()


_instants = st.datetimes(datetime(1971, 1, 1), datetime(2024, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def _draw_row(draw: st.DrawFn, described: Format, header: tuple[str, ...], preamble: list[str]) -> Row:
    event_us, stamp = _draw_stamp(draw, described, preamble)
    assert described.event_time is not None
    at = described.event_time.sources[0].locate(header)
    assert at is not None
    expected: dict[str, Any] = {EVENT_US: event_us}
    cells = {header[at]: stamp}
    for column in described.columns:
        assert column.origin is Origin.CELL
        place = column.in_header(header)
        if place is None:
            expected[column.name] = None
            continue
        empty = st.none() if column.nullable else st.nothing()
        value = draw(empty | _values(column.type, described))
        cells[header[place[0]]] = _written(value, described)
        expected[column.name] = _converted(value, place[1])
    return Row(_without_minus_zero(expected), cells)


def _draw_stamp(draw: st.DrawFn, described: Format, preamble: list[str]) -> tuple[int, str]:
    assert described.event_time is not None
    layout = described.event_time.layouts[0]
    if layout.kind is LayoutKind.RELATIVE:
        field = next(each for each in described.preamble.fields if each.name == "started")
        found = next(match for line in preamble if (match := re.search(field.pattern, line)))
        assert described.event_time.start is not None
        start = _naive(found["value"], described.event_time.start.layouts[0].pattern)
        quarters = draw(st.integers(0, 40_000))
        unit = timedelta(microseconds=layout.unit.microseconds)
        instant = start.replace(tzinfo=UTC) + quarters * unit / 4
        return microseconds_of(instant), _written(quarters / 4, described)
    instant = draw(_instants)
    if layout.kind is LayoutKind.EPOCH:
        instant = instant.replace(microsecond=instant.microsecond // 1_000 * 1_000)
        return microseconds_of(instant), str(microseconds_of(instant) // 1_000)
    if layout.kind is LayoutKind.ISO:
        return microseconds_of(instant), instant.isoformat()
    text = instant.strftime(layout.pattern)
    return microseconds_of(_naive(text, layout.pattern).replace(tzinfo=UTC)), text


def _naive(text: str, pattern: str) -> datetime:
    return datetime.strptime(text, pattern)  # noqa: DTZ007  the tests' zone is UTC


def _values(type_: ColumnType, described: Format) -> st.SearchStrategy[Any]:
    match type_:
        case ColumnType.FLOAT64:
            return st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)
        case ColumnType.INT64:
            return st.integers(-(2**63), 2**63 - 1)
        case ColumnType.BOOL:
            return st.booleans()
        case _:
            unsafe = "\r\n\0" + ("" if described.quote or described.kind == "jsonl" else described.delimiter)
            alphabet = st.characters(
                exclude_characters=unsafe, exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")
            )
            return st.text(alphabet, min_size=1, max_size=12).filter(
                lambda text: text not in described.null_tokens and text == text.strip()
            )


def _written(value: Any, described: Format) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value).replace(".", described.decimal)
    return (
        described.true_tokens[0]
        if value is True
        else described.false_tokens[0]
        if value is False
        else str(value)
    )


def _quoted(cell: str, described: Format) -> str:
    quote = described.quote
    if not quote or not (described.delimiter in cell or quote in cell):
        return cell
    assert described.quote_escape is QuoteEscape.DOUBLE
    return quote + cell.replace(quote, quote * 2) + quote


def _converted(value: Any, column: Column) -> Any:
    return value * column.scale + column.offset if isinstance(value, float) and column.is_converted else value


def _without_minus_zero(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value + 0.0 if isinstance(value, float) else value for name, value in values.items()}
