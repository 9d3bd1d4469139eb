"""However lines come in, in whatever order, growing or twice: the bits are those of one file for each subject."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.plant import Plant
from tests.worker.split_plant import APART, HEADER, SPLIT, assert_sound, text_of, write_apart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.databases import Databases
    from tests.worker.split_plant import Line

pytestmark = pytest.mark.postgres
SETTINGS = settings(
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
KEYS = ("[]", '"content"', '["good"]')


@pytest.fixture(scope="module")
def plants(
    tmp_path_factory: pytest.TempPathFactory, databases: Databases, template_database: str
) -> Iterator[tuple[Plant, Plant]]:
    """One plant whose files are about several subjects, and one that has a file for each."""
    names = [databases.create(template=template_database) for _ in range(2)]
    built = [
        Plant(tmp_path_factory.mktemp("plant"), databases.dsn(name), description=description)
        for name, description in zip(names, (SPLIT, APART), strict=True)
    ]
    yield built[0], built[1]
    for plant, name in zip(built, names, strict=True):
        plant.pool.close()
        databases.discard(name)


@settings(SETTINGS, max_examples=3)
@given(seed=st.integers(0, 2**32))
def test_some_arrivals_of_mixed_files_give_the_bits_of_files_apart(
    plants: tuple[Plant, Plant], seed: int
) -> None:
    check(plants, seed)


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(SETTINGS, max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_any_arrival_of_mixed_files_gives_the_bits_of_files_apart(
    plants: tuple[Plant, Plant], seed: int
) -> None:
    check(plants, seed)


def check(plants: tuple[Plant, Plant], seed: int) -> None:
    split, apart = plants
    chance = random.Random(seed)
    key = chance.choice(KEYS)
    for plant, description in ((split, SPLIT), (apart, APART)):
        plant.forget_everything()
        plant.redefine(description.replace("key = []", f"key = {key}"), is_on_purpose=True)
    contents = {f"f{number}.csv": some_lines(chance) for number in range(chance.randint(1, 4))}
    # A copy of one of them, under a name before or after it.
    copied = chance.choice(sorted(contents))
    contents[chance.choice(["a-copy.csv", "z-copy.csv"])] = contents[copied]
    steps = [(name, cut) for name, lines in contents.items() for cut in cuts(chance, len(lines))]
    chance.shuffle(steps)
    seen: dict[str, int] = {}
    for name, cut in steps:
        # A file never shrinks: a step that is behind comes again unchanged.
        seen[name] = max(seen.get(name, 0), cut)
        split.notify(split.write(name, HEADER + text_of(contents[name][: seen[name]])))
        if chance.random() < 0.6:
            split.drain()
    for name, lines in contents.items():
        split.notify(split.write(name, HEADER + text_of(lines)))
    split.drain()
    for name, lines in contents.items():
        apart.notify(*write_apart(apart, name, lines))
    apart.drain()
    assert split.derived() == apart.derived(), seed
    assert_sound(split)


def some_lines(chance: random.Random) -> list[Line]:
    """Lines of a few tools, out of order, some of them twice."""
    lines = [
        (f"TOOL{chance.randint(1, 4):02d}", chance.randint(0, 300), float(chance.randint(0, 3)))
        for _ in range(chance.randint(5, 60))
    ]
    return [*lines, *chance.sample(lines, len(lines) // 4)]


def cuts(chance: random.Random, length: int) -> list[int]:
    """After how many lines the file is looked at."""
    return [*sorted(chance.randint(0, length) for _ in range(chance.randint(0, 3))), length]
