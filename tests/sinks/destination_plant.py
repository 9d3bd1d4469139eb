"""A plant with destinations: loaders that a test runs, and what the targets have beside what `queries/` answers."""

from __future__ import annotations

import os
from collections import Counter
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import psycopg

from disarray.config import read_toml
from disarray.model.description.destination import Content, DeltaTarget, Load
from disarray.model.description.destination_reader import read_destinations
from disarray.model.description.spec_table import Problems
from disarray.model.segments import FIRST_US, LAST_US, datetime_of, microseconds_of
from disarray.queries.metric_values import value_at
from disarray.queries.names import find_subjects
from disarray.queries.readings import readings
from disarray.queries.rollup_buckets import rollup
from disarray.queries.series import query_series
from disarray.sinks.destination_delta_store import open_store
from disarray.sinks.destination_loader import DestinationLoader, LoaderSettings
from tests.plant import Plant

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.engine.runner import Runner
    from disarray.model.description.destination import Destination
    from disarray.sinks.destination_loader import LoadReport

URL = "DISARRAY_TEST_TARGET_URL"
Rows = set[tuple[object, ...]]


class DestinationPlant(Plant):
    """A plant whose description ends with destinations."""

    def __init__(self, root: Path, dsn: str, *, description: str, target_dsn: str) -> None:
        self.root = root
        self.dsn = dsn
        self.target_dsn = target_dsn
        os.environ[URL] = target_dsn
        super().__init__(root, dsn, description=description)
        self.loaders = self.make_loaders()

    def make_loaders(
        self,
        *,
        lease_seconds: int = 300,
        cut_readings: int = 1_000_000,
        runner: Runner | None = None,
        most_deleted_percent: int = 100,
    ) -> dict[str, DestinationLoader]:
        """Loaders for what the file describes, each made known to the database; all of a target may go."""
        found = {
            each.name: DestinationLoader(
                pool=self.pool,
                lake=self.place.lake if hasattr(self, "place") else None,  # type: ignore[arg-type]
                destination=each,
                holder=self.place.holder,
                settings=LoaderSettings(
                    lease_seconds=lease_seconds,
                    cut_readings=cut_readings,
                    most_deleted_percent=most_deleted_percent,
                ),
                runner=runner or self.place.runner,
            )
            for each in destinations_of(self.description, self.datasets)
        }
        for loader in found.values():
            loader.register()
        return found

    def load(self) -> list[LoadReport]:
        """Load whatever is due."""
        return [report for loader in self.loaders.values() for report in loader.load_due()]

    def differences(self) -> dict[str, tuple[Rows, Rows]]:
        """By destination, the rows that the target alone has, and those that it lacks; nothing where all is equal."""
        found = {}
        for name, loader in self.loaders.items():
            has, wants = (
                # A subject that is no longer asked for stays as it was.
                {
                    row
                    for row in rows
                    if any(fnmatchcase(str(row[0]), each) for each in loader.destination.subjects)
                }
                for rows in (self.target_rows(loader.destination), self.answered_rows(loader.destination))
            )
            if has != wants:
                found[name] = (has - wants, wants - has)
        return found

    def target_rows(self, destination: Destination) -> Rows:
        """What the target has, through its view where there is one, without numbers of commits."""
        names = ", ".join(f'"{name}"' for name in _compared(destination))
        if isinstance(destination.target, DeltaTarget):
            return delta_rows(destination)
        target = destination.target
        table = f"{target.schema}.{target.table}{'_newest' if destination.load is Load.APPEND else ''}"
        with psycopg.connect(self.dsn if target.url is None else self.target_dsn) as connection:
            if connection.execute("select to_regclass(%s)", (table,)).fetchone() == (None,):
                return set()  # the first load makes it, and no subject was asked for yet
            connection.execute("set timezone = 'UTC'")
            rows = [_plain(row) for row in connection.execute(f"select {names} from {table}".encode())]
        assert len(rows) == len(set(rows)), "no row is there twice"
        return set(rows)

    def answered_rows(self, destination: Destination) -> Rows:
        """What `queries/` answers, asked in one go for each subject."""
        rows: list[tuple[Any, ...]] = []
        with self.pool.connection() as connection:
            subjects = find_subjects(connection, self.datasets, dataset=destination.dataset.name)
            for subject in [each.subject_key for each in subjects]:
                rows += [(subject, *row) for row in self._answers(connection, destination, subject)]
        return {_plain(row) for row in rows}

    def _answers(self, connection: Any, destination: Destination, subject: str) -> list[tuple[Any, ...]]:
        dataset = self.datasets[destination.dataset.name]
        match destination.content:
            case Content.ROLLUP:
                assert destination.rollup is not None
                answer = rollup(
                    connection,
                    dataset=dataset,
                    subject_key=subject,
                    rollup=next(each for each in dataset.rollups if each.name == destination.rollup.name),
                    from_us=FIRST_US,
                    to_us=LAST_US,
                )
                return [
                    (
                        each.channel,
                        datetime_of(each.start_us),
                        datetime_of(each.end_us),
                        each.label,
                        *each.numbers.values(),
                    )
                    for each in answer.buckets
                ]
            case Content.METRIC:
                assert destination.metric is not None
                values = query_series(
                    connection,
                    self.place.lake,
                    self.datasets,
                    subject_key=subject,
                    metric=destination.metric.name,
                    every_us=destination.every_us,
                    dataset=dataset.name,
                ).document.values
                return [(each.channel, each.at, each.value, each.reading_at) for each in values]
            case Content.NEWEST:
                return [
                    (
                        each.channel,
                        metric.name,
                        datetime_of(each.reading_us),
                        each.number if isinstance(each.number, int) else None,
                        each.number if isinstance(each.number, float) else None,
                    )
                    for metric in dataset.metrics
                    for each in value_at(
                        connection, self.place.lake, dataset=dataset, subject_key=subject, metric=metric
                    ).values
                ]
            case Content.READINGS:
                found, seen = [], Counter[tuple[object, ...]]()
                for table in readings(connection, self.place.lake, dataset=dataset, subject_key=subject):
                    names = ["event_time", "channel", *(each.name for each in dataset.columns)]
                    for row in table.select(names).to_pylist():
                        same = row["event_time"], row["channel"]
                        found.append((*same, seen[same], *list(row.values())[2:]))
                        seen[same] += 1
                return found


def destinations_of(file: Path, datasets: Any) -> tuple[Destination, ...]:
    _, document = read_toml(file, shown=str(file))
    problems = Problems(str(file))
    found = read_destinations(document, problems=problems, datasets=datasets, folder=file.parent)
    problems.raise_if_any()
    return found


def delta_rows(destination: Destination) -> Rows:
    from deltalake import DeltaTable

    assert isinstance(destination.target, DeltaTarget)
    store = open_store(destination.target)
    if not DeltaTable.is_deltatable(store.path, dict(store.options)):
        return set()
    table = store.open().to_pyarrow_table(columns=list(_compared(destination)))
    rows = [_plain(tuple(row.values())) for row in table.to_pylist()]
    assert len(rows) == len(set(rows)), "no row is there twice"
    return set(rows)


def _compared(destination: Destination) -> list[str]:
    from disarray.sinks.destination_shape import COMMIT, shape_of

    return [name for name in shape_of(destination).schema.names if name != COMMIT]


def _plain(row: tuple[Any, ...]) -> tuple[object, ...]:
    """Instants as microseconds, and floats by their bits."""
    return tuple(
        microseconds_of(each) if hasattr(each, "tzinfo") else repr(each) if isinstance(each, float) else each
        for each in row
    )
