"""What SQL takes each metric for, held against the definition: bases are shifted by it, and checked by it too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control.audit import Finding
from disarray.model.description.format import ColumnType

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from disarray.control.audit_catalog import ChainLink
    from disarray.model.description.dataset import Dataset

RULE = "metrics_are_as_defined"


def find_wrong_meanings(
    links: Sequence[ChainLink], dataset: Dataset, summarized: Collection[str]
) -> Iterator[Finding]:
    """Metrics with summaries that SQL takes for something else than their definition says, or does not know."""
    known = {
        link.metric: (link.kind, link.method, link.max_gap_us, link.is_integer)
        for link in links
        if link.dataset == dataset.name
    }
    for metric in dataset.metrics:
        defined = metric.kind.value, metric.method.value, metric.max_gap_us, metric.type is ColumnType.INT64
        if metric.name in summarized and known.get(metric.name) != defined:
            yield Finding(
                RULE,
                f"{dataset.name}.{metric.name}",
                f"known as {known.get(metric.name, 'nothing')}, defined as {defined}",
            )
