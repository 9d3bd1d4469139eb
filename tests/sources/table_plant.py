"""A plant whose dataset is fed by a table of another database, and a process that pulls it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg

from disarray.control import connections, instances, sources
from disarray.formats.loader import load_datasets, load_sources
from disarray.sources.landing import Landing
from disarray.sources.table_puller import TablePuller
from tests.plant import Plant
from tests.sources.table_history import DESCRIPTION, WATERMARKS

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.control.sources import SourceRecord


class TablePlant(Plant):
    """A plant with one table source; `insert` is the historian, `pull` the puller, `drain` the worker."""

    def __init__(self, root: Path, dsn: str, *, watermark: str = "timestamp", limit: int = 1000) -> None:
        self.description_text = DESCRIPTION + WATERMARKS[watermark] + f"limit = {limit}\n"
        super().__init__(root, dsn, description=self.description_text)
        self.dsn = dsn
        self.root = root
        self.place = replace(
            self.place,
            landing=Landing(root / "landing"),
            sources=load_sources(self.description, self.datasets),
        )

    @property
    def puller(self) -> TablePuller:
        assert self.place.puller is not None
        return self.place.puller

    def execute(self, statement: str) -> None:
        """Something that happens on the database of the source."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(statement.encode())

    def insert(self, *rows: tuple[int, str, float]) -> None:
        """Rows of TOOL07: id, time, watts."""
        for number, at, watts in rows:
            self.execute(
                f"insert into public.readings (id, tool, at, watts) values ({number}, 'TOOL07', '{at}', {watts})"
            )

    def pull(self) -> int:
        """Deliver what is new; how many rows."""
        [source] = self.place.sources
        return sum(pulled.counts.taken for pulled in self.puller.pull(source, is_asked_for=True))

    def state(self) -> SourceRecord:
        """What is known of the source."""
        with self.pool.connection() as connection:
            [known] = sources.list_sources(connection)
        return known

    def total(self, subject: str = "TOOL07") -> float:
        """The newest value of the metric."""
        [(value,)] = self.rows(
            f"""
            select base_float + total_float from disarray.segment_metric
            where subject_key = '{subject}' order by segment_us desc limit 1
            """
        ) or [(0.0,)]
        assert isinstance(value, float)
        return value


def pull_all(dsn: str, folder: Path) -> None:
    """One life of a puller."""
    with connections.open_pool(dsn, max_size=2) as pool:
        with pool.connection() as connection:
            holder = instances.register_instance(connection, "Puller")
        datasets = {each.name: each for each in load_datasets(folder / "disarray.toml")}
        puller = TablePuller(
            pool=pool,
            landing=Landing(folder / "landing"),
            datasets=datasets,
            holder=holder,
            sources=load_sources(folder / "disarray.toml", datasets),
        )
        for source in puller.sources:
            for _ in puller.pull(source, is_asked_for=True):
                pass
