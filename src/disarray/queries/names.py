"""From the names that people type to what they stand for, with the nearest one where a name is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from disarray.control import values
from disarray.control.definitions import count_rebuilt
from disarray.errors import AmbiguousNameError, NotBuiltYetError, UnknownNameError
from disarray.model.description.spec_table import near_miss
from disarray.store.definitions import KnownDefinitions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.metrics import Metric
    from disarray.model.description.rollups import Rollup

Named = TypeVar("Named", "Metric", "Rollup")


@dataclass(frozen=True, slots=True)
class SubjectOf:
    """A subject that has readings of a dataset, as its numbers were made, and the span of them.

    Where a rebuild is pending, `dataset` is the former definition and `configured` the new one.
    """

    dataset: Dataset
    subject_key: str
    first_us: int
    last_us: int
    configured: Dataset
    rebuilt: tuple[int, int] | None = (
        None  # while a rebuild is pending: how many subjects of how many have had theirs
    )

    @property
    def is_rebuild_pending(self) -> bool:
        """Whether its numbers are those of a former definition."""
        return self.rebuilt is not None


def check_dataset(datasets: Mapping[str, Dataset], dataset: str | None) -> None:
    """Refuse the name of a dataset that is not described."""
    if dataset is not None and dataset not in datasets:
        raise UnknownNameError(
            f"disarray.toml describes no dataset '{dataset}'; {near_miss(dataset, list(datasets))}"
        )


def find_subjects(
    connection: Connection,
    datasets: Mapping[str, Dataset],
    *,
    subject_key: str | None = None,
    dataset: str | None = None,
) -> list[SubjectOf]:
    """Every subject of that name, or every one there is; a name that stands for none is an error."""
    check_dataset(datasets, dataset)
    found = (
        list(values.all_subjects(connection, dataset=dataset))
        if subject_key is None
        else values.list_subjects(connection, dataset=dataset, subject_key=subject_key)
    )
    spans = subjects_of(connection, datasets, found)
    if subject_key is not None and not spans:
        known = {span.subject_key for span in values.list_subjects(connection, dataset=dataset)}
        where = f" in dataset '{dataset}'" if dataset is not None else ""
        raise UnknownNameError(
            f"subject '{subject_key}' has no readings{where}; {near_miss(subject_key, known)}"
        )
    return spans


def subjects_of(
    connection: Connection, datasets: Mapping[str, Dataset], found: Sequence[values.SubjectSpan]
) -> list[SubjectOf]:
    """The subjects behind some spans, each with the definition that its numbers were made under."""
    pending = {span.dataset for span in found if span.is_in_force is False}
    rebuilt = {name: count_rebuilt(connection, name) for name in pending}
    known_definitions = KnownDefinitions(connection, datasets)
    return [
        SubjectOf(
            known_definitions.of(span.dataset, span.version),
            span.subject_key,
            span.first_us,
            span.last_us,
            configured=datasets[span.dataset],
            rebuilt=rebuilt[span.dataset] if span.is_in_force is False else None,
        )
        for span in found
        if span.dataset in datasets
    ]


def find_metric(subjects: Sequence[SubjectOf], name: str) -> tuple[SubjectOf, Metric]:
    """The one dataset of a subject that has a metric of this name."""
    _refuse_unbuilt(
        [each for each in subjects if _is_new(name, each.dataset.metrics, each.configured.metrics)], name
    )
    return _the_one(subjects, name, {s.dataset.name: s.dataset.metrics for s in subjects}, "metric")


def find_rollup(subjects: Sequence[SubjectOf], name: str) -> tuple[SubjectOf, Rollup]:
    """The one dataset of a subject that has a rollup of this name."""
    _refuse_unbuilt(
        [each for each in subjects if _is_new(name, each.dataset.rollups, each.configured.rollups)], name
    )
    return _the_one(subjects, name, {s.dataset.name: s.dataset.rollups for s in subjects}, "rollup")


def _is_new(name: str, before: Sequence[Metric | Rollup], after: Sequence[Metric | Rollup]) -> bool:
    return name in {each.name for each in after} - {each.name for each in before}


def _refuse_unbuilt(waiting: Sequence[SubjectOf], name: str) -> None:
    """Say so where a name is known and its numbers are not there yet."""
    for each in waiting:
        not_built = f"'{name}' of dataset '{each.dataset.name}' is not built yet"
        if each.rebuilt is None:
            raise NotBuiltYetError(
                f"{not_built}: disarray.toml describes it, and that definition is not in force. Run: disarray ingest"
            )
        done, count = each.rebuilt
        raise NotBuiltYetError(
            f"{not_built} for {each.subject_key}: {done} of {count} subjects rebuilt. The others wait for a worker; "
            "or run: disarray ingest"
        )


def _the_one(
    subjects: Sequence[SubjectOf], name: str, declared: Mapping[str, Sequence[Named]], kind: str
) -> tuple[SubjectOf, Named]:
    found = [
        (subject, each)
        for subject in subjects
        for each in declared[subject.dataset.name]
        if each.name == name
    ]
    if len(found) == 1:
        return found[0]
    subject_key = subjects[0].subject_key
    if found:
        names = " and ".join(subject.dataset.name for subject, _ in found)
        raise AmbiguousNameError(
            f"'{subject_key}' has a {kind} '{name}' in the datasets {names}; say which dataset"
        )
    known = {each.name for group in declared.values() for each in group}
    raise UnknownNameError(f"'{subject_key}' has no {kind} '{name}'; {near_miss(name, known)}")
