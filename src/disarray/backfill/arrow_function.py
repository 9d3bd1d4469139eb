"""Functions of users on Arrow tables: found by name, given rows, and held to what they promise."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from disarray.backfill.checksum import ValueRule, row_hash, value_text
from disarray.errors import BackfillChunkError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disarray.backfill.table_layout import Column
    from disarray.backfill.user_database.table import RowsRead

_TYPES = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "bytea": pa.binary(),
    # Of numeric the values say what precision they need.
    "numeric": None,
}


def load_function(name: str) -> Callable[[pa.Table], pa.Table]:
    """The function `module:name`."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"the function {name} cannot be loaded: {error}. Nothing was changed. It has to be importable where the "
            "backfill runs: install its package there, or name its folder in PYTHONPATH"
        ) from error
    if not callable(found):
        raise ConfigError(f"{name} is no function. Nothing was changed")
    function: Callable[[pa.Table], pa.Table] = found
    return function


def table_of(rows: RowsRead, columns: Sequence[Column]) -> pa.Table:
    """Rows as a function gets them; types that Arrow has no equal of come as text."""
    arrays = {
        column.name: pa.array(rows.values[column.name], _TYPES.get(column.type_name, pa.string()))
        for column in columns
    }
    return pa.table(arrays)


def apply_function(
    function: Callable[[pa.Table], pa.Table], given: pa.Table, set_columns: Sequence[Column]
) -> list[list[Any]]:
    """The values that a function gives, one list for each column that is set, of exactly the types of the columns."""
    try:
        result = function(given)
    except Exception as error:
        raise BackfillChunkError(f"the function failed: {type(error).__name__}: {error}") from error
    if not isinstance(result, pa.Table | pa.RecordBatch):
        raise BackfillChunkError(f"the function gave a {type(result).__name__}, no Arrow table")
    if result.num_rows != given.num_rows:
        raise BackfillChunkError(f"the function gave {result.num_rows} rows for {given.num_rows}")
    return [_values(result, column) for column in set_columns]


def _values(result: Any, column: Column) -> list[Any]:
    if column.name not in result.schema.names:
        raise BackfillChunkError(
            f"the function gave no column {column.name}; it gave {', '.join(result.schema.names)}"
        )
    values = result.column(column.name)
    expected = _TYPES.get(column.type_name, pa.string())
    try:
        # A value that the type of the column cannot hold is refused here: no bit is stored that was not computed.
        values = values if expected is None else values.cast(expected)
    except pa.ArrowInvalid as error:
        raise BackfillChunkError(f"column {column.name} is {column.type_text}: {error}") from error
    except pa.ArrowNotImplementedError as error:
        raise BackfillChunkError(f"column {column.name} is {column.type_text}: {error}") from error
    plain: list[Any] = values.to_pylist()
    return plain


def expected_hashes(
    keys: Sequence[Sequence[Any]],
    cursor: Sequence[Column],
    values: Sequence[Sequence[Any]],
    columns: Sequence[Column],
) -> list[str | None] | None:
    """The hash that each row has once it is written; None where only the database knows its cursor as text."""
    if any(column.rule is not ValueRule.PLAIN for column in cursor):
        return None
    found: list[str | None] = []
    for index, key in enumerate(keys):
        texts = [value_text(own[index], column.rule) for own, column in zip(values, columns, strict=True)]
        found.append(f"{row_hash([*key, *texts]):032x}")
    return found
