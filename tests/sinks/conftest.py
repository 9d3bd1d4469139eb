"""Databases for targets, hooks and who they tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sinks.hook_plant import HookPlant
from tests.sinks.receivers import http_receiver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.databases import Databases
    from tests.sinks.receivers import Receiver


@pytest.fixture
def target_dsn(databases: Databases) -> Iterator[str]:
    """Another database on the same server, with nothing in it."""
    name = databases.create()
    yield databases.dsn(name)
    databases.discard(name)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A real HTTP server."""
    with http_receiver() as server:
        yield server


@pytest.fixture
def make_plant(tmp_path: Path, dsn: str) -> Iterator[Callable[[str], HookPlant]]:
    """Makes a plant with hooks."""
    built: list[HookPlant] = []

    def make(hooks: str) -> HookPlant:
        built.append(HookPlant(tmp_path, dsn, hooks))
        return built[-1]

    yield make
    for plant in built:
        plant.pool.close()
