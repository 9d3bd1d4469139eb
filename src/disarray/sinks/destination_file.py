"""The destinations of a project, from its disarray.toml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.config import read_toml
from disarray.model.description.destination_reader import read_destinations
from disarray.model.description.spec_table import Problems
from disarray.sinks.destination_shape import shape_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.destination import Destination


def load_destinations(path: Path, datasets: Mapping[str, Dataset]) -> tuple[Destination, ...]:
    """The `[[destination]]` tables of a file, validated as a whole; relative paths count from the file."""
    try:
        _, document = read_toml(path, shown=str(path))
    except FileNotFoundError:
        return ()
    problems = Problems(str(path))
    folder = path.absolute().parent
    found = read_destinations(document, problems=problems, datasets=datasets, folder=folder)
    problems.raise_if_any()
    for each in found:
        shape_of(each)  # refuses columns that cannot be mapped
    return found
