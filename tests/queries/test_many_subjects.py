"""More subjects than one page of them: whoever counts all, copies all or shows the last ones leaves none out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.control import values
from disarray.formats.loader import load_datasets
from disarray.queries.datasets import list_datasets, stored_datasets
from disarray.queries.names import find_subjects
from disarray.queries.subjects import list_subject_states
from disarray.store.registering import register_all

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset

pytestmark = pytest.mark.postgres

DATASET = """
[[dataset]]
name = "{name}"
roots = ["inbox"]
files = ["{name}/*.csv"]
format = "csv"
subject = {{ path = '^(?P<subject>[^/]+)/' }}
event_time = {{ from = "time", layouts = ["iso"] }}
zone = "UTC"
segment = "1 h"
key = []
[dataset.columns.good]
type = "int64"
"""
COUNT = 10_001


def fill(connection: Connection, *, dataset: str, first: int, last: int) -> None:
    """Subjects with the numbers from `first` to `last` that have readings."""
    connection.execute(
        """
        insert into disarray.subject (subject_key, first_seen_at)
        select 'S' || lpad(number::text, 5, '0'), now()
        from generate_series(%(first)s::integer, %(last)s) as number
        on conflict do nothing
        """,
        {"first": first, "last": last},
    )
    connection.execute(
        """
        insert into disarray.segment (
            dataset, subject_key, segment_us, segment_end_us, revision, readings, duplicates, conflicts,
            first_us, last_us, digest, scan_version, run_id
        )
        select %(dataset)s, 'S' || lpad(number::text, 5, '0'), 0, 1, 1, 1, 0, 0, number, number, '', '',
            gen_random_uuid()
        from generate_series(%(first)s::integer, %(last)s) as number
        """,
        {"dataset": dataset, "first": first, "last": last},
    )


@pytest.fixture
def described(connection: Connection, tmp_path: Path) -> dict[str, Dataset]:
    """Two datasets; the second has readings of the last of many subjects alone."""
    path = tmp_path / "disarray.toml"
    path.write_text("".join(DATASET.format(name=name) for name in ("a", "b")))
    datasets = load_datasets(path)
    register_all(connection, datasets)
    fill(connection, dataset="a", first=1, last=COUNT)
    fill(connection, dataset="b", first=COUNT, last=COUNT)
    return {each.name: each for each in datasets}


@pytest.mark.parametrize("page", [1, 2, 3, 100])
@pytest.mark.parametrize("dataset", [None, "a"])
def test_pages_together_are_all_subjects(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, page: int, dataset: str | None
) -> None:
    fill(connection, dataset="a", first=1, last=6)
    fill(connection, dataset="b", first=2, last=4)
    monkeypatch.setattr(values, "PAGE_SUBJECTS", page)
    whole = values.list_subjects(connection, dataset=dataset)
    assert len(whole) == (6 if dataset else 9)
    assert list(values.all_subjects(connection, dataset=dataset)) == whole


def test_all_subjects_of_a_dataset_are_counted(connection: Connection, described: dict[str, Dataset]) -> None:
    found = list_datasets(connection, described).datasets
    assert [(each.dataset, each.subjects) for each in found] == [("a", COUNT), ("b", 1)]


def test_a_dataset_that_the_last_subject_alone_has_is_found(
    connection: Connection, described: dict[str, Dataset]
) -> None:
    assert sorted(stored_datasets(connection)) == sorted(described)


def test_whoever_names_no_subject_means_all(connection: Connection, described: dict[str, Dataset]) -> None:
    assert len(find_subjects(connection, described, dataset="a")) == COUNT


def test_the_last_page_of_states_has_the_spans_of_its_subjects(
    connection: Connection, described: dict[str, Dataset]
) -> None:
    first = list_subject_states(connection, limit=COUNT - 2)
    assert [sorted(each.datasets) for each in first.subjects] == [["a"]] * (COUNT - 2)
    last = list_subject_states(connection, after=first.next)
    assert [(each.subject_key, sorted(each.datasets)) for each in last.subjects] == [
        ("S10000", ["a"]),
        ("S10001", ["a", "b"]),
    ]
