"""The vacuum, the sweep of orphans, and what is forgotten: never what somebody needs, wherever a step ends."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from disarray.control import blacklist, claim_ends, claims, housekeeping
from disarray.errors import ReadingsGoneError
from disarray.queries.readings import readings
from disarray.store import sweeping
from disarray.worker.housekeeping_settings import DEFAULTS
from disarray.worker.upkeep import housekeeping as chores
from disarray.worker.upkeep.housekeeping import keep_house, sweep, vacuum
from tests.worker.test_compaction import grow, line, told

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from disarray.queries.readings import Readings
    from disarray.store.sweeping import LakeEntry
    from tests.plant import Plant

pytestmark = pytest.mark.postgres

DAY = 86_400
RULES = replace(DEFAULTS, cold_after=timedelta(0), compact_fragments=2)


@pytest.fixture
def tidy(plant: Plant) -> Plant:
    """A plant with a file that grew, its fragments merged a moment ago."""
    plant.place = replace(plant.place, housekeeping=RULES)
    grow(plant, "T1/grown.csv", steps=5)
    plant.keep_house()
    return plant


def lake_files(plant: Plant) -> set[str]:
    root = plant.place.lake.root
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def known_files(plant: Plant) -> set[object]:
    return {path for (path,) in plant.rows("select path from disarray.lake_file")}


def run_vacuum(plant: Plant, *, rehearsal: bool = False) -> list[LakeEntry]:
    with plant.pool.connection() as connection:
        return vacuum(connection, plant.place, is_rehearsal=rehearsal)


def run_sweep(plant: Plant, *, rehearsal: bool = False) -> list[LakeEntry]:
    with plant.pool.connection() as connection:
        return sweep(connection, plant.place, is_rehearsal=rehearsal)


def look_up(plant: Plant) -> Readings:
    with plant.pool.connection() as connection:
        return readings(connection, plant.place.lake, dataset=plant.datasets["tools"], subject_key="T1")


def age(plant: Plant, *paths: str, seconds: float) -> None:
    for path in paths:
        at = time.time() - seconds
        os.utime(plant.place.lake.root / path, (at, at))


def test_readers_that_began_before_a_compaction_read_on_until_the_vacuum(
    tidy: Plant, advance_clock: Callable[[timedelta], None]
) -> None:
    grow(tidy, "T1/other.csv", steps=3, first=20)
    before = look_up(tidy)
    rows = told(tidy)
    tidy.keep_house()
    assert run_vacuum(tidy) == []
    assert sum(table.num_rows for table in before) == len(rows) == 8
    advance_clock(timedelta(days=1, seconds=1))
    assert len(run_vacuum(tidy)) == 9
    assert told(tidy) == rows
    with pytest.raises(ReadingsGoneError, match="Ask again"):
        list(before)


def test_the_vacuum_leaves_nothing_behind_and_deletes_nothing_that_counts(
    tidy: Plant, advance_clock: Callable[[timedelta], None]
) -> None:
    before = tidy.derived()
    advance_clock(timedelta(days=2))
    dead = run_vacuum(tidy)
    assert len(dead) == 5
    assert lake_files(tidy) == known_files(tidy)
    assert len(lake_files(tidy)) == 1
    assert tidy.rows("select count(*) from disarray.fragment where state = 'dropped'") == [(0,)]
    assert tidy.derived() == before
    assert run_vacuum(tidy) == []


@pytest.mark.parametrize("step", ["delete_entry", "forget_lake_files"])
def test_a_vacuum_that_dies_between_its_steps_is_ended_by_the_next(
    tidy: Plant, advance_clock: Callable[[timedelta], None], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    advance_clock(timedelta(days=2))
    place: Any = chores if step == "delete_entry" else housekeeping
    real, calls = getattr(place, step), []

    def dies(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == (3 if step == "delete_entry" else 1):
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(place, step, dies)
    with pytest.raises(KeyboardInterrupt):
        run_vacuum(tidy)
    monkeypatch.setattr(place, step, real)
    assert tidy.rows("select count(*) from disarray.lake_file where doomed_at is not null") == [(5,)]
    assert len(run_vacuum(tidy)) == 5
    assert lake_files(tidy) == known_files(tidy)


def test_a_file_that_one_of_two_copies_still_names_is_kept(
    plant: Plant, advance_clock: Callable[[timedelta], None]
) -> None:
    path = grow(plant, "T1/a.csv", steps=1)
    copy = plant.write("T1/b.csv", path.read_text())
    plant.ingest(copy)
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(path), "T1", reason="a test", by="ada")
    plant.drain()
    advance_clock(timedelta(days=2))
    assert run_vacuum(plant) == []
    assert len(told(plant)) == 1


def test_a_commit_that_names_a_file_at_the_same_time_keeps_it_from_the_vacuum(
    plant: Plant, connect: Callable[[], Any], advance_clock: Callable[[timedelta], None]
) -> None:
    grow(plant, "T1/a.csv", steps=1)
    plant.rows("update disarray.fragment set state = 'dropped', dropped_at = disarray.clock() returning 1")
    advance_clock(timedelta(days=2))
    session = connect()
    with session.transaction():
        session.execute("select disarray.hold_lake_files(array(select path from disarray.lake_file))")
        session.execute("update disarray.fragment set state = 'active', dropped_at = null")
        assert run_vacuum(plant) == []
    assert run_vacuum(plant) == []
    assert len(told(plant)) == 1


def test_a_commit_that_comes_while_a_file_is_being_doomed_is_refused(
    plant: Plant, connect: Callable[[], Any], advance_clock: Callable[[timedelta], None]
) -> None:
    grow(plant, "T1/a.csv", steps=1)
    plant.rows("update disarray.fragment set state = 'dropped', dropped_at = disarray.clock() returning 1")
    advance_clock(timedelta(days=2))
    keeper, committer, answers = connect(), connect(), []

    def commit() -> None:
        try:
            committer.execute("select disarray.hold_lake_files(array(select path from disarray.lake_file))")
        except Exception as error:
            answers.append(str(error))

    with keeper.transaction():
        keeper.execute("select * from disarray.doom_lake_files('1 day')")
        waiting = threading.Thread(target=commit)
        waiting.start()
        time.sleep(0.2)
        assert answers == []
    waiting.join()
    assert "about to be deleted" in answers[0]


def test_orphans_of_dead_runs_go_and_nothing_that_we_did_not_name(tidy: Plant) -> None:
    lake = tidy.place.lake.root
    (lake / "tools" / "ab").mkdir(exist_ok=True)
    orphan = f"tools/ab/ab{'0' * 30}-00000.parquet"
    strange = ["tools/ab/notes.txt", f"tools/ab/cd{'0' * 30}-00000.parquet", "readme.md", "tools/x.parquet"]
    for path in (orphan, *strange):
        (lake / path).write_text("x")
    (lake / "scratch-abc_1234").mkdir()
    (lake / "scratch-abc_1234" / "part.parquet").write_text("xyz")
    (lake / "tools" / "ab" / f"ab{'1' * 30}-00000.parquet").symlink_to(lake / "readme.md")
    assert run_sweep(tidy) == []
    known = known_files(tidy)
    age(tidy, *lake_files(tidy), "scratch-abc_1234", seconds=2 * DAY)
    assert {entry.path for entry in run_sweep(tidy, rehearsal=True)} == {orphan, "scratch-abc_1234"}
    swept = run_sweep(tidy)
    assert {entry.path for entry in swept} == {orphan, "scratch-abc_1234"}
    assert lake_files(tidy) == {*known, *strange, f"tools/ab/ab{'1' * 30}-00000.parquet"}
    assert run_sweep(tidy) == []


def test_what_a_run_under_way_wrote_is_no_orphan_however_long_it_takes(
    tidy: Plant, connect: Callable[[], Any]
) -> None:
    orphan = f"tools/ab/ab{'0' * 30}-00000.parquet"
    (tidy.place.lake.root / "tools" / "ab").mkdir(exist_ok=True)
    (tidy.place.lake.root / orphan).write_text("x")
    age(tidy, orphan, seconds=2 * DAY)
    tidy.notify(tidy.write("T1/next.csv", "time,watts,good\n" + line(100)))
    [item] = claims.fetch_items(connect(), tidy.place.holder)
    tidy.rows("update disarray.ingest_queue set claimed_at = claimed_at - interval '3 days' returning 1")
    assert run_sweep(tidy) == []
    with tidy.pool.connection() as connection:
        claim_ends.release_subject(connection, item.subject_key, tidy.place.holder)
    assert [entry.path for entry in run_sweep(tidy)] == [orphan]


def test_a_pass_that_dies_before_its_commit_leaves_orphans_that_are_swept(
    tidy: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    from disarray.worker.passes import ingest

    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ingest, "commit_work", dies)
    with pytest.raises(KeyboardInterrupt):
        tidy.ingest(tidy.write("T1/next.csv", "time,watts,good\n" + line(100)))
    monkeypatch.undo()
    assert len(lake_files(tidy) - known_files(tidy)) == 1
    age(tidy, *lake_files(tidy), seconds=2 * DAY)
    tidy.drain()
    assert len(run_sweep(tidy)) == 1
    assert lake_files(tidy) == known_files(tidy)


def test_history_is_forgotten_and_what_explains_a_number_is_not(
    tidy: Plant, advance_clock: Callable[[timedelta], None]
) -> None:
    tidy.ingest(tidy.write("T1/later.csv", "time,watts,good\n" + line(1000)))
    tidy.ingest(tidy.write("T1/late.csv", "time,watts,good\n" + line(500)))
    restated = tidy.rows("select * from disarray.restatement order by restatement_id")
    assert restated
    advance_clock(timedelta(days=200))
    report = keep_house(tidy.place)
    assert report is not None
    assert report.forgotten.dirty_ranges > 0
    assert report.forgotten.runs > 0
    assert tidy.rows("select * from disarray.restatement order by restatement_id") == restated
    dangling = """
        select count(*) from (
            select run_id from disarray.segment union select run_id from disarray.fragment
            union select run_id from disarray.restatement union select run_id from disarray.lake_file
        ) as named where run_id not in (select run_id from disarray.run)
        """
    assert tidy.rows(dangling) == [(0,)]


def test_only_one_instance_keeps_house_at_a_time(tidy: Plant, connect: Callable[[], Any]) -> None:
    with housekeeping.housekeeping_turn(connect()) as is_ours:
        assert is_ours
        assert keep_house(tidy.place) is None
    assert keep_house(tidy.place) is not None


def test_a_rehearsal_tells_what_would_be_done_and_does_nothing(
    tidy: Plant, advance_clock: Callable[[timedelta], None]
) -> None:
    grow(tidy, "T1/other.csv", steps=3, first=20)
    advance_clock(timedelta(days=200))
    before = [
        tidy.rows(f"select count(*) from disarray.{table}") for table in ("run", "dirty_range", "lake_file")
    ]
    report = keep_house(tidy.place, is_rehearsal=True)
    assert report is not None
    [needs] = report.subjects
    assert (needs.cold_segments, needs.cold_fragments) == (1, 4)
    assert report.dead_files == 5
    assert (report.forgotten.dirty_ranges, report.forgotten.fragments) == (8, 5)
    assert before == [
        tidy.rows(f"select count(*) from disarray.{table}") for table in ("run", "dirty_range", "lake_file")
    ]
    assert tidy.rows("select count(*) from disarray.ingest_queue") == [(0,)]


def test_a_sweep_and_a_vacuum_beside_a_working_plant_take_nothing_from_it(
    tidy: Plant, advance_clock: Callable[[timedelta], None]
) -> None:
    stop, failures = threading.Event(), []

    def clean() -> None:
        try:
            while not stop.is_set():
                keep_house(tidy.place)
        except Exception as error:
            failures.append(error)

    advance_clock(timedelta(days=2))
    tidy.place = replace(tidy.place, housekeeping=replace(RULES, vacuum_after=timedelta(0)))
    cleaner = threading.Thread(target=clean)
    cleaner.start()
    try:
        grow(tidy, "T1/more.csv", steps=12, first=30)
    finally:
        stop.set()
        cleaner.join()
    tidy.keep_house()
    assert failures == []
    assert len(told(tidy)) == 17


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    from disarray.store.lake import Lake

    assert list(sweeping.list_entries(Lake(tmp_path / "absent"), written_before=time.time())) == []
