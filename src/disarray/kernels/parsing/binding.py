"""The columns of a dataset tied to the cells of one header."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.errors import UnreadableFileError
from disarray.kernels.parsing.cell_values import CellRules, ExactValue, read_value
from disarray.kernels.parsing.rejects import RowRejected
from disarray.kernels.parsing.times import parse_stamp
from disarray.model.description.format import LayoutKind, Origin

if TYPE_CHECKING:
    from disarray.model.description.format import Column
    from disarray.model.description.read_spec import ReadSpec


@dataclass(frozen=True, slots=True)
class BoundColumn:
    """A column and where its value comes from: a cell, or (cell None) the same value in every row."""

    column: Column
    cell: int | None
    constant: ExactValue = None


@dataclass(frozen=True, slots=True)
class Binding:
    """All that is needed to read the rows under one header."""

    width: int
    time_cells: tuple[int, ...]
    columns: tuple[BoundColumn, ...]
    start_us: int | None
    rules: CellRules


def bind_header(spec: ReadSpec, header: tuple[str, ...], fields: dict[str, str]) -> Binding:
    """Tie the columns to a header and the preamble's fields; a missing one fails the file."""
    rules = CellRules.of(spec)
    time_cells = [source.locate(header) for source in spec.event_time.sources]
    missing = [
        f"event time {source}"
        for source, cell in zip(spec.event_time.sources, time_cells, strict=True)
        if cell is None
    ]
    bound: list[BoundColumn] = []
    for column in spec.columns:
        if column.origin is Origin.PREAMBLE:
            bound.append(_bind_preamble(column, fields, rules))
            continue
        found = column.in_header(header)
        if found is not None:
            bound.append(BoundColumn(found[1], found[0]))
        elif column.required or not column.nullable:
            missing.append(f"column {column.name} ({column.source})")
        else:
            bound.append(BoundColumn(column, None))
    if missing:
        raise UnreadableFileError(f"the header has no {', no '.join(missing)}; it reads: {_shown(header)}")
    start_us = _start_us(spec, fields, rules)
    cells = tuple(cell for cell in time_cells if cell is not None)
    return Binding(len(header), cells, tuple(bound), start_us, rules)


def _bind_preamble(column: Column, fields: dict[str, str], rules: CellRules) -> BoundColumn:
    text = next((fields[name] for name in column.source.names if name in fields), None)
    if text is None:
        if column.required:
            raise UnreadableFileError(f"the preamble has no {column.source} for column {column.name}")
        return BoundColumn(column, None)
    try:
        return BoundColumn(column, None, read_value(text, column, rules=rules))
    except RowRejected as rejected:
        raise UnreadableFileError(
            f"the preamble's {column.name} is {text!r}: {rejected.reason.value}"
        ) from rejected


def _start_us(spec: ReadSpec, fields: dict[str, str], rules: CellRules) -> int | None:
    if all(layout.kind is not LayoutKind.RELATIVE for layout in spec.event_time.layouts):
        return None
    start = spec.event_time.start
    if start is None or start.field not in fields:
        name = start.field if start else "start"
        raise UnreadableFileError(f"times are relative, and the preamble has no start stamp {name!r}")
    try:
        stamp = parse_stamp(fields[start.field], start.layouts, numbers=rules.numbers, start_us=None)
    except RowRejected as rejected:
        raise UnreadableFileError(f"the start stamp {fields[start.field]!r} fits no layout") from rejected
    if not stamp.is_local:
        return stamp.us
    assert rules.zone is not None, "a local layout comes with a zone"
    instant = rules.zone.instant(stamp.us)
    if instant is None:
        raise UnreadableFileError(f"the start stamp {fields[start.field]!r} never was on a local clock")
    return instant


def _shown(header: tuple[str, ...]) -> str:
    text = " | ".join(header)
    return text if len(text) <= 300 else text[:300] + " …"
