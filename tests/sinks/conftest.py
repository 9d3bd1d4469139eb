"""Databases for targets, hooks and who they tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sinks.hook_plant import HookPlant
from tests.sinks.object_store import ACCESS, KEYS, SECRET, ObjectStore
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


@pytest.fixture(scope="session")
def started_object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    store = ObjectStore(tmp_path_factory.mktemp("s3"))
    store.start()
    yield store
    store.kill()


@pytest.fixture
def object_store(started_object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """A real S3 server, and the keys of who may load into it."""
    for variable, value in zip((ACCESS, SECRET), KEYS["loader"], strict=True):
        monkeypatch.setenv(variable, value)
    return started_object_store


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
