"""A file whose subject or dataset is another now counts for the one that it is about, once, and both sides say so."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from psycopg import sql

from disarray.control import blacklist, files, instances, moving_files, quarantine, values
from disarray.control.files import Reason
from disarray.formats.loader import load_datasets
from disarray.store.audit.audit import AuditSettings, audit
from disarray.store.registering import register_all
from disarray.worker.passes import portions
from disarray.worker.process.scheduler import Scheduler
from tests.plant import Plant
from tests.worker.test_damaged_lake import damage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from disarray.worker.passes.report import PassReport

pytestmark = pytest.mark.postgres

START = datetime(2026, 10, 1, tzinfo=UTC)

_NUMBERS = """
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
segment = "1 h"
key = []
restate_after = "0 s"
[dataset.columns.good]
type = "int64"
[dataset.metrics.total]
kind = "sum"
input = "good"
[dataset.rollups.hourly]
bucket = "1 hour"
[dataset.rollups.hourly.aggregates]
readings = "count"
"""
CELLS = (
    r"""
[[dataset]]
name = "cells"
roots = ["inbox"]
files = ["cells/*.txt"]
subject = { preamble = "serial" }
"""
    + _NUMBERS
    + r"""
[dataset.format]
like = "csv"
preamble = { max_lines = 20, fields = { serial = 'Serial: (?P<value>\S+)' } }
header = { pattern = '^time,' }
"""
)


def tools(name: str, pattern: str) -> str:
    """A dataset of files whose folder is their subject."""
    return (
        f"""
[[dataset]]
name = "{name}"
roots = ["inbox"]
files = ["{pattern}"]
format = "csv"
subject = {{ path = '^(?P<subject>[^/]+)/' }}
"""
        + _NUMBERS
    )


ALL = tools("a", "T*/*.csv") + CELLS
SPLIT = tools("a", "T*/x*.csv") + tools("b", "T*/y*.csv") + CELLS
RENAMED = tools("b", "T*/*.csv") + CELLS
BRIEF = 'key = []\nretain = "1 d"'


def rows(*goods: int, hour: int = 0) -> str:
    return "".join(
        f"{(START + timedelta(hours=hour, minutes=number)).isoformat()},{good}\n"
        for number, good in enumerate(goods)
    )


def tool(*goods: int, hour: int = 0) -> str:
    return "time,good\n" + rows(*goods, hour=hour)


def cell(serial: str, *goods: int, hour: int = 0) -> str:
    return f"Serial: {serial}\n{tool(*goods, hour=hour)}"


@pytest.fixture
def moving(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A plant with a dataset by path and one by preamble."""
    built = Plant(tmp_path, dsn, description=ALL)
    yield built
    built.pool.close()


def announce(
    plant: Plant,
    path: Path,
    subject: str,
    *,
    dataset: str | None = None,
    reason: Reason = Reason.FILE_NOTIFICATION,
    content: str | None = None,
) -> list[PassReport]:
    """Say that a file is there, with whatever subject and dataset the sender believes."""
    metadata = {"dataset": dataset} if dataset is not None else {}
    if content is not None:
        metadata["content_hash"] = content
    plant.notify_as(path, subject, reason=reason, **metadata)
    return plant.drain()


def totals(plant: Plant) -> dict[tuple[object, ...], object]:
    """What every subject of every dataset adds up to."""
    found = plant.rows(
        """
        select dataset, subject_key, sum(total_int)::int
        from disarray.segment_metric where metric = 'total' group by 1, 2 order by 1, 2
        """
    )
    return {row[:2]: row[2] for row in found}


def homes(plant: Plant) -> list[tuple[object, ...]]:
    """Where the readings of files are."""
    return plant.rows(
        """
        select distinct regexp_replace(source_uri, '.*/', ''), dataset, subject_key
        from disarray.fragment where state = 'active' order by 1, 2, 3
        """
    )


def assert_settled(plant: Plant) -> None:
    """Nothing is queued, stale or on its way, and every file is known to be where its readings are."""
    assert plant.rows("select source_uri from disarray.ingest_queue") == []
    assert plant.rows("select count(*) from disarray.dirty_range where resolved_at is null") == [(0,)]
    assert plant.rows("select * from disarray.moving_file") == []
    assert (
        plant.rows(
            """
            select said.source_uri from disarray.fragment as said join disarray.file_info as file using (source_uri)
            where said.state <> 'dropped'
                and (said.dataset, said.subject_key) is distinct from (file.dataset, file.subject_key)
            """
        )
        == []
    )


def ledger(plant: Plant, dataset: str, subject: str) -> list[tuple[object, ...]]:
    """The changes of its total that are written down, as they were and are at the end of each span."""
    return plant.rows(
        f"""
        select old_int, new_int from disarray.restatement
        where dataset = '{dataset}' and subject_key = '{subject}' and metric = 'total' order by restatement_id
        """
    )


def test_a_corrected_serial_moves_the_file(moving: Plant) -> None:
    path = moving.write("cells/1.txt", cell("CELL-A", 1, 2))
    announce(moving, moving.write("cells/2.txt", cell("CELL-A", 100, 0, hour=5)), "CELL-A", dataset="cells")
    announce(moving, moving.write("cells/3.txt", cell("CELL-B", 1000, 0, hour=5)), "CELL-B", dataset="cells")
    announce(moving, path, "CELL-A", dataset="cells")
    assert totals(moving) == {("cells", "CELL-A"): 103, ("cells", "CELL-B"): 1000}
    path.write_text(cell("CELL-B", 1, 2))
    announce(moving, path, "CELL-A", dataset="cells")
    assert totals(moving) == {("cells", "CELL-A"): 100, ("cells", "CELL-B"): 1003}
    assert_settled(moving)
    assert (103, 100) in ledger(moving, "cells", "CELL-A")
    assert (1000, 1003) in ledger(moving, "cells", "CELL-B")


def test_a_corrected_serial_that_the_announcement_knows_moves_the_file_too(moving: Plant) -> None:
    path = moving.write("cells/1.txt", cell("CELL-A", 1, 2))
    announce(moving, path, "CELL-A", dataset="cells")
    path.write_text(cell("CELL-B", 1, 2))
    announce(moving, path, "CELL-B", dataset="cells")
    assert totals(moving) == {("cells", "CELL-B"): 3}
    assert_settled(moving)


@pytest.mark.parametrize("dataset", [None, "a", "cells", "unheard of"])
def test_an_announcement_with_another_subject_or_dataset_is_a_hint(
    moving: Plant, dataset: str | None
) -> None:
    announce(moving, moving.write("T1/x.csv", tool(1, 2)), "T9", dataset=dataset)
    announce(moving, moving.write("cells/1.txt", cell("CELL-A", 4)), "T9", dataset=dataset)
    assert totals(moving) == {("a", "T1"): 3, ("cells", "CELL-A"): 4}
    assert_settled(moving)


def test_an_unchanged_file_announced_for_another_subject_stays_and_can_be_blacklisted(moving: Plant) -> None:
    path = moving.write("T1/x.csv", tool(1, 2))
    announce(moving, path, "T1", dataset="a", content="h1")
    for content in ("h1", "h2", None):
        announce(moving, path, "T9", dataset="a", content=content)
        assert moving.rows("select subject_key, dataset from disarray.file_info") == [("T1", "a")]
    announce(moving, path, "T9", reason=Reason.REINGEST)
    assert totals(moving) == {("a", "T1"): 3}
    with moving.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(path), "T9", reason="doubt", by="ada")
    moving.drain()
    assert totals(moving) == {}
    assert_settled(moving)


def test_a_grown_file_whose_hint_changes_is_not_split(moving: Plant) -> None:
    path = moving.write("cells/1.txt", cell("CELL-A", 1, 2))
    announce(moving, path, "CELL-A", dataset="cells")
    path.write_text(cell("CELL-A", 1, 2, 4))
    announce(moving, path, "CELL-B", dataset="cells")
    assert totals(moving) == {("cells", "CELL-A"): 7}
    assert homes(moving) == [("1.txt", "cells", "CELL-A")]
    assert_settled(moving)


def test_a_dataset_that_is_split_gives_its_files_away(moving: Plant) -> None:
    moving.ingest(moving.write("T1/x1.csv", tool(1, 2)), moving.write("T1/y1.csv", tool(10, 20, hour=3)))
    moving.ingest(moving.write("T2/y1.csv", tool(100)))
    assert totals(moving) == {("a", "T1"): 33, ("a", "T2"): 100}
    moving.redefine(SPLIT)
    assert [message for each in moving.drain() for message in each.failed.values()] == []
    assert totals(moving) == {("a", "T1"): 3, ("b", "T1"): 30, ("b", "T2"): 100}
    assert_settled(moving)
    assert ledger(moving, "a", "T1") == [(13, 3)]
    # It grows afterwards: what it says stays together.
    moving.ingest(moving.write("T1/y1.csv", tool(10, 20, 40, hour=3)))
    assert totals(moving) == {("a", "T1"): 3, ("b", "T1"): 70, ("b", "T2"): 100}
    assert_as_fresh(moving)


@pytest.mark.parametrize("role", ["disarray_worker", "disarray_operator"])
def test_whoever_may_put_a_definition_in_force_may_move_the_files_by_it(moving: Plant, role: str) -> None:
    moving.ingest(moving.write("T1/x1.csv", tool(1, 2)), moving.write("T1/y1.csv", tool(10, 20, hour=3)))
    moving.description.write_text(SPLIT)
    described = load_datasets(moving.description)
    with moving.pool.connection() as connection, connection.transaction():
        connection.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
        register_all(connection, described)
    moving.redefine(SPLIT)
    moving.drain()
    assert totals(moving) == {("a", "T1"): 3, ("b", "T1"): 30}


def test_a_dataset_that_is_renamed_keeps_all_of_its_numbers(moving: Plant) -> None:
    moving.ingest(moving.write("T1/x1.csv", tool(1, 2)), moving.write("T1/y1.csv", tool(10, hour=3)))
    moving.redefine(RENAMED)
    moving.drain()
    assert totals(moving) == {("b", "T1"): 13}
    assert_settled(moving)
    moving.ingest(moving.write("T1/y1.csv", tool(10, 20, hour=3)))
    assert totals(moving) == {("b", "T1"): 33}
    assert_as_fresh(moving)


def test_no_step_of_a_move_leaves_the_file_counted_nowhere_or_the_other_side_final(moving: Plant) -> None:
    path = moving.write("cells/1.txt", cell("CELL-A", 1, 2))
    announce(moving, path, "CELL-A", dataset="cells")
    path.write_text(cell("CELL-B", 1, 2))
    moving.notify_as(path, "CELL-A", dataset="cells")
    # Each step in a life of its own, as if the worker had been killed between any two of them.
    seen = []
    while Scheduler(moving.place).process_batch() is not None:
        stale = [subject for subject in ("CELL-A", "CELL-B") if is_stale(moving, "cells", subject)]
        seen.append((totals(moving), stale))
        with moving.pool.connection() as connection:
            holder = instances.register_instance(connection, "Worker01")
        moving.place = replace(moving.place, holder=holder)
    both = {("cells", "CELL-A"): 3, ("cells", "CELL-B"): 3}
    assert seen == [
        ({("cells", "CELL-A"): 3}, []),
        (both, ["CELL-A"]),
        ({("cells", "CELL-B"): 3}, []),
    ]
    assert_settled(moving)


def test_a_file_that_comes_back_before_it_has_left_is_counted_once(moving: Plant) -> None:
    path = moving.write("cells/1.txt", cell("CELL-A", 1, 2))
    announce(moving, path, "CELL-A", dataset="cells")
    path.write_text(cell("CELL-B", 1, 2, 4))
    moving.notify_as(path, "CELL-B", dataset="cells")
    Scheduler(moving.place).process_batch()
    assert totals(moving) == {("cells", "CELL-A"): 3, ("cells", "CELL-B"): 7}
    path.write_text(cell("CELL-A", 1, 2, 4, 8))
    announce(moving, path, "CELL-A", dataset="cells")
    assert totals(moving) == {("cells", "CELL-A"): 15}
    assert_settled(moving)


def test_a_file_that_came_back_in_one_commit_does_not_leave_with_the_next(
    moving: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = moving.write("cells/1.txt", cell("CELL-A", 1, 2))
    early = moving.write("cells/2.txt", cell("CELL-A", 100, hour=10))
    announce(moving, path, "CELL-A", dataset="cells")
    announce(moving, early, "CELL-A", dataset="cells")
    path.write_text(cell("CELL-B", 1, 2, 4))
    moving.notify_as(path, "CELL-B", dataset="cells")
    Scheduler(moving.place).process_batch()
    damage(moving, early)
    path.write_text(cell("CELL-A", 1, 2, 4, 8))
    # Of the second commit, one file waits for a segment that cannot be read, and the other is done without it.
    late = moving.write("cells/3.txt", cell("CELL-A", 1000, hour=10))
    after = moving.write("cells/4.txt", cell("CELL-A", 10000, hour=20))
    monkeypatch.setattr(portions, "COMMIT_ROWS", 4)
    monkeypatch.setattr(portions, "PARTS_A_ROW", 1)
    for each in (path, late, after):
        moving.notify_as(each, "CELL-A", dataset="cells")
    failed = [queue_id for report in moving.drain() for queue_id in report.failed]
    assert len(failed) == 1
    assert totals(moving) == {("cells", "CELL-A"): 10115}
    with moving.pool.connection() as connection:
        files.reingest_file(connection, str(early), reason="damaged", by="ada")
    moving.drain()
    # Of two readings at one time, that of the later name counts.
    assert totals(moving) == {("cells", "CELL-A"): 11015}
    assert_settled(moving)


def test_what_cannot_be_read_for_its_new_dataset_stays_where_it_counts(moving: Plant) -> None:
    path = moving.write("T1/y1.csv", tool(1, 2))
    moving.ingest(path)
    path.unlink()
    moving.redefine(SPLIT)
    [message] = [message for each in moving.drain() for message in each.failed.values()]
    assert "the file is gone" in message
    assert totals(moving) == {("a", "T1"): 3}
    path.write_text(tool(1, 2))
    moving.ingest(path, reason=Reason.REINGEST)
    assert totals(moving) == {("b", "T1"): 3}
    assert_settled(moving)


def test_a_rotated_file_of_another_cell_leaves_the_readings_of_the_former_one(moving: Plant) -> None:
    path = moving.write("cells/log.txt", cell("CELL-A", 1, 2))
    announce(moving, path, "CELL-A", dataset="cells")
    path.write_text(cell("CELL-B", 10, 20, hour=9))
    announce(moving, path, "CELL-A", dataset="cells")
    assert totals(moving) == {("cells", "CELL-A"): 3, ("cells", "CELL-B"): 30}
    path.write_text(cell("CELL-B", 10, 20, 40, hour=9))
    announce(moving, path, "CELL-A", dataset="cells")
    assert totals(moving) == {("cells", "CELL-A"): 3, ("cells", "CELL-B"): 70}
    assert moving.rows("select * from disarray.moving_file") == []


def test_a_version_that_says_less_about_another_cell_is_parked_and_moves_when_released(moving: Plant) -> None:
    path = moving.write("cells/1.txt", cell("CELL-A", 1, 2, 4))
    announce(moving, path, "CELL-A", dataset="cells")
    path.write_text(cell("CELL-B", 1, 2))
    announce(moving, path, "CELL-B", dataset="cells")
    assert totals(moving) == {("cells", "CELL-A"): 7}
    assert moving.rows("select status::text, subject_key from disarray.file_info") == [("parked", "CELL-A")]
    with moving.pool.connection() as connection:
        quarantine.release_file(connection, str(path), reason="it is right", by="ada")
    moving.drain()
    assert totals(moving) == {("cells", "CELL-B"): 3}
    assert_settled(moving)


def waiting_parts(plant: Plant) -> list[str]:
    """What of all files waits for an operator."""
    with plant.pool.connection() as connection:
        return [each.part for each in quarantine.list_quarantine(connection)]


def test_a_version_that_says_less_waits_when_its_file_changes_its_dataset(moving: Plant) -> None:
    path = moving.write("T1/y1.csv", tool(1, 2, 4))
    moving.ingest(path)
    path.write_text(tool(1))
    moving.ingest(path)
    assert waiting_parts(moving) == ["version"]
    moving.redefine(SPLIT)
    moving.drain()
    assert (totals(moving), waiting_parts(moving)) == ({("a", "T1"): 7}, ["version"])
    with moving.pool.connection() as connection:
        quarantine.release_file(connection, str(path), reason="it is right", by="ada")
    moving.drain()
    assert (totals(moving), waiting_parts(moving)) == ({("b", "T1"): 1}, [])
    assert_settled(moving)


def test_a_rejected_version_does_not_come_in_with_a_move(moving: Plant) -> None:
    path = moving.write("T1/y1.csv", tool(1, 2, 4))
    moving.ingest(path)
    path.write_text(tool(1))
    moving.ingest(path)
    with moving.pool.connection() as connection:
        quarantine.reject_file(connection, str(path), reason="cut off", by="ada")
    moving.redefine(SPLIT)
    moving.drain()
    assert totals(moving) == {("a", "T1"): 7}
    # An audit goes on telling of it, until the file is restored, read as it is on request, or blacklisted.
    assert misplaced(moving) == ["counts for a/T1, belongs to b/T1"]
    path.write_text(tool(1, 2, 4))
    moving.ingest(path)
    assert totals(moving) == {("b", "T1"): 7}
    assert_settled(moving)


def test_a_file_that_says_less_when_its_dataset_changes_is_parked(moving: Plant) -> None:
    less, later = moving.write("T1/y1.csv", tool(1, 2, 4)), moving.write("T1/y2.csv", tool(10, 20, hour=1))
    moving.ingest(less, later)
    less.write_text(tool(1))
    # Replaced by what comes after it: what it said before can be read nowhere any more, and stays.
    later.write_text(tool(100, hour=5))
    moving.redefine(SPLIT)
    moving.drain()
    assert totals(moving) == {("a", "T1"): 37, ("b", "T1"): 100}
    assert waiting_parts(moving) == ["version"]


def test_what_was_parked_or_rejected_stays_so_in_its_new_dataset(moving: Plant) -> None:
    horizon = 'key = []\nhorizon = "5 h"'
    moving.redefine(ALL.replace("key = []", horizon))
    moving.drain()
    moving.ingest(moving.write("T1/x1.csv", tool(1, hour=20)))
    late, refused = moving.write("T1/y1.csv", tool(10)), moving.write("T1/y2.csv", tool(100, hour=1))
    counted = moving.write("T1/y3.csv", tool(1000, hour=2))
    moving.ingest(late, refused, counted)
    with moving.pool.connection() as connection:
        quarantine.reject_file(connection, str(refused), reason="wrong", by="ada")
        quarantine.release_file(connection, str(counted), reason="right", by="ada")
    moving.drain()
    assert totals(moving) == {("a", "T1"): 1001}
    moving.redefine(SPLIT.replace("key = []", horizon))
    moving.drain()
    assert totals(moving) == {("a", "T1"): 1, ("b", "T1"): 1000}
    assert_settled(moving)
    with moving.pool.connection() as connection:
        assert [each.source_uri for each in quarantine.list_quarantine(connection)] == [str(late)]
        quarantine.release_file(connection, str(late), reason="right", by="ada")
    moving.drain()
    assert totals(moving) == {("a", "T1"): 1, ("b", "T1"): 1010}


def test_what_counts_for_ever_where_it_was_waits_elsewhere_for_that_reason(moving: Plant) -> None:
    moving.redefine(ALL.replace("key = []", 'key = []\nretain = "1 d"'))
    path = moving.write("cells/1.txt", cell("CELL-A", 1, 2) + rows(10, hour=30))
    announce(moving, path, "CELL-A", dataset="cells")
    moving.keep_house()
    path.write_text(cell("CELL-B", 1, 2) + rows(10, hour=30))
    announce(moving, path, "CELL-A", dataset="cells")
    assert totals(moving) == {("cells", "CELL-A"): 3, ("cells", "CELL-B"): 10}
    with moving.pool.connection() as connection:
        [waiting] = quarantine.list_quarantine(connection)
    assert (waiting.subject_key, waiting.readings) == ("CELL-B", 2)
    assert waiting.why == "counts elsewhere, in a sealed segment"


@pytest.fixture
def forgetful(moving: Plant) -> Plant:
    """A plant that keeps readings for a day."""
    moving.redefine(ALL.replace("key = []", BRIEF))
    return moving


def waiting_readings(plant: Plant) -> list[tuple[str, str | None, int, str]]:
    """Of whom readings wait, how many, and why."""
    with plant.pool.connection() as connection:
        found = quarantine.list_quarantine(connection)
    return [(each.subject_key, each.dataset, each.readings, each.why) for each in found]


ELSEWHERE = "counts elsewhere, in a sealed segment"


def test_a_file_all_of_which_counts_for_ever_where_it_was_waits_elsewhere(forgetful: Plant) -> None:
    path = forgetful.write("cells/1.txt", cell("CELL-A", 1, 2))
    announce(forgetful, path, "CELL-A", dataset="cells")
    announce(forgetful, forgetful.write("cells/2.txt", cell("CELL-A", 10, hour=30)), "CELL-A")
    forgetful.keep_house()
    path.write_text(cell("CELL-B", 1, 2))
    announce(forgetful, path, "CELL-A", dataset="cells")
    assert totals(forgetful) == {("cells", "CELL-A"): 13}
    assert waiting_readings(forgetful) == [("CELL-B", "cells", 2, ELSEWHERE)]
    assert forgetful.rows("select * from disarray.moving_file") == []
    assert misplaced(forgetful) == []


def test_what_counts_for_ever_waits_in_the_dataset_that_its_file_was_given_to(forgetful: Plant) -> None:
    forgetful.ingest(
        forgetful.write("T1/x1.csv", tool(10, hour=30)), forgetful.write("T1/y1.csv", tool(1, 2))
    )
    forgetful.keep_house()
    forgetful.redefine(SPLIT.replace("key = []", BRIEF))
    forgetful.drain()
    assert totals(forgetful) == {("a", "T1"): 13}
    assert waiting_readings(forgetful) == [("T1", "b", 2, ELSEWHERE)]
    assert misplaced(forgetful) == []


@pytest.fixture
def half_sealed(forgetful: Plant) -> Path:
    """A file of CELL-B; two of its readings count for CELL-A for ever and wait here, the third counts here."""
    path = forgetful.write("cells/1.txt", cell("CELL-A", 1, 2) + rows(10, hour=30))
    announce(forgetful, path, "CELL-A", dataset="cells")
    forgetful.keep_house()
    path.write_text(cell("CELL-B", 1, 2) + rows(10, hour=30))
    announce(forgetful, path, "CELL-A", dataset="cells")
    return path


def test_what_counts_for_ever_elsewhere_waits_again_when_its_file_is_read_again(
    forgetful: Plant, half_sealed: Path
) -> None:
    announce(forgetful, half_sealed, "CELL-B", reason=Reason.REINGEST)
    assert totals(forgetful) == {("cells", "CELL-A"): 3, ("cells", "CELL-B"): 10}
    assert waiting_readings(forgetful) == [("CELL-B", "cells", 2, ELSEWHERE)]


def test_what_an_operator_lets_count_twice_goes_on_counting_when_its_file_is_read_again(
    forgetful: Plant, half_sealed: Path
) -> None:
    with forgetful.pool.connection() as connection:
        quarantine.release_file(connection, str(half_sealed), reason="CELL-A is not used", by="ada")
    forgetful.drain()
    announce(forgetful, half_sealed, "CELL-B", reason=Reason.REINGEST)
    assert totals(forgetful) == {("cells", "CELL-A"): 3, ("cells", "CELL-B"): 13}
    assert waiting_readings(forgetful) == []


def test_a_file_of_which_a_part_counts_for_ever_elsewhere_takes_its_growth_in_without_a_look_at_the_rest(
    forgetful: Plant, half_sealed: Path
) -> None:
    half_sealed.write_text(half_sealed.read_text() + rows(20, hour=31))
    announce(forgetful, half_sealed, "CELL-B")
    assert totals(forgetful) == {("cells", "CELL-A"): 3, ("cells", "CELL-B"): 30}
    assert waiting_readings(forgetful) == [("CELL-B", "cells", 2, ELSEWHERE)]


def test_what_counts_for_ever_elsewhere_waits_also_where_its_file_comes_with_a_rebuild(
    forgetful: Plant,
) -> None:
    path = forgetful.write("cells/1.txt", cell("CELL-A", 1, 2))
    announce(forgetful, path, "CELL-A", dataset="cells")
    announce(forgetful, forgetful.write("cells/2.txt", cell("CELL-A", 10, hour=30)), "CELL-A")
    announce(forgetful, forgetful.write("cells/3.txt", cell("CELL-B", 100, hour=30)), "CELL-B")
    forgetful.keep_house()
    path.write_text(cell("CELL-B", 1, 2))
    forgetful.notify_as(path, "CELL-B", dataset="cells")
    forgetful.redefine(ALL.replace("key = []", BRIEF).replace('["iso"]', '["iso", "%Y-%m-%d"]'))
    # CELL-B is rebuilt in the pass that takes the file in; the rebuild of CELL-A queues it once more.
    Scheduler(forgetful.place).process_batch()
    assert waiting_readings(forgetful) == [("CELL-B", "cells", 2, ELSEWHERE)]
    forgetful.drain()
    assert totals(forgetful) == {("cells", "CELL-A"): 13, ("cells", "CELL-B"): 100}
    assert waiting_readings(forgetful) == [("CELL-B", "cells", 2, ELSEWHERE)]


def test_what_counts_for_ever_elsewhere_waits_where_its_file_is_allowed_again(forgetful: Plant) -> None:
    path = forgetful.write("T1/y1.csv", tool(1, 2) + rows(10, hour=30))
    forgetful.ingest(path)
    forgetful.keep_house()
    with forgetful.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(path), "T1", reason="doubt", by="ada")
    forgetful.drain()
    forgetful.redefine(SPLIT.replace("key = []", BRIEF))
    forgetful.drain()
    with forgetful.pool.connection() as connection:
        blacklist.allow_file(connection, str(path), reason="it is right", by="ada")
    forgetful.drain()
    assert totals(forgetful) == {("a", "T1"): 3, ("b", "T1"): 10}
    assert waiting_readings(forgetful) == [("T1", "b", 2, ELSEWHERE)]


def test_what_is_about_to_leave_is_not_sealed(forgetful: Plant) -> None:
    path = forgetful.write("cells/1.txt", cell("CELL-A", 1, 2))
    announce(forgetful, path, "CELL-A", dataset="cells")
    announce(forgetful, forgetful.write("cells/2.txt", cell("CELL-A", 10, hour=30)), "CELL-A")
    path.write_text(cell("CELL-B", 1, 2))
    forgetful.notify_as(path, "CELL-B", dataset="cells")
    # In one batch: the file is taken in for CELL-B before CELL-A, which it has not left, forgets what is old.
    forgetful.keep_house()
    assert totals(forgetful) == {("cells", "CELL-A"): 10, ("cells", "CELL-B"): 3}
    assert waiting_readings(forgetful) == []
    assert_settled(forgetful)


def test_a_file_that_was_blacklisted_counts_for_its_new_dataset_when_it_is_allowed(moving: Plant) -> None:
    path = moving.write("T1/y1.csv", tool(1, 2))
    moving.ingest(path)
    with moving.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(path), "T1", reason="doubt", by="ada")
    moving.drain()
    moving.redefine(SPLIT)
    moving.drain()
    assert totals(moving) == {}
    with moving.pool.connection() as connection:
        blacklist.allow_file(connection, str(path), reason="it is right", by="ada")
    moving.drain()
    assert totals(moving) == {("b", "T1"): 3}
    assert_settled(moving)


def test_what_was_rejected_stays_so_when_its_file_is_blacklisted_before_it_has_moved(moving: Plant) -> None:
    horizon = 'key = []\nhorizon = "5 h"'
    moving.redefine(ALL.replace("key = []", horizon))
    moving.drain()
    moving.ingest(moving.write("T1/x1.csv", tool(1, hour=20)))
    refused = moving.write("T1/y1.csv", tool(100))
    moving.ingest(refused)
    with moving.pool.connection() as connection:
        quarantine.reject_file(connection, str(refused), reason="wrong", by="ada")
    moving.redefine(SPLIT.replace("key = []", horizon))
    with moving.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(refused), "T1", reason="doubt", by="ada")
    moving.drain()
    with moving.pool.connection() as connection:
        blacklist.allow_file(connection, str(refused), reason="it is right", by="ada")
    moving.drain()
    assert totals(moving) == {("a", "T1"): 1}
    assert_settled(moving)


def test_a_file_that_no_dataset_takes_any_more_counts_until_it_is_blacklisted(moving: Plant) -> None:
    kept, other = moving.write("T1/x1.csv", tool(1)), moving.write("T1/z1.csv", tool(2, hour=1))
    moving.ingest(kept, other)
    moving.redefine(SPLIT)
    moving.drain()
    assert totals(moving) == {("a", "T1"): 3}
    with moving.pool.connection() as connection:
        [told] = moving_files.list_unmatched_files(connection)
        assert (told.source_uri, told.dataset, told.readings) == (str(other), "a", 1)
        blacklist.blacklist_file(connection, str(other), "T1", reason="not wanted", by="ada")
        assert moving_files.list_unmatched_files(connection) == []
    moving.drain()
    assert totals(moving) == {("a", "T1"): 1}
    assert_settled(moving)


def test_an_audit_derives_where_every_file_belongs(moving: Plant) -> None:
    moving.ingest(moving.write("T1/x1.csv", tool(1)), moving.write("T1/y1.csv", tool(2)))
    announce(moving, moving.write("cells/1.txt", cell("CELL-A", 4)), "CELL-A", dataset="cells")
    assert misplaced(moving) == []
    with moving.pool.connection() as connection:
        connection.execute("update disarray.fragment set subject_key = 'CELL-B' where subject_key = 'CELL-A'")
        connection.execute(
            "update disarray.file_info set subject_key = 'CELL-B' where subject_key = 'CELL-A'"
        )
    assert misplaced(moving) == ["counts for cells/CELL-B, belongs to cells/CELL-A"]
    moving.description.write_text(RENAMED)
    moving.datasets.clear()
    moving.datasets.update({each.name: each for each in load_datasets(moving.description)})
    assert misplaced(moving) == [
        "counts for a/T1, belongs to b/T1",
        "counts for a/T1, belongs to b/T1",
        "counts for cells/CELL-B, belongs to cells/CELL-A",
    ]


def misplaced(plant: Plant) -> list[str]:
    """What an audit says of files that count for what they are not about."""
    settings = AuditSettings(datasets=list(plant.datasets.values()))
    with plant.pool.connection() as connection:
        return [
            finding.detail
            for verdict in audit(connection, plant.place.lake, settings)
            if verdict.rule.name == "files_count_where_they_belong"
            for finding in verdict.findings
        ]


def is_stale(plant: Plant, dataset: str, subject: str) -> bool:
    """Whether readers are told that numbers are not final."""
    with plant.pool.connection() as connection:
        return values.stale_from(connection, dataset, subject) is not None


def assert_as_fresh(plant: Plant) -> None:
    """The numbers are those of one ingest of all files of tools under the definitions in force."""
    moved = plant.derived()
    assert_settled(plant)
    plant.forget_everything()
    plant.ingest(*sorted(plant.inbox.glob("T*/*.csv")))
    assert plant.derived() == moved
