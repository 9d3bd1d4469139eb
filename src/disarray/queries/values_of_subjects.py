"""The value of a metric of many subjects at one instant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from disarray.control import values
from disarray.control.connections import Connection
from disarray.errors import AmbiguousNameError, UnknownNameError
from disarray.model.description.dataset import Dataset
from disarray.model.description.spec_table import near_miss
from disarray.queries import metric_values
from disarray.queries.names import SubjectOf, check_dataset, find_subjects, subjects_of
from disarray.queries.subjects import ORDER
from disarray.queries.values import Values, values_document
from disarray.store.lake import Lake


@dataclass(frozen=True)
class ValuesOfSubjects:
    """Values by subject, each of one moment; `next` is the cursor of the next page, null on the last."""

    subjects: list[Values]
    next: str | None


def query_values(
    connection: Connection,
    lake: Lake,
    datasets: Mapping[str, Dataset],
    *,
    metric: str,
    subject_keys: Sequence[str] | None = None,
    at_us: int | None = None,
    dataset: str | None = None,
    limit: int = 100,
    after: str | None = None,
) -> ValuesOfSubjects:
    """The value of a metric for some subjects or for all that have readings, by name.

    A subject for which the metric is not built yet has no values, and says that its rebuild is pending.
    """
    chosen = _dataset_of(datasets, metric, dataset)
    if subject_keys is None:
        spans, following = ORDER.page(
            partial(values.list_subjects, connection, dataset=chosen), after=after, limit=limit
        )
    else:
        named = []
        for key in dict.fromkeys(subject_keys):
            find_subjects(connection, datasets, subject_key=key, dataset=chosen)  # an unknown one is refused
            named += values.list_subjects(connection, dataset=chosen, subject_key=key)
        spans, following = ORDER.page_of(named, after=after, limit=limit)
    shown = [
        _values_of(connection, lake, each, metric, at_us) for each in subjects_of(connection, datasets, spans)
    ]
    return ValuesOfSubjects(shown, following)


def _values_of(
    connection: Connection, lake: Lake, subject: SubjectOf, name: str, at_us: int | None
) -> Values:
    built = [each for each in subject.dataset.metrics if each.name == name]
    if not built:
        [configured] = [each for each in subject.configured.metrics if each.name == name]
        return Values(
            dataset=subject.dataset.name,
            subject_key=subject.subject_key,
            metric=name,
            unit=configured.unit,
            stale_from=None,
            rebuild_pending=True,
            values=[],
        )
    answer = metric_values.value_at(
        connection,
        lake,
        dataset=subject.dataset,
        subject_key=subject.subject_key,
        metric=built[0],
        at_us=at_us,
    )
    return values_document(subject, built[0], answer)


def _dataset_of(datasets: Mapping[str, Dataset], metric: str, dataset: str | None) -> str:
    check_dataset(datasets, dataset)
    asked = {name: each for name, each in datasets.items() if dataset in (None, name)}
    found = [name for name, each in asked.items() if metric in {own.name for own in each.metrics}]
    if len(found) == 1:
        return found[0]
    if found:
        raise AmbiguousNameError(
            f"there is a metric '{metric}' in the datasets {' and '.join(sorted(found))}; say which dataset"
        )
    known = {own.name for each in asked.values() for own in each.metrics}
    raise UnknownNameError(f"no dataset has a metric '{metric}'; {near_miss(metric, known)}")
