"""All that a plant answers and plans, as a bag of plain values for each field: what differs is told by its name."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from disarray.control import deliveries, quarantine, sources, status, subject_commits
from disarray.control.files import Notification, Reason
from disarray.control.moving_files import list_unmatched_files
from disarray.errors import DisarrayError
from disarray.model.duration import HOUR
from disarray.queries import conflicts, dead_letters, files, inbox, restatements, runs, subjects
from disarray.queries import quarantine as quarantine_query
from disarray.queries.readings import readings
from disarray.queries.rollups import RollupAnswer, query_rollup
from disarray.queries.series import query_series
from disarray.queries.values import MetricAnswer, query_value
from disarray.worker.passes.rehearsal import rehearse, rehearse_release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from disarray.model.description.dataset import Dataset
    from tests.store.test_audit import World

Answers = dict[str, Counter[str]]


def answers(world: World, subjects_of: Sequence[tuple[str, str]], planned: Path) -> Answers:
    """Every answer there is, by kind and field; `planned` is a file that is late and not announced."""
    found: Answers = defaultdict(Counter)
    for kind, ask in _questions(world, subjects_of, planned):
        try:
            _take_apart(ask(), kind, found)
        except DisarrayError as error:
            found[kind][f"{type(error).__name__}: {error}"] += 1
    return found


def changed(before: Answers, after: Answers) -> set[str]:
    """The fields that differ."""
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def _questions(
    world: World, subjects_of: Sequence[tuple[str, str]], planned: Path
) -> Iterator[tuple[str, Callable[[], object]]]:
    connection, lake, datasets = world.connection, world.lake, world.datasets
    for name, subject in subjects_of:
        yield from _questions_about(world, datasets[name], subject)
    yield (
        "file",
        lambda: [
            files.show_file(connection, files.find_file(connection, each.source_uri))
            for each in files.list_files(connection, limit=100).files
        ],
    )
    yield "restatements", lambda: restatements.list_restatements(connection).restatements
    yield "status", lambda: [status.queue_status(connection), status.list_waiting(connection)]
    yield "unmatched", lambda: list_unmatched_files(connection)
    yield "quarantine", lambda: quarantine_query.list_quarantine(connection)
    yield "dead_letters", lambda: dead_letters.list_dead_letters(connection)
    yield "conflicts", lambda: conflicts.list_conflicts(connection)
    yield "subjects", lambda: subjects.list_subjects(connection)
    yield "inbox", lambda: [inbox.list_inbox_events(connection, state=each) for each in ("dead", "done")]
    yield "runs", lambda: runs.list_runs(connection)
    yield "batches", lambda: deliveries.list_batches(connection)
    yield "sources", lambda: sources.list_sources(connection)
    yield "followers", lambda: subject_commits.list_followers(connection)
    late = Notification(str(planned), "T5", Reason.FILE_NOTIFICATION, {})
    yield "plan", lambda: rehearse(connection, [late], datasets=datasets, lake=lake)
    yield (
        "preview",
        lambda: [
            rehearse_release(connection, each, datasets=datasets, lake=lake)
            for each in quarantine.list_quarantine(connection)
        ],
    )


def _questions_about(
    world: World, dataset: Dataset, subject_key: str
) -> Iterator[tuple[str, Callable[[], object]]]:
    connection, lake, datasets = world.connection, world.lake, world.datasets
    of_subject = partial(
        query_value, connection, lake, datasets, dataset=dataset.name, subject_key=subject_key
    )
    over_time = partial(
        query_series,
        connection,
        lake,
        datasets,
        dataset=dataset.name,
        subject_key=subject_key,
        every_us=HOUR // 4,
    )
    for metric in dataset.metrics:
        yield "value", partial(of_subject, metric=metric.name)
        yield "series", partial(over_time, metric=metric.name)
    for rollup in dataset.rollups:
        yield (
            "rollup",
            partial(query_rollup, connection, datasets, subject_key=subject_key, rollup=rollup.name),
        )
    yield (
        "readings",
        lambda: [
            table.to_pylist()
            for table in readings(connection, lake, dataset=dataset, subject_key=subject_key)
        ],
    )
    yield "commits", partial(subject_commits.list_commits, connection, subject_key, dataset.name)


def _take_apart(document: Any, name: str, found: Answers) -> None:
    if isinstance(document, MetricAnswer | RollupAnswer):
        document = document.document
    if is_dataclass(document):
        for each in fields(document):
            _take_apart(getattr(document, each.name), f"{name}.{each.name}", found)
    elif isinstance(document, Mapping):
        for key, value in document.items():
            _take_apart(value, f"{name}.{key}", found)
    elif isinstance(document, Sequence) and not isinstance(document, str | bytes):
        for value in document:
            _take_apart(value, name, found)
    else:
        found[name][repr(document)] += 1
