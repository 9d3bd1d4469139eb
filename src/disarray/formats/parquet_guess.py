"""A first dataset description for a Parquet file, from its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.errors import ConfigError
from disarray.formats.guess import Guess, names_of, which_stamp
from disarray.formats.infer import name_and_unit, names_time
from disarray.model.description.format import ColumnType

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

PARQUET_MAGIC = b"PAR1"


def guess_parquet(path: Path) -> Guess:
    """The columns of plain types, and the first timestamp as event time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{path} starts like a Parquet file but is not a whole one: {error}") from error
    stamps = [column for column in schema if pa.types.is_timestamp(column.type)]
    stamps.sort(key=lambda column: not names_time(column.name))
    if not stamps:
        raise ConfigError(f"{path} has no timestamp column; say in a dataset how to tell the time")
    event = stamps[0]
    found = Guess(
        format="parquet",
        event_time={"from": event.name, "layouts": ["iso"]},
        local_time=event.type.tz is None,
        reasons=["it is a Parquet file", f"'{event.name}' is the first timestamp column"],
    )
    stamps_too: list[str] = []
    left_out: dict[str, list[str]] = {}
    for column in schema:
        type_ = _type_of(column.type)
        if column.name == event.name:
            continue
        if type_ is None:
            left_out.setdefault(str(column.type), []).append(column.name)
            continue
        own_name, unit = name_and_unit(column.name, found.columns)
        table: dict[str, object] = {"from": column.name} if own_name != column.name else {}
        table["type"] = str(type_)
        if type_ is ColumnType.TIMESTAMP:
            table["layouts"] = "iso"
            stamps_too.append(column.name)
        if unit:
            table["unit"] = unit
        found.columns[own_name] = table
    for type_name, names in left_out.items():
        of_type, left = ("is of type", "is left out") if len(names) == 1 else ("are of type", "are left out")
        found.checks.append(f"{names_of(names)} {of_type} {type_name} and {left}")
    if stamps_too:
        found.checks.append(which_stamp(stamps_too, event.name))
    return found


def _type_of(type_: pa.DataType) -> ColumnType | None:
    import pyarrow.types as types

    if types.is_floating(type_):
        return ColumnType.FLOAT64
    if types.is_integer(type_):
        return ColumnType.INT64
    if types.is_boolean(type_):
        return ColumnType.BOOL
    if types.is_timestamp(type_):
        return ColumnType.TIMESTAMP
    if types.is_string(type_) or types.is_large_string(type_) or types.is_dictionary(type_):
        return ColumnType.STRING
    return None
