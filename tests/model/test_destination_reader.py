"""Destinations as they are written: every fault is named at once, and no secret is repeated."""

from __future__ import annotations

import tomllib
from pathlib import PurePath
from typing import TYPE_CHECKING

import pytest

from disarray.errors import ConfigError, SpecError
from disarray.formats.loader import load_datasets
from disarray.model.description.destination import Content, DeltaTarget, Load, TableTarget
from disarray.model.description.destination_reader import read_destinations
from disarray.model.description.secret import SecretSource
from disarray.model.description.spec_table import Problems
from disarray.sinks.destination_shape import shape_of
from tests.worker.deliveries import DATASET

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.destination import Destination

GOOD = """
[[destination]]
name = "hourly"
rollup = "line.quarter"
database = "same"
table = "plant.hourly"
"""


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    folder: Path = tmp_path_factory.mktemp("project")
    (folder / "inbox").mkdir()
    (folder / "disarray.toml").write_text(DATASET % {"key": ""})
    return {each.name: each for each in load_datasets(folder / "disarray.toml")}


def read(text: str, datasets: dict[str, Dataset]) -> tuple[Destination, ...]:
    problems = Problems("disarray.toml")
    found = read_destinations(
        tomllib.loads(text), problems=problems, datasets=datasets, folder=PurePath("/plant")
    )
    problems.raise_if_any()
    return found


def test_what_is_not_written_has_its_default(datasets: dict[str, Dataset]) -> None:
    [found] = read(GOOD, datasets)
    assert (found.content, found.load, found.subjects) == (Content.ROLLUP, Load.UPSERT, ("*",))
    assert found.target == TableTarget("plant", "hourly")
    assert not found.creates


def test_paths_count_from_the_file_and_delta_is_made_and_replaced(datasets: dict[str, Dataset]) -> None:
    table, delta = read(
        """
        [[destination]]
        name = "energy"
        metric = "line.energy"
        every = "15 min"
        url = { file = "secrets/url" }
        table = "plant.energy"
        load = "append"
        [[destination]]
        name = "raw"
        readings = "line"
        delta = "published/raw"
        """,
        datasets,
    )
    assert table.target == TableTarget("plant", "energy", SecretSource(file="/plant/secrets/url"))
    assert table.every_us == 900_000_000
    assert delta.target == DeltaTarget("/plant/published/raw")
    assert (delta.load, delta.creates) == (Load.REPLACE, True)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (('"line.quarter"', '"lime.quarter"'), "there is no dataset 'lime'; did you mean 'line'?"),
        (('"line.quarter"', '"line.quater"'), "did you mean 'quarter'?"),
        (('rollup = "line.quarter"', 'newest = "line.quarter"'), "expected a dataset alone"),
        (('rollup = "line.quarter"', ""), "exactly one of readings, rollup, metric and newest"),
        (('rollup = "line.quarter"', 'metric = "line.energy"'), "exactly where a metric is loaded"),
        (('rollup = "line.quarter"', 'metric = "line.energy"\nevery = "50 min"'), "divides the day evenly"),
        (('database = "same"', ""), "exactly one of url"),
        (('database = "same"', 'url = "postgresql://u:hidden@h/d"'), "never written here"),
        (('"plant.hourly"', '"hourly"'), "a table as 'schema.name'"),
        (('"plant.hourly"', '"disarray.hourly"'), "outside of the schemas disarray"),
        (("name =", "nam ="), "did you mean 'name'?"),
        (("database =", 'load = "upsrt"\ndatabase ='), "did you mean 'upsert'?"),
        (('database = "same"\ntable = "plant.hourly"', 'delta = "x"\nload = "append"'), "expected 'replace'"),
        (('database = "same"\ntable = "plant.hourly"', 'delta = "s3://plant/y"'), "access_key"),
        (('database = "same"\ntable = "plant.hourly"', 'delta = "gs://plant/y"'), "or 's3://bucket/path'"),
        (("database =", 'keep_superseded = "1 d"\ndatabase ='), "for load = 'append' alone"),
    ],
)
def test_a_fault_is_told_with_what_was_probably_meant(
    datasets: dict[str, Dataset], change: tuple[str, str], fault: str
) -> None:
    text = GOOD.replace(*change)
    assert text != GOOD
    with pytest.raises(SpecError) as refused:
        read(text, datasets)
    assert fault in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_two_destinations_have_two_names_and_two_targets(datasets: dict[str, Dataset]) -> None:
    with pytest.raises(SpecError) as refused:
        read(GOOD + GOOD, datasets)
    assert "a name of its own" in str(refused.value)
    assert "is the target of another destination" in str(refused.value)


def test_mapped_columns_are_all_that_is_loaded_and_have_to_suffice(datasets: dict[str, Dataset]) -> None:
    names = {
        "tool": "subject_key",
        "sensor": "channel",
        "hour": "bucket_start",
        "n": "good",
        "seq": "commit_seq",
    }
    mapped = f"columns = {{ {', '.join(f'{theirs} = {ours!r}' for theirs, ours in names.items())} }}\n"
    [found] = read(GOOD + mapped, datasets)
    assert shape_of(found).loaded.names == [*names.values()]
    [lacking] = read(GOOD + 'columns = { tool = "subject_key", hour = "bucket_start" }\n', datasets)
    with pytest.raises(ConfigError, match="needs channel, commit_seq as well"):
        shape_of(lacking)
    [unknown] = read(GOOD + 'columns = { tool = "subject_kee" }\n', datasets)
    with pytest.raises(ConfigError, match="did you mean 'subject_key'"):
        shape_of(unknown)
