"""Where samples stand: our own small ones beside the tests, real instrument files beside the repository."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from disarray.formats.loader import Description, shipped_descriptions
from disarray.kernels.reading.outcome import ReadReason, ReadRequest
from disarray.kernels.reading.preview import Preview, preview_file
from disarray.model.description.dataset_reader import read_datasets
from disarray.model.description.spec_table import Problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.model.description.dataset import Dataset

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(scope="session")
def shipped() -> dict[str, Description]:
    return shipped_descriptions()


def dataset_of(described: Mapping[str, object], root: Path, **own: object) -> Dataset:
    """A dataset of the format that `described` is, for every file below the root."""
    table = {
        "name": "tested",
        "roots": [str(root)],
        "files": ["**"],
        "subject": {"constant": "TESTED"},
        **own,
    }
    problems = Problems("disarray.toml")
    (dataset,) = read_datasets(
        {"dataset": [table | {"format": dict(described)}]}, problems=problems, descriptions={}, folder=root
    )
    problems.raise_if_any()
    return dataset


def read_quiet(dataset: Dataset, path: Path) -> Preview:
    """The readings of a file that has come to rest."""
    request = ReadRequest.for_dataset(
        dataset, str(path), reason=ReadReason.QUIET, now_us=time.time_ns() // 1_000, stored=None
    )
    return preview_file(request)
