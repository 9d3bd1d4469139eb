"""A project folder with readings, and the same as a notebook opens it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import disarray
from tests.cli.conftest import report
from tests.plant import Plant
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from disarray.notebook.plant import Plant as OpenPlant


@pytest.fixture
def folder(tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project folder whose subject TOOL07 has readings of hours 0 and 9 to 11; a segment is an hour."""
    monkeypatch.setenv("DISARRAY_DSN", dsn)
    monkeypatch.setenv("DISARRAY_STATE_DIR", str(tmp_path))
    built = Plant(tmp_path, dsn, description=DATASET)
    built.ingest(built.write("TOOL07/0.csv", report(0)))
    built.ingest(built.write("TOOL07/new.csv", report(9, 10, 11)))
    yield tmp_path
    built.pool.close()


@pytest.fixture
def plant(folder: Path) -> Iterator[OpenPlant]:
    """The project, opened as a notebook opens it."""
    with disarray.open(folder) as opened:
        yield opened
