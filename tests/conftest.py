"""The PostgreSQL that all tests share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from disarray.control import embedded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def server_dsn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A superuser's DSN: of DISARRAY_TEST_DSN, or of an embedded server that ends with this test process."""
    if given := os.environ.get("DISARRAY_TEST_DSN"):
        yield given
        return
    state = tmp_path_factory.mktemp("server")
    try:
        yield embedded.start(state).dsn
    finally:
        embedded.stop(state)


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    """A state folder that does not exist yet, and whose server is surely gone after the test."""
    state = tmp_path / "project" / ".disarray"
    yield state
    embedded.stop(state)
