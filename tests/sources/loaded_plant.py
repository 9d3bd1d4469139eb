"""A plant whose table source begins with an initial load, in chunks of a few rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from disarray.control import source_loads
from disarray.model.description.table_source import InitialLoad
from tests.sources.table_plant import TablePlant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from disarray.sources.initial_load import InitialLoader, LoadRound

NOON = "2026-03-02 12:00+00"


class BusyRunner:
    """Runs tasks one after the other, and lets others write between any two."""

    cores = 2

    def __init__(self, between: Callable[[], None] = lambda: None) -> None:
        self.between = between
        self.tasks = 0

    def run(self, kernel: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        found = []
        for task in tasks:
            self.between()
            self.tasks += 1
            found.append(kernel(task))
        return found


class LoadedPlant(TablePlant):
    """A plant whose source begins with an initial load in chunks of a few rows."""

    def __init__(self, root: Path, dsn: str, *, watermark: str, limit: int = 5) -> None:
        super().__init__(root, dsn, watermark=watermark, limit=limit)
        with self.description.open("a") as description:
            description.write('initial_load = "always"\n')
        [source] = self.place.sources
        self.place = replace(self.place, sources=(replace(source, initial_load=InitialLoad.ALWAYS),))
        self.runner = BusyRunner()

    @property
    def loader(self) -> InitialLoader:
        found = self.place.initial_loader(spares_a_core=False)
        assert found is not None
        return replace(found, runner=self.runner, chunks_of_a_task=1)

    def load(self) -> LoadRound | None:
        [source] = self.place.sources
        return self.loader.load_round(source)

    def load_to_the_end(self) -> list[LoadRound]:
        rounds: list[LoadRound] = []
        while (found := self.load()) is not None and not found.is_waiting:
            rounds.append(found)
        return rounds

    def fill(self, rows: int, *, first: int = 1) -> None:
        """Rows that are there when the source is first read; their stamps are old."""
        self.execute(
            f"""
            insert into public.readings (id, tool, at, watts, updated_at)
            select n, 'TOOL0' || n % 3, '{NOON}', n, now() - interval '1 h'
            from generate_series({first}, {first + rows - 1}) as n;
            select setval('public.ids', 1000);
            """
        )

    def delivered(self) -> list[tuple[int, float]]:
        """All row versions in the order of their batches, as the path rule reads them."""
        found = self.rows("select batch_no, source_uri from disarray.delivery order by batch_no, source_uri")
        versions: list[tuple[int, float]] = []
        for _, uri in found:
            table = pq.read_table(str(uri).removeprefix("file://"))
            versions += zip(table.column("id").to_pylist(), table.column("watts").to_pylist(), strict=True)
        return versions

    def load_record(self) -> source_loads.LoadRecord:
        with self.pool.connection() as connection:
            [record] = source_loads.list_source_loads(connection)
        return record
