"""Small disks that fill up."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def tiny_disk(folder: Path, *, size: str) -> Iterator[Path]:
    """A file system of its own that holds next to nothing."""
    if os.geteuid() != 0:
        pytest.skip("a disk of its own can be mounted by root alone")
    folder.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def grow_disk(folder: Path, *, size: str) -> None:
    """Somebody makes room."""
    subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)


def fill_disk(folder: Path) -> None:
    """Leave room for nothing: the disk is as large as what is on it."""
    grow_disk(folder, size=str(shutil.disk_usage(folder).used))
