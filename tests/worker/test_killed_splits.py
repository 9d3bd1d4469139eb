"""A worker is killed between every two steps of a split, and again when it tries again: the numbers are the same."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.forked import live
from tests.plant import Plant
from tests.worker.split_plant import HEADER, SPLIT, assert_sound, mixed, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.postgres

# Steps on the way of the file itself, and of its parts. Where the file or the subject is named, it is the one that
# is split, or one that a part of it is about.
SPLITS = (
    pytest.param("read.before", marks=pytest.mark.long),
    "read.file",
    "read.mid",
    "read.written",
    "read.after",
    pytest.param("plan.after", marks=pytest.mark.long),
    pytest.param("scan.after", marks=pytest.mark.long),
    "commit.before_begin[tools/]",
    "commit.begun[tools/]",
    "commit.stated[tools/]",
    "commit.before_commit[tools/]",
    "commit.after_commit[tools/]",
    pytest.param("commit.before_begin[TOOL02]", marks=pytest.mark.long),
    pytest.param("commit.begun[TOOL02]", marks=pytest.mark.long),
    "commit.stated[TOOL02]",
    "commit.before_commit[TOOL02]",
    "commit.after_commit[TOOL02]",
)
FIRST, MORE = mixed(range(0, 60, 5)), mixed(range(60, 120, 5), tools=("TOOL01", "TOOL02", "TOOL04"))


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory, shared_dsn: str) -> Iterator[Plant]:
    """One plant for all points."""
    built = Plant(tmp_path_factory.mktemp("plant"), shared_dsn, description=SPLIT)
    yield built
    built.pool.close()


@pytest.fixture(scope="module")
def expected(plant: Plant) -> dict[str, list[tuple[object, ...]]]:
    """The numbers of a run in which nobody dies."""
    plant.forget_everything()
    plant.ingest(plant.write("all.csv", HEADER + text_of([*FIRST, *MORE])))
    return plant.derived()


def drain(dsn: str, root: Path) -> None:
    """A worker's life."""
    plant = Plant(root, dsn, description=SPLIT)
    plant.drain()
    plant.pool.close()


@pytest.mark.parametrize("point", SPLITS)
def test_a_split_that_is_killed_twice_gives_the_same_numbers(
    plant: Plant,
    shared_dsn: str,
    expected: dict[str, list[tuple[object, ...]]],
    point: str,
) -> None:
    plant.forget_everything()
    path = plant.write("all.csv", HEADER + text_of(FIRST))
    root, kills = plant.inbox.parent, 0
    for more in ([], MORE):
        with path.open("a") as stream:
            stream.write(text_of(more))
        plant.notify(path)
        # The first attempt, and the retry.
        armed = {"DISARRAY_FAILPOINTS": f"{point}=kill"}
        kills += sum(live(drain, shared_dsn, root, **armed) == -signal.SIGKILL for _ in range(2))
    assert kills >= 2
    assert live(drain, shared_dsn, root) == 0
    assert plant.derived() == expected
    assert_sound(plant)
