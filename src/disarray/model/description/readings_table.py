"""The table that holds the readings of a dataset in the database: its name, its columns and the view over it."""

from __future__ import annotations

import hashlib
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

LONGEST_IDENTIFIER = 63
USUAL_CHUNK_US = 7 * DAY


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A declared column, and what it is called in the table."""

    column: str
    name: str
    type: ColumnType


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
    def definition(self) -> dict[str, Any]:
        """As the database is told; equal definitions need no change of the table."""
        return {
            "table": self.name,
            "running": self.running,
            "segment_us": self.segment_length_us,
            "chunk_us": self.chunk_us,
            "columns": [{"name": column.name, "type": column.type.value} for column in self.columns],
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
            TableColumn(column.name, names[column.name], column.type) for column in dataset.columns
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
