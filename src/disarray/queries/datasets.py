"""The datasets of a project: where their readings live, and what is computed from them."""

from collections.abc import Mapping
from dataclasses import dataclass

from disarray.control import definitions, values
from disarray.control.connections import Connection
from disarray.model.description.dataset import Dataset


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


def list_datasets(connection: Connection, datasets: Mapping[str, Dataset]) -> list[DatasetView]:
    """Every dataset, by name."""
    return [
        DatasetView(
            dataset=each.name,
            description=each.description,
            store=each.store.value,
            segment_us=each.segment_us,
            columns=[column.name for column in each.columns],
            metrics=[metric.name for metric in each.metrics],
            rollups=[rollup.name for rollup in each.rollups],
            subjects=len(values.list_subjects(connection, dataset=each.name)),
        )
        for _, each in sorted(datasets.items())
    ]


def stored_datasets(connection: Connection) -> dict[str, Dataset]:
    """The datasets that have readings, as the database has them: for whoever has no disarray.toml at hand."""
    found = {}
    for name in sorted({span.dataset for span in values.list_subjects(connection)}):
        version = definitions.definition_in_force(connection, name)
        if version is not None:
            found[name] = definitions.load_definition(connection, name, version)
    return found
