"""The datasets of a project: where their readings live, and what is computed from them."""

from collections.abc import Mapping
from dataclasses import dataclass

from disarray.control import definitions, values
from disarray.control.connections import Connection
from disarray.model.description.dataset import Dataset
from disarray.queries.pages import Order

ORDER = Order("datasets", {"dataset": str})


@dataclass(frozen=True, kw_only=True)
class DatasetView:
    """A dataset as it is described; `subjects` is how many have readings of it."""

    dataset: str
    description: str
    store: str
    segment_us: int
    columns: list[str]
    metrics: list[str]
    rollups: list[str]
    subjects: int


@dataclass(frozen=True)
class Datasets:
    """Datasets by name; `next` is the cursor of the next page, null on the last."""

    datasets: list[DatasetView]
    next: str | None


def list_datasets(
    connection: Connection, datasets: Mapping[str, Dataset], *, limit: int = 1000, after: str | None = None
) -> Datasets:
    """Every dataset, by name."""
    found, following = ORDER.page_of(
        [_Named(name, each) for name, each in datasets.items()], after=after, limit=limit
    )
    shown = [
        DatasetView(
            dataset=each.name,
            description=each.description,
            store=each.store.value,
            segment_us=each.segment_length_us,
            columns=[column.name for column in each.columns],
            metrics=[metric.name for metric in each.metrics],
            rollups=[rollup.name for rollup in each.rollups],
            subjects=sum(1 for _ in values.all_subjects(connection, dataset=each.name)),
        )
        for each in (named.described for named in found)
    ]
    return Datasets(shown, following)


@dataclass(frozen=True)
class _Named:
    dataset: str
    described: Dataset


def stored_datasets(connection: Connection) -> dict[str, Dataset]:
    """The datasets that have readings, as the database has them: for whoever has no disarray.toml at hand."""
    found = {}
    for name in sorted({span.dataset for span in values.all_subjects(connection)}):
        version = definitions.definition_in_force(connection, name)
        if version is not None:
            found[name] = definitions.load_definition(connection, name, version)
    return found
