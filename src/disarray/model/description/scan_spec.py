"""All that a scan needs to know about one subject of a dataset, resolved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.model.description.conflict_rule import BY_PATH, Conflict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.model.description.dataset import Attribute, Dataset
    from disarray.model.description.format import ColumnType
    from disarray.model.description.metrics import Metric
    from disarray.model.description.read_spec import Key
    from disarray.model.description.rollups import Rollup


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSpec:
    """How the fragments of one segment become readings, summaries and rollup parts."""

    subject: str
    columns: Mapping[str, ColumnType]  # declared, in order
    has_channel: bool
    order_by: tuple[str, ...]
    key: Key
    metrics: tuple[Metric, ...]
    rollups: tuple[Rollup, ...]
    attributes: tuple[Attribute, ...] = ()
    conflict: Conflict = BY_PATH


def scan_spec_of(dataset: Dataset, subject: str) -> ScanSpec:
    """What the dataset says about scanning this subject."""
    return ScanSpec(
        subject=subject,
        columns={column.name: column.type for column in dataset.columns},
        has_channel=dataset.channel is not None,
        order_by=dataset.order_by,
        key=dataset.key,
        conflict=dataset.conflict,
        metrics=dataset.metrics,
        rollups=dataset.rollups,
        attributes=dataset.attributes_of(subject),
    )
