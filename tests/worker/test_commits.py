"""One transaction per subject: what it leaves alone, and what becomes of it when nobody hears how it ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from disarray.errors import DatabaseUnavailableError
from tests.plant import Plant
from tests.wire import Cut, Wire
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.postgres

START = datetime(2025, 10, 1, tzinfo=UTC)

# What may differ after a file was looked at and found unchanged: that somebody looked, and when.
BOOKKEEPING = {
    "disarray.file_info": {"last_seen_at", "process_count", "metadata.change", "metadata.run_id"},
    "disarray.subject": {"live_served_at", "live_turn_at"},
    "disarray.instance": {"last_seen_at", "turn_count"},
}
# Counted, so that the hour in which it happened makes no difference.
COUNTED = {"disarray.figure": {"commits", "files_unchanged"}}
# Tables in which each look leaves rows: the events of the file, and the run that found nothing to do.
LOGS = {"disarray.ingest_event", "disarray.run"}


def report(hour: int, *, rows: int = 12, ending: str = "\n") -> str:
    lines = [
        f"{(START + timedelta(hours=hour, minutes=5 * row)).isoformat()},{hour * 0.1 + row / 7},{row}{ending}"
        for row in range(rows)
    ]
    return f"time,watts,good{ending}" + "".join(lines)


@pytest.fixture
def wire(dsn: str) -> Iterator[Wire]:
    """A wire to the test's database."""
    with Wire(dsn) as opened:
        yield opened


@pytest.fixture
def remote_plant(tmp_path: Path, wire: Wire) -> Iterator[Plant]:
    """A small plant whose database is at the other end of a wire."""
    built = Plant(tmp_path, wire.dsn, description=DATASET)
    yield built
    built.pool.close()


def test_a_commit_whose_answer_is_lost_is_found_by_its_run_and_not_done_again(
    remote_plant: Plant, wire: Wire
) -> None:
    remote_plant.ingest(remote_plant.write("T1/0.csv", report(0)))
    wire.armed = Cut.AFTER_COMMIT
    [report_] = remote_plant.ingest(remote_plant.write("T1/1.csv", report(1)))
    assert wire.cuts == 1
    assert len(report_.completed) == 1
    assert remote_plant.rows("select count(*) from disarray.run") == [(2,)]
    assert remote_plant.rows("select count(*) from disarray.fragment") == [(2,)]
    assert remote_plant.rows("select status::text from disarray.file_info") == [("processed",)] * 2


def test_a_commit_that_never_arrived_is_done_once_by_the_next_pass(remote_plant: Plant, wire: Wire) -> None:
    path = remote_plant.write("T1/0.csv", report(0))
    wire.armed = Cut.BEFORE_COMMIT
    with pytest.raises(DatabaseUnavailableError):
        remote_plant.ingest(path)
    assert wire.cuts == 1
    assert remote_plant.rows("select count(*) from disarray.run") == [(0,)]
    remote_plant.drain()
    assert remote_plant.rows("select count(*) from disarray.run") == [(1,)]
    assert remote_plant.rows("select readings from disarray.segment") == [(12,)]


def test_a_file_that_is_rendered_anew_makes_nothing_stale_and_restates_nothing(plant: Plant) -> None:
    path = plant.write("T1/0.csv", report(0))
    plant.ingest(path, plant.write("T1/9.csv", report(9)))
    before = plant.derived()
    ranges = plant.rows("select count(*) from disarray.dirty_range")
    path.write_bytes(report(0, ending="\r\n").encode())
    [pass_] = plant.ingest(path)
    assert [(each.change.frontier_us, each.change.segments_changed) for each in pass_.committed] == [
        (None, 0)
    ]
    assert plant.derived() == before
    assert plant.rows("select count(*) from disarray.dirty_range") == ranges
    assert plant.rows("select count(*) from disarray.restatement") == [(0,)]


def test_replaying_a_file_a_hundred_times_changes_nothing_but_that_somebody_looked(plant: Plant) -> None:
    paths = [plant.write(f"T1/{hour}.csv", report(hour)) for hour in (0, 1, 5)]
    plant.ingest(paths[0], paths[2])
    plant.ingest(paths[1])
    before = tables(plant)
    for number in range(100):
        plant.ingest(paths[number % 3])
    after = tables(plant)
    assert before.keys() == after.keys()
    for table in before:
        if table in LOGS:
            assert all(row in after[table] for row in before[table])
            continue
        if table in COUNTED:
            sums = [totals(rows[table]) for rows in (before, after)]
            assert differing(*sums) <= COUNTED[table]
            continue
        ignored = BOOKKEEPING.get(table, set())
        for left, right in zip(before[table], after[table], strict=True):
            changed = differing(left, right)
            assert changed <= ignored, f"{table}: {changed - ignored}"


def totals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The sum of every column of numbers."""
    names = {name for row in rows for name, value in row.items() if isinstance(value, int | float)}
    return {name: sum(row[name] or 0 for row in rows) for name in names}


def differing(left: dict[str, Any], right: dict[str, Any]) -> set[str]:
    """The columns that differ; of metadata, the keys."""
    found = {name for name in left.keys() | right.keys() if left.get(name) != right.get(name)}
    if "metadata" in found:
        found.remove("metadata")
        found |= {f"metadata.{name}" for name in differing(left["metadata"], right["metadata"])}
    return found


def tables(plant: Plant) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, in a fixed order."""
    names = plant.rows(
        """
        select format('%I.%I', schemaname, tablename) from pg_tables
        where schemaname in ('disarray', 'telemetry') and tablename not like 'ingest_event\\_%'
        """
    )
    found: dict[str, list[Any]] = {
        str(name): [
            row for (row,) in plant.rows(f'select to_jsonb(t) from {name} as t order by t::text collate "C"')
        ]
        for (name,) in names
    }
    return found


def test_a_total_that_the_database_cannot_hold_fails_its_file_and_no_other(plant: Plant) -> None:
    lines = ["2025-10-01T00:58:00Z,1.5e308,1\n", "2025-10-01T01:02:00Z,1.5e308,1\n"]
    first, second = (
        plant.write(f"T1/{number}.csv", "time,watts,good\n" + line) for number, line in enumerate(lines)
    )
    plant.ingest(first)
    reports = plant.ingest(second, plant.write("T1/9.csv", report(9)))
    assert [len(pass_.failed) for pass_ in reports] == [1]
    assert plant.rows("select status::text from disarray.file_info order by source_uri") == [
        ("processed",),
        ("pending",),
        ("processed",),
    ]
    assert plant.rows("select count(*) from disarray.segment") == [(2,)]
