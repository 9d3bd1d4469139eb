"""Answers as Arrow tables: which column holds what, in which type."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from disarray.kernels.parsing.columns import ARROW_TYPES
from disarray.model.description.format import ColumnType
from disarray.model.description.rollups import AggregateFunction
from disarray.model.expression.type_check import type_of

if TYPE_CHECKING:
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.metrics import Metric
    from disarray.model.description.rollups import Aggregate, Rollup
    from disarray.queries.restatements import Restatement
    from disarray.queries.rollups import Buckets
    from disarray.queries.values import Values

INSTANT = pa.timestamp("us", tz="UTC")
_TEXTS = pa.list_(pa.string())

SUBJECTS = pa.schema(
    [("subject_key", pa.string()), ("dataset", pa.string()), ("first", INSTANT), ("last", INSTANT)]
)
DATASETS = pa.schema(
    [
        ("dataset", pa.string()),
        ("description", pa.string()),
        ("store", pa.string()),
        ("segment_us", pa.int64()),
        ("columns", _TEXTS),
        ("metrics", _TEXTS),
        ("rollups", _TEXTS),
        ("subjects", pa.int64()),
    ]
)
METRICS = pa.schema(
    [(name, pa.string()) for name in ("dataset", "metric", "kind", "type", "unit", "input", "where")]
)
FILES = pa.schema(
    [
        ("source_uri", pa.string()),
        ("subject_key", pa.string()),
        ("dataset", pa.string()),
        ("status", pa.string()),
        ("content_hash", pa.string()),
        ("process_count", pa.int64()),
        ("retry_count", pa.int64()),
        ("last_error", pa.string()),
        ("first_seen_at", INSTANT),
        ("last_seen_at", INSTANT),
    ]
)
# Metrics are whole numbers or floats. One column for both would cost large integers their last bits.
_CHANGED = ("first_old", "first_new", "old", "new", "delta", "least", "greatest")
RESTATEMENTS = pa.schema(
    [
        *((name, pa.string()) for name in ("dataset", "subject_key", "metric", "channel")),
        ("changed_from", INSTANT),
        ("changed_to", INSTANT),
        *(
            (f"{name}_{kind}", type_)
            for name in _CHANGED
            for kind, type_ in (("int", pa.int64()), ("float", pa.float64()))
        ),
        ("source_uris", _TEXTS),
        ("is_redefined", pa.bool_()),
        ("restated_at", INSTANT),
    ]
)


def values_schema(metric: Metric) -> pa.Schema:
    """A row for each instant and channel; the value in the type of the metric."""
    return pa.schema(
        [
            *((name, pa.string()) for name in ("dataset", "subject_key", "metric", "unit", "channel")),
            ("at", INSTANT),
            ("value", ARROW_TYPES[metric.type]),
            ("reading_at", INSTANT),
            ("final", pa.bool_()),
            ("readings_dropped", pa.bool_()),
        ]
    )


def values_rows(document: Values) -> list[dict[str, Any]]:
    """The rows of `values_schema`."""
    about = {name: getattr(document, name) for name in ("dataset", "subject_key", "metric", "unit")}
    return [about | row_of(each) for each in document.values]


def rollup_schema(dataset: Dataset, rollup: Rollup) -> pa.Schema:
    """A row for each bucket and channel, a column for each aggregate, under its name."""
    return pa.schema(
        [
            *((name, pa.string()) for name in ("dataset", "subject_key", "rollup", "channel")),
            ("start", INSTANT),
            ("end", INSTANT),
            ("label", pa.string()),
            ("final", pa.bool_()),
            *((_column(each), ARROW_TYPES[_type_of(each, dataset)]) for each in rollup.aggregates),
        ]
    )


def rollup_rows(document: Buckets, rollup: Rollup) -> list[dict[str, Any]]:
    """The rows of `rollup_schema`."""
    about = {name: getattr(document, name) for name in ("dataset", "subject_key", "rollup")}
    return [
        about | row_of(bucket) | {_column(each): bucket.values[each.name] for each in rollup.aggregates}
        for bucket in document.buckets
    ]


def restatement_row(noted: Restatement) -> dict[str, Any]:
    """A row of `RESTATEMENTS`."""
    row = row_of(noted)
    for name in _CHANGED:
        number = row.pop(name)
        row["{}_{}".format(name, "int" if isinstance(number, int) else "float")] = number
    return row


def row_of(document: Any) -> dict[str, Any]:
    """A document as a row, one level deep."""
    return {each.name: getattr(document, each.name) for each in fields(document)}


def _column(aggregate: Aggregate) -> str:
    taken = {"dataset", "subject_key", "rollup", "channel", "start", "end", "label", "final"}
    return f"{aggregate.name}_value" if aggregate.name in taken else aggregate.name


def _type_of(aggregate: Aggregate, dataset: Dataset) -> ColumnType:
    if aggregate.function is AggregateFunction.COUNT or aggregate.input is None:
        return ColumnType.INT64
    if aggregate.function in (AggregateFunction.AVG, AggregateFunction.STDDEV):
        return ColumnType.FLOAT64
    return type_of(aggregate.input, dataset.column_types)
