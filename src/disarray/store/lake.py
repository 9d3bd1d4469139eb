"""Where fragments lie: Parquet files under one root, named so that no two runs can ever meet."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID


@dataclass(frozen=True)
class Lake:
    """A folder of fragment files. What it holds is visible only through the catalog, which keeps relative paths."""

    root: Path

    def new_file(self, dataset: str, run_id: UUID, number: int) -> str:
        """An absolute path for one task's fragments; its folder exists and is durable."""
        folder = self.root / dataset / run_id.hex[:2]
        _make_durable_folder(folder)
        return str(folder / f"{run_id.hex}-{number:05d}.parquet")

    def relative(self, path: str) -> str:
        """The path as the catalog keeps it."""
        return str(Path(path).relative_to(self.root))

    def absolute(self, path: str) -> str:
        """The path as a kernel opens it."""
        return str(self.root / path)


@dataclass(frozen=True)
class ScratchLake(Lake):
    """A lake whose new files go elsewhere: what it holds can be read, what is written can be thrown away."""

    scratch: Path

    def new_file(self, dataset: str, run_id: UUID, number: int) -> str:
        """An absolute path in the scratch folder."""
        return Lake(self.scratch).new_file(dataset, run_id, number)

    def relative(self, path: str) -> str:
        """The path as it is: below no root, `absolute` leaves it alone."""
        return path


def _make_durable_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_durable_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    # The name of a folder is data of its parent: without this a power cut can take the folder and keep the commit.
    descriptor = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
