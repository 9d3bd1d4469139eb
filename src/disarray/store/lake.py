"""Where fragments lie: Parquet files under one root, named so that no two runs can ever meet."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from disarray.errors import FragmentWriteError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

# What `new_file` and `scratch_folder` make, below the root. Housekeeping deletes nothing else.
FRAGMENT_FILE = re.compile(
    r"(?P<dataset>[^/]+)/(?P<shard>[0-9a-f]{2})/(?P=shard)[0-9a-f]{30}-[0-9]{5,}\.parquet"
)
SCRATCH_PREFIX = "scratch-"
SCRATCH_FOLDER = re.compile(SCRATCH_PREFIX + r"[a-z0-9_]{8}")


@dataclass(frozen=True)
class Lake:
    """A folder of fragment files. What it holds is visible only through the catalog, which keeps relative paths."""

    root: Path

    def new_file(self, dataset: str, run_id: UUID, number: int) -> str:
        """An absolute path for one task's fragments; its folder exists and is durable."""
        folder = self.root / dataset / run_id.hex[:2]
        try:
            make_durable_folder(folder)
        except OSError as error:
            raise FragmentWriteError.at(folder, error) from error
        return str(folder / f"{run_id.hex}-{number:05d}.parquet")

    @contextmanager
    def scratch_folder(self) -> Iterator[Path]:
        """A folder that every executor can reach, gone after the block; one whose maker died is swept away later."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            folder = tempfile.TemporaryDirectory(prefix=SCRATCH_PREFIX, dir=self.root)
        except OSError as error:
            raise FragmentWriteError.at(self.root, error) from error
        with folder as path:
            yield Path(path)

    @contextmanager
    def scratch_path(self) -> Iterator[Path]:
        """As `scratch_folder`, but made by the first task that puts something there: most passes have nothing."""
        folder = self.root / f"{SCRATCH_PREFIX}{uuid.uuid4().hex[:8]}"
        try:
            yield folder
        finally:
            if folder.exists():
                shutil.rmtree(folder, ignore_errors=True)

    def relative(self, path: str) -> str:
        """The path as the catalog keeps it."""
        return _relative(path, self.root)

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


@lru_cache(maxsize=256)
def _relative(path: str, root: Path) -> str:
    # Thousands of fragments of a pass lie in a few files.
    return str(Path(path).relative_to(root))


def make_durable_folder(folder: Path) -> None:
    """Make a folder and those above it, so that a power cut takes none of them."""
    if folder.is_dir():
        return
    make_durable_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    # The name of a folder is data of its parent: without this a power cut can take the folder and keep the commit.
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
