"""The table that holds the readings of a dataset in the database: its name, its columns and the view over it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.model.duration import DAY

if TYPE_CHECKING:
    from collections.abc import Collection

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.format import ColumnType
    from disarray.model.description.metrics import Metric

# What every such table or view has beside the columns of its dataset. No declared name begins with an underscore.
SUBJECT_KEY = "subject_key"
EVENT_AT = "event_at"
CHANNEL_COLUMN = "channel"
ORDINAL = "ordinal"
POSITION_COLUMN = "position"
SEGMENT_US = "_segment_us"
SOURCE_ID = "_source_id"
_TAKEN = frozenset(
    {SUBJECT_KEY, EVENT_AT, CHANNEL_COLUMN, ORDINAL, POSITION_COLUMN, "source_uri", "is_final"}
)

# What else is called `<dataset>_…`: the views, the index, and the partition of a month.
_OWN_SUFFIXES = ("running", "joined", "in_order")
_MONTH = re.compile(r"y\d+m\d\d")

LONGEST_IDENTIFIER = 63
USUAL_CHUNK_US = 7 * DAY


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A declared column, and what it is called in the table.

    With `dimension` the table holds numbers in its place, and the table of that name says which value each stands for.
    """

    column: str
    name: str
    type: ColumnType
    dimension: str | None = None


@dataclass(frozen=True, slots=True)
class TableMetric:
    """A metric: the column of its folds within segments, of restarts if it has any, and its name in the view."""

    metric: str
    name: str
    local: str
    restarted: str | None
    type: ColumnType
    kind: str


@dataclass(frozen=True, slots=True)
class ReadingsTable:
    """All that has to be known to create, fill and read the table of one dataset."""

    dataset: str
    name: str
    running: str
    segment_length_us: int
    chunk_us: int
    columns: tuple[TableColumn, ...]
    metrics: tuple[TableMetric, ...]

    @property
    def dimensions(self) -> tuple[TableColumn, ...]:
        """The columns whose values lie in tables of their own, in the order in which those are written to.

        Every commit takes this order, and within a column that of the values: no two of them can wait for each other.
        """
        return tuple(
            sorted(
                (column for column in self.columns if column.dimension is not None),
                key=lambda column: column.name,
            )
        )

    @property
    def definition(self) -> dict[str, Any]:
        """As the database is told; equal definitions need no change of the table.

        What only a table with dimensions has is left out of the others: their definitions stay what they were.
        """
        joined = {"joined": identifier(f"{self.dataset}_joined")} if self.dimensions else {}
        return {
            "table": self.name,
            "running": self.running,
            **joined,
            "segment_us": self.segment_length_us,
            "chunk_us": self.chunk_us,
            "columns": [
                {"name": column.name, "type": column.type.value}
                | ({} if column.dimension is None else {"dimension": column.dimension})
                for column in self.columns
            ],
            "metrics": [
                {
                    "metric": metric.metric,
                    "name": metric.name,
                    "local": metric.local,
                    "restarted": metric.restarted,
                    "type": metric.type.value,
                    "kind": metric.kind,
                }
                for metric in self.metrics
            ],
        }


def readings_table(dataset: Dataset) -> ReadingsTable:
    """The table of a dataset. A name that is taken gets a suffix, one that is too long is cut and told apart by a hash.

    Declared columns keep their names unless it is one of ours (then `…_column`); a metric has `_total` after it where a
    column has its name already.
    """
    taken = set(_TAKEN)
    names = _free_names([column.name for column in dataset.columns], taken, suffix="_column")
    totals = _free_names([metric.name for metric in dataset.metrics], taken, suffix="_total")
    return ReadingsTable(
        dataset=dataset.name,
        name=dataset.name,
        running=identifier(f"{dataset.name}_running"),
        segment_length_us=dataset.segment_length_us,
        chunk_us=chunk_length(dataset),
        columns=tuple(
            TableColumn(
                column.name,
                names[column.name],
                column.type,
                _dimension_table(dataset.name, column.name) if column.is_dimension else None,
            )
            for column in dataset.columns
        ),
        metrics=tuple(_metric(metric, totals[metric.name]) for metric in dataset.metrics),
    )


def chunk_length(dataset: Dataset) -> int:
    """The declared length of a chunk; else about a week, in whole segments."""
    if dataset.chunk_us is not None:
        return dataset.chunk_us
    return -(-USUAL_CHUNK_US // dataset.segment_length_us) * dataset.segment_length_us


def identifier(name: str) -> str:
    """The name, or its beginning and a hash: PostgreSQL would cut it silently, and two could become one."""
    if len(name) <= LONGEST_IDENTIFIER:
        return name
    return f"{name[: LONGEST_IDENTIFIER - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _dimension_table(dataset: str, column: str) -> str:
    is_taken = column in _OWN_SUFFIXES or _MONTH.fullmatch(column)
    return identifier(f"{dataset}_{column}_values" if is_taken else f"{dataset}_{column}")


def _metric(metric: Metric, name: str) -> TableMetric:
    return TableMetric(
        metric=metric.name,
        name=name,
        local=identifier(f"_local_{metric.name}"),
        restarted=identifier(f"_restarted_{metric.name}") if metric.reset_on else None,
        type=metric.type,
        kind=metric.kind.value,
    )


def _free_names(wanted: Collection[str], taken: set[str], *, suffix: str) -> dict[str, str]:
    """Each name, or with a suffix where it is taken; names that can stay are given first."""
    found = {name: name for name in wanted if name not in taken}
    taken |= set(found)
    for name in wanted:
        if name not in found:
            free = identifier(name + suffix)
            while free in taken:
                free = identifier(free + suffix)
            found[name] = free
            taken.add(free)
    return found
