"""Files that disagree under one key: which reading counts, and who is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.control import blacklist, conflicts, files, quarantine
from disarray.control.files import Reason
from disarray.control.status import queue_status
from disarray.errors import SpecError
from disarray.formats.loader import load_datasets
from disarray.worker.passes.rehearsal import rehearse_release
from disarray.worker.passes.report import Arrival
from tests.plant import Plant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.postgres

DESCRIPTION = """
[[dataset]]
name = "tools"
roots = ["inbox"]
files = ["**/*.csv"]
format = "csv"
subject = {{ path = '^(?P<subject>[^/]+)/' }}
event_time = {{ from = "time", layouts = ["iso"] }}
zone = "UTC"
segment = "1 h"
key = ["part"]
{options}
[dataset.columns.part]
type = "int64"
[dataset.columns.watts]
type = "float64"
[dataset.columns.revision]
type = "int64"
[dataset.metrics.total]
kind = "sum"
input = "watts"
"""
HEADER = "time,part,watts,revision\n"


@pytest.fixture
def plant_with(tmp_path: Path, dsn: str) -> Iterator[Callable[[str], Plant]]:
    """A plant whose dataset has these options besides a key."""
    built: list[Plant] = []

    def build(options: str) -> Plant:
        built.append(Plant(tmp_path, dsn, description=DESCRIPTION.format(options=options)))
        return built[-1]

    yield build
    for plant in built:
        plant.pool.close()


def line(minute: int, part: int, watts: float, revision: int = 0) -> str:
    return f"2026-10-01T00:{minute:02d}:00Z,{part},{watts},{revision}\n"


def total(plant: Plant) -> object:
    [(found,)] = plant.rows("select sum(total_float) from disarray.segment_metric")
    return found


def listed(plant: Plant) -> list[tuple[str, str, int]]:
    with plant.pool.connection() as connection:
        return [
            (each.winner_uri.rsplit("/", 1)[-1], each.loser_uri.rsplit("/", 1)[-1], each.conflicts)
            for each in conflicts.list_conflicts(connection)
        ]


def test_a_correction_whose_name_sorts_earlier_is_told_as_a_conflict(
    plant_with: Callable[[str], Plant],
) -> None:
    plant = plant_with("")
    plant.ingest(plant.write("T1/report.csv", HEADER + line(1, 7, 5.0) + line(2, 7, 6.0)))
    correction = plant.write("T1/correction.csv", HEADER + line(1, 7, 4.0) + line(2, 7, 6.0))
    [report] = plant.ingest(correction)
    [committed] = report.committed
    assert (committed.arrival, committed.conflicts) == (Arrival.NOTHING_NEW, (0, 1))
    assert total(plant) == 11.0
    with plant.pool.connection() as connection:
        [found] = conflicts.list_conflicts(connection, subject_key="T1")
        known = files.describe_file(connection, str(correction))
        status = queue_status(connection)
    assert (found.winner_uri.endswith("report.csv"), found.loser_uri) == (True, str(correction))
    [example] = found.examples
    assert (example["key_values"], example["differences"]) == ("[7]", {"watts": [5.0, 4.0]})
    assert known is not None
    assert known["conflicts"] == {"won": 0, "lost": 1, "segments": 1}
    assert status["conflicts"] == {"readings": 1, "pairs_of_files": 1}


def test_the_file_that_was_announced_later_wins_whatever_its_name_and_however_often_it_comes(
    plant_with: Callable[[str], Plant],
) -> None:
    plant = plant_with('conflict = "arrival"')
    report = plant.write("T1/report.csv", HEADER + line(1, 7, 5.0))
    correction = plant.write("T1/correction.csv", HEADER + line(1, 7, 4.0) + line(2, 7, 1.0))
    plant.ingest(report)
    plant.ingest(correction)
    assert total(plant) == 5.0
    assert listed(plant) == [("correction.csv", "report.csv", 1)]
    # Announced again, and grown: it was first announced before the correction.
    report.write_text(report.read_text() + line(2, 7, 9.0))
    plant.ingest(report)
    assert total(plant) == 5.0
    assert listed(plant) == [("correction.csv", "report.csv", 2)]
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(correction), "T1", reason="doubt", by="ada")
    plant.drain()
    assert (total(plant), listed(plant)) == (14.0, [])
    with plant.pool.connection() as connection:
        blacklist.allow_file(connection, str(correction), reason="no doubt", by="ada")
    plant.drain()
    assert total(plant) == 5.0


def test_the_greater_value_in_a_column_wins_and_ties_go_by_path(plant_with: Callable[[str], Plant]) -> None:
    plant = plant_with('conflict = { newest = "revision" }')
    plant.ingest(plant.write("T1/b.csv", HEADER + line(1, 7, 5.0, 1) + line(2, 7, 6.0, 1)))
    plant.ingest(plant.write("T1/a.csv", HEADER + line(1, 7, 4.0, 2) + line(2, 7, 3.0, 1)))
    assert total(plant) == 4.0 + 6.0
    assert listed(plant) == [("a.csv", "b.csv", 1), ("b.csv", "a.csv", 1)]


def test_what_contradicts_readings_that_count_waits_and_the_rest_of_its_file_flows_on(
    plant_with: Callable[[str], Plant],
) -> None:
    plant = plant_with('conflict = "park"')
    plant.ingest(plant.write("T1/b.csv", HEADER + line(1, 7, 5.0) + line(2, 7, 6.0)))
    later = HEADER + line(1, 7, 4.0) + line(3, 7, 1.5) + "2026-10-01T01:30:00Z,7,2.0,0\n"
    path = plant.write("T1/c.csv", later)
    plant.ingest(path)
    assert (total(plant), listed(plant)) == (13.0, [])
    with plant.pool.connection() as connection:
        [waiting] = quarantine.list_quarantine(connection)
        assert (waiting.why, waiting.readings) == ("contradicts readings that count", 2)
        [rehearsed] = rehearse_release(
            connection, waiting, datasets=plant.datasets, lake=plant.place.lake
        ).plans
        quarantine.release_file(connection, str(path), reason="corrected", by="ada")
    plant.drain()
    assert total(plant) == 4.0 + 6.0 + 1.5 + 2.0
    assert rehearsed.impact.frontier_us is not None
    assert listed(plant) == [("c.csv", "b.csv", 1)]
    # Decided once: read again, it goes on counting.
    plant.ingest(path, reason=Reason.REINGEST)
    assert (total(plant), listed(plant)) == (13.5, [("c.csv", "b.csv", 1)])


def test_of_two_that_come_together_what_was_announced_later_waits(
    plant_with: Callable[[str], Plant],
) -> None:
    plant = plant_with('conflict = "park"')
    first = plant.write("T1/z.csv", HEADER + line(1, 7, 5.0))
    second = plant.write("T1/a.csv", HEADER + line(1, 7, 4.0))
    same = plant.write("T1/s.csv", HEADER + line(1, 7, 5.0) + line(2, 7, 1.0))
    plant.notify(first)
    plant.notify(second)
    plant.notify(same)
    plant.drain()
    assert total(plant) == 6.0
    with plant.pool.connection() as connection:
        assert [each.source_uri for each in quarantine.list_quarantine(connection)] == [str(second)]


def test_another_rule_is_another_definition_and_the_same_files_give_its_numbers(
    plant_with: Callable[[str], Plant],
) -> None:
    plant = plant_with("")
    plant.ingest(plant.write("T1/b.csv", HEADER + line(1, 7, 5.0, 1)))
    plant.ingest(plant.write("T1/a.csv", HEADER + line(1, 7, 4.0, 2)))
    before = plant.datasets["tools"]
    assert total(plant) == 5.0
    for rule in ('conflict = "arrival"', 'conflict = { newest = "revision" }'):
        plant.redefine(DESCRIPTION.format(options=rule))
        plant.drain()
        assert total(plant) == 4.0
        assert plant.datasets["tools"].scan_version != before.scan_version
        plant.redefine(DESCRIPTION.format(options='conflict = "path"'), is_on_purpose=True)
        plant.drain()
        assert total(plant) == 5.0
    assert plant.datasets["tools"].scan_version == before.scan_version


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("priority = 2", "conflict says which file wins"),
        ('conflict = "whim"', "'path', 'arrival', 'park' or"),
        ('conflict = { newest = "nothing" }', "expected the name of a column"),
        ('conflict = { newest = "part" }', "part of the key"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(tmp_path: Path, options: str, complaint: str) -> None:
    path = tmp_path / "disarray.toml"
    path.write_text(DESCRIPTION.format(options=options))
    with pytest.raises(SpecError, match=complaint):
        load_datasets(path)


def test_under_the_key_of_all_columns_nothing_can_disagree(tmp_path: Path) -> None:
    path = tmp_path / "disarray.toml"
    path.write_text(DESCRIPTION.format(options='conflict = "arrival"').replace('key = ["part"]\n', ""))
    with pytest.raises(SpecError, match="only under a key of columns"):
        load_datasets(path)
