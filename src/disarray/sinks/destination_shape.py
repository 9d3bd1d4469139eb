"""The columns of a destination: their names and types, what a row is known by, and when it is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

import pyarrow as pa

from disarray.errors import ConfigError
from disarray.kernels.parsing.columns import ARROW_TYPES
from disarray.model.description.destination import Content, Load
from disarray.model.description.format import ColumnType
from disarray.model.description.rollups import AggregateFunction
from disarray.model.description.spec_table import near_miss
from disarray.model.expression.type_check import type_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.destination import Destination
    from disarray.model.description.rollups import Aggregate

INSTANT = pa.timestamp("us", tz="UTC")
SUBJECT, CHANNEL, COMMIT = "subject_key", "channel", "commit_seq"
LOADED_AT, IS_DELETED = "loaded_at", "is_deleted"
# What a Delta table is partitioned by, before the columns of its content.
DATASET, MONTH = "dataset", "month"
_TEXT, _WHOLE, _FLOAT = pa.string(), pa.int64(), pa.float64()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What rows of a destination look like; all names are ours, `theirs` has those of the target by ours.

    `made_of` are the declared names behind the columns in the middle: aggregates, or columns of the dataset.
    """

    schema: pa.Schema
    key: tuple[str, ...]
    time: str
    made_of: Mapping[str, str]
    theirs: Mapping[str, str]

    def target_name(self, column: str) -> str:
        """What the target calls a column."""
        return self.theirs[column]

    @property
    def loaded(self) -> pa.Schema:
        """The columns that are loaded, in our order and with our names."""
        return pa.schema([field for field in self.schema if field.name in self.theirs])


def shape_of(destination: Destination) -> Shape:
    """The shape of a destination; a mapping of columns that leaves out what loading needs is refused."""
    dataset = destination.dataset
    made_of: dict[str, str] = {}
    key: tuple[str, ...]
    match destination.content:
        case Content.ROLLUP:
            assert destination.rollup is not None
            key, time = (SUBJECT, CHANNEL, "bucket_start"), "bucket_start"
            fields = [(SUBJECT, _TEXT), (CHANNEL, _TEXT), ("bucket_start", INSTANT), ("bucket_end", INSTANT)]
            fields.append(("label", _TEXT))
            fields += _named(
                [(each.name, _aggregate_type(each, dataset)) for each in destination.rollup.aggregates],
                made_of,
                taken=[name for name, _ in fields],
            )
        case Content.METRIC:
            assert destination.metric is not None
            key, time = (SUBJECT, CHANNEL, "at"), "at"
            fields = [(SUBJECT, _TEXT), (CHANNEL, _TEXT), ("at", INSTANT)]
            fields += [("value", ARROW_TYPES[destination.metric.type]), ("reading_at", INSTANT)]
        case Content.NEWEST:
            # A number stands in the column of its type: a common one would cost large integers their last bits.
            key, time = (SUBJECT, CHANNEL, "metric"), "at"
            fields = [(SUBJECT, _TEXT), (CHANNEL, _TEXT), ("metric", _TEXT), ("at", INSTANT)]
            fields += [("int_value", _WHOLE), ("float_value", _FLOAT)]
        case Content.READINGS:
            # Not by file and position: a copy that takes over from the original changes no number, and is no commit.
            key, time = (SUBJECT, CHANNEL, "event_time", "ordinal"), "event_time"
            fields = [(SUBJECT, _TEXT), ("event_time", INSTANT), (CHANNEL, _TEXT), ("ordinal", _WHOLE)]
            columns = [(column.name, ARROW_TYPES[column.type]) for column in dataset.columns]
            fields += _named(columns, made_of, taken=[name for name, _ in fields])
        case _:
            assert_never(destination.content)
    schema = pa.schema([*fields, (COMMIT, _WHOLE)])
    return Shape(
        schema=schema, key=key, time=time, made_of=made_of, theirs=_theirs(destination, schema, key, time)
    )


def _named(
    fields: Sequence[tuple[str, pa.DataType]], made_of: dict[str, str], *, taken: Sequence[str]
) -> list[tuple[str, pa.DataType]]:
    """Declared names; one that stands for something else in every row has `_value` after it."""
    reserved = {*taken, COMMIT, LOADED_AT, IS_DELETED, DATASET, MONTH}
    found = []
    for name, kind in fields:
        own = f"{name}_value" if name in reserved else name
        made_of[own] = name
        found.append((own, kind))
    return found


def _aggregate_type(aggregate: Aggregate, dataset: Dataset) -> pa.DataType:
    match aggregate.function:
        case AggregateFunction.COUNT:
            return _WHOLE
        case AggregateFunction.AVG | AggregateFunction.STDDEV:
            return _FLOAT
        case (
            AggregateFunction.SUM
            | AggregateFunction.MIN
            | AggregateFunction.MAX
            | AggregateFunction.FIRST
            | AggregateFunction.LAST
        ):
            assert aggregate.input is not None
            is_whole = type_of(aggregate.input, dataset.column_types) is ColumnType.INT64
            return _WHOLE if is_whole else _FLOAT
        case _:
            assert_never(aggregate.function)


def _theirs(destination: Destination, schema: pa.Schema, key: Sequence[str], time: str) -> dict[str, str]:
    if destination.columns is None:
        return {name: name for name in schema.names}
    given = {ours: theirs for theirs, ours in destination.columns.items()}
    where = f"destination {destination.name}: columns"
    for ours, theirs in given.items():
        if ours not in schema.names:
            raise ConfigError(
                f"{where}.{theirs}: there is no column '{ours}'; {near_miss(ours, schema.names)}"
            )
    needed = {SUBJECT, time} if destination.load is Load.REPLACE else {*key, time, COMMIT}
    missing = [name for name in schema.names if name in needed - given.keys()]
    if missing:
        raise ConfigError(
            f"{where}: load = '{destination.load}' needs {', '.join(missing)} as well. Nothing was loaded"
        )
    return given
