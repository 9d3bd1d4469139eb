"""A large load of a destination as tasks of Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from disarray.backfill.target_rows import answered_rows, target_rows
from disarray.sinks import destination_pieces
from disarray.sinks.destination_changes import EVERYTHING
from tests.sinks.destination_plant import URL, DestinationPlant
from tests.sinks.test_destination_pieces import described
from tests.worker.deliveries import deliveries

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from disarray.engine.runner import Runner
    from tests.databases import Databases


def test_pieces_are_loaded_and_summed_by_tasks_of_spark(
    tmp_path: Path, dsn: str, databases: Databases, spark_runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(destination_pieces, "PIECE_READINGS", 5)
    target = databases.create()
    # Tasks read the url themselves, and have the environment in which Spark was started.
    (tmp_path / "target.url").write_text(databases.dsn(target))
    description = described("upsert").replace(f'env = "{URL}"', 'file = "target.url"')
    plant = DestinationPlant(tmp_path, dsn, description=description, target_dsn=databases.dsn(target))
    plant.loaders = plant.make_loaders(cut_readings=1, runner=spark_runner)
    try:
        first, *_ = deliveries(3)
        plant.ingest(plant.write(first.name, first.text))
        [report] = plant.load()
        assert report.is_whole
        assert report.rows_loaded > 5
        assert plant.differences() == {}
        # The same rows by tasks of Spark, in Arrow here and in SQL where they were loaded.
        [loader] = plant.loaders.values()
        [subject] = {row[0] for row in plant.target_rows(loader.destination)}
        by_tasks, kept = answered_rows(loader, str(subject), commit_seq=1)
        assert by_tasks == answered_rows(replace(loader, runner=None), str(subject), commit_seq=1)[0]
        with loader.open_checked() as opened:
            assert by_tasks == target_rows(opened, str(subject), (EVERYTHING,))
        assert (by_tasks.rows, kept) == (report.rows_loaded, ())
    finally:
        plant.pool.close()
        databases.discard(target)
