"""Many small fragments into few: whatever came before and comes after, no bit tells."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from disarray.control import blacklist, housekeeping
from disarray.engine.jobs.compact_job import compact_subjects
from disarray.queries.readings import readings
from disarray.store.audit.lake_files import find_misread_segments
from disarray.worker.housekeeping_settings import DEFAULTS
from disarray.worker.process.scheduler import Scheduler
from disarray.worker.upkeep import subject_upkeep
from tests.plant import Plant
from tests.reading_lines import HEADER
from tests.worker.deliveries import DATASET, Delivery, deliveries, rows
from tests.worker.soundness import assert_all_holds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    import pyarrow as pa

pytestmark = pytest.mark.postgres

START = datetime(2026, 10, 1, tzinfo=UTC)
EAGER = replace(DEFAULTS, cold_after=timedelta(0), compact_fragments=2, compact_readings=1_000_000)
LAST_RUN = """
    select run_id, created_at from disarray.fragment
    where state = 'active' and source_uri like '%grown.csv' order by created_at desc limit 1
    """
FRAGMENTS = "select count(*), count(distinct path) from disarray.fragment where state = 'active'"

ROW_GROUPS = "select count(distinct (path, row_group)) from disarray.fragment where state = 'active'"


def line(minute: float) -> str:
    return f"{(START + timedelta(minutes=minute)).isoformat()},{minute / 7},{int(minute) % 3}\n"


def grow(plant: Plant, name: str, *, steps: int, first: float = 0) -> Path:
    """A file of one segment that grew in so many appends."""
    text = "time,watts,good\n"
    for step in range(steps):
        text += line(first + step)
        path = plant.write(name, text)
        plant.ingest(path)
    return path


def told(plant: Plant) -> list[dict[str, object]]:
    """Every reading with its values, file and position."""
    with plant.pool.connection() as connection:
        return [
            row
            for subject in ("L1", "L2", "T1")
            for dataset in plant.datasets.values()
            for table in readings(connection, plant.place.lake, dataset=dataset, subject_key=subject)
            for row in table.to_pylist()
        ]


@pytest.fixture
def eager(plant: Plant) -> Plant:
    """A plant in which everything is cold, and two fragments are many."""
    plant.place = replace(plant.place, housekeeping=EAGER)
    return plant


def test_a_file_that_grew_in_many_appends_becomes_one_fragment(eager: Plant) -> None:
    grow(eager, "T1/grown.csv", steps=20)
    eager.ingest(eager.write("T1/other.csv", "time,watts,good\n" + line(0.5) + line(70)))
    before, rows_before = eager.derived(), told(eager)
    last_run = eager.rows(LAST_RUN)
    noted = eager.rows("select count(*) from disarray.restatement")
    ranges = eager.rows("select count(*) from disarray.dirty_range")
    [report] = eager.keep_house()
    [kept] = report.kept
    assert (kept.segments_compacted, kept.fragments_before, kept.fragments_after) == (1, 21, 2)
    assert eager.rows(FRAGMENTS) == [(3, 2)]
    assert eager.derived() == before
    assert told(eager) == rows_before
    # Its readings still lead to the run that read them.
    assert eager.rows(LAST_RUN) == last_run
    assert eager.rows("select count(*) from disarray.restatement") == noted
    assert eager.rows("select count(*) from disarray.dirty_range") == ranges
    assert [report.kept for report in eager.keep_house()] == []


def test_a_thousand_files_with_a_reading_each_share_row_groups_and_each_can_still_go(eager: Plant) -> None:
    header = "time,watts,good\n"
    paths = [eager.write(f"T1/{number:04d}.csv", header + line(number / 50)) for number in range(1_200)]
    eager.ingest(*paths)
    before, rows_before = eager.derived(), told(eager)
    assert eager.rows(ROW_GROUPS) == [(1_200,)]
    [report] = eager.keep_house()
    [kept] = report.kept
    assert (kept.row_groups_before, kept.row_groups_after) == (1_200, 2)
    assert (kept.fragments_before, kept.fragments_after, kept.segments_left) == (1_200, 1_200, 0)
    assert eager.rows(ROW_GROUPS) == [(2,)]
    assert eager.derived() == before
    assert told(eager) == rows_before
    assert_all_holds(eager)
    # It is done: the next turn finds nothing, whatever lies in shared row groups.
    assert [report.kept for report in eager.keep_house()] == []
    # One of them goes, one begins anew and one comes late: the rest of their row groups is as it was.
    with eager.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(paths[700]), "T1", reason="a test", by="ada")
    paths[900].write_text(header + line(58) + line(59))
    eager.ingest(paths[900], eager.write("T1/late.csv", header + line(10.001)))
    changed = eager.derived()
    eager.keep_house()
    assert eager.derived() == changed
    added = [line(58), line(59), line(10.001)]
    said = {line(number / 50) for number in range(1_200) if number != 700} | set(added)
    assert sorted((row["watts"], row["good"]) for row in told(eager)) == sorted(
        (float(text.split(",")[1]), int(text.split(",")[2])) for text in said
    )
    assert_all_holds(eager)


def test_an_audit_decodes_a_shared_row_group_once_for_all_its_files(
    eager: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    eager.ingest(
        *(eager.write(f"T1/{number}.csv", "time,watts,good\n" + line(number)) for number in range(40))
    )
    eager.keep_house()
    assert eager.rows(ROW_GROUPS) == [(1,)]
    decoded: list[int] = []
    decode = pq.ParquetFile.read_row_groups

    def noted(file: pq.ParquetFile, row_groups: list[int], **given: Any) -> pa.Table:
        decoded.extend(row_groups)
        return decode(file, row_groups, **given)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", noted)
    with eager.pool.connection() as connection:
        assert list(find_misread_segments(connection, eager.place.lake)) == []
    assert decoded == [0]


def test_what_cannot_lie_in_fewer_row_groups_is_left_and_counted(eager: Plant) -> None:
    # Two files in four states: each row group is named by files that it shares with no other row group.
    first = grow(eager, "T1/a.csv", steps=2)
    eager.ingest(eager.write("T1/b.csv", first.read_text()))
    eager.write("T1/b.csv", first.read_text() + line(5))
    eager.ingest(eager.inbox / "T1/b.csv")
    first.write_text(first.read_text() + line(6))
    eager.ingest(first)
    before = eager.derived()
    for report in eager.keep_house():
        assert report.failed == {}
        assert all(
            kept.row_groups_after < kept.row_groups_before or kept.segments_left for kept in report.kept
        )
    assert eager.derived() == before


def test_growth_goes_on_after_a_compaction_and_a_rewrite_cuts_what_was_merged(eager: Plant) -> None:
    path = grow(eager, "T1/grown.csv", steps=12)
    eager.keep_house()
    text = path.read_text()
    path.write_text(text + line(30))
    eager.ingest(path)
    assert eager.rows("select readings from disarray.segment") == [(13,)]
    assert eager.rows(FRAGMENTS) == [(2, 2)]
    # The last third is another story now: what was merged is cut there.
    path.write_text(text[: len(text) * 2 // 3].rpartition("\n")[0] + "\n" + "".join(map(line, range(20, 40))))
    eager.ingest(path)
    late = eager.derived()
    eager.keep_house()
    assert eager.derived() == late
    eager.forget_everything()
    eager.ingest(path)
    assert eager.derived() == late


def test_what_is_warm_or_large_or_few_is_left_alone(plant: Plant) -> None:
    grow(plant, "T1/grown.csv", steps=9)
    for rules in (
        replace(EAGER, cold_after=timedelta(hours=1)),
        replace(EAGER, compact_fragments=10),
        replace(EAGER, compact_readings=1),
    ):
        plant.place = replace(plant.place, housekeeping=rules)
        assert plant.keep_house() == []
    plant.place = replace(plant.place, housekeeping=replace(EAGER, compact_fragments=9))
    [report] = plant.keep_house()
    assert len(report.kept) == 1


def test_a_parked_fragment_and_what_it_shares_are_left_where_they_lie(strict_plant: Plant) -> None:
    strict_plant.place = replace(strict_plant.place, housekeeping=EAGER)
    first = grow(strict_plant, "T1/first.csv", steps=5)
    strict_plant.ingest(strict_plant.write("T1/new.csv", "time,watts,good\n" + line(60 * 9)))
    # Too late, and the same bytes: it names the fragments of the first, and counts for nothing.
    strict_plant.ingest(strict_plant.write("T1/copy.csv", first.read_text()))
    before = strict_plant.rows("select * from disarray.fragment order by fragment_id")
    assert strict_plant.keep_house() == []
    assert strict_plant.rows("select * from disarray.fragment order by fragment_id") == before


def test_copies_share_what_was_merged_and_each_outlives_the_other(eager: Plant) -> None:
    path = grow(eager, "T1/a.csv", steps=10)
    copy = eager.write("T1/b.csv", path.read_text())
    eager.ingest(copy)
    before = eager.derived()
    eager.keep_house()
    named = "select source_uri, path, row_group from disarray.fragment where state = 'active' order by 1"
    (first, *place), (second, *same) = eager.rows(named)
    assert (first, second, place) == (str(path), str(copy), same)
    for gone in (copy, path):
        with eager.pool.connection() as connection:
            blacklist.blacklist_file(connection, str(gone), "T1", reason="a test", by="ada")
        eager.drain()
        if gone is copy:
            assert eager.derived() == before
    assert eager.derived()["segments"] == []


def test_a_copy_that_is_cut_leaves_what_the_other_still_says(eager: Plant) -> None:
    # The greater name is rewritten in its tail: the lesser one still says what it said there.
    path = grow(eager, "T1/a.csv", steps=10)
    copy = eager.write("T1/b.csv", path.read_text())
    eager.ingest(copy)
    eager.keep_house()
    text = path.read_text()
    copy.write_text(text[: len(text) // 2].rpartition("\n")[0] + "\n" + "".join(map(line, range(20, 40))))
    eager.ingest(copy)
    apart = eager.derived()
    assert eager.rows("select readings from disarray.segment") == [(30,)]
    eager.forget_everything()
    eager.ingest(path, copy)
    assert eager.derived() == apart


def test_a_segment_that_changed_since_it_was_planned_is_planned_again(
    eager: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(eager, "T1/grown.csv", steps=6)
    changed: list[bool] = []

    def changed_first(*arguments: Any, **named: Any) -> Any:
        results = compact_subjects(*arguments, **named)
        if not changed:
            changed.append(True)
            eager.rows("update disarray.segment set revision = revision + 1 returning 1")
        return results

    monkeypatch.setattr(subject_upkeep, "compact_subjects", changed_first)
    before = eager.derived()
    [report] = eager.keep_house()
    assert report.kept[0].segments_compacted == 1
    assert eager.derived() == before


def test_whoever_planned_on_fragments_that_were_merged_has_to_plan_again(eager: Plant) -> None:
    path = grow(eager, "T1/grown.csv", steps=6)
    eager.rows("update disarray.segment set revision = 40 returning 1")
    eager.keep_house()
    assert eager.rows("select revision from disarray.segment") == [(41,)]
    path.write_text(path.read_text() + line(40))
    [report] = eager.ingest(path)
    assert not report.lost_subjects


def test_a_compaction_that_would_change_a_segment_is_refused_whole(eager: Plant) -> None:
    grow(eager, "T1/grown.csv", steps=6)
    eager.rows("update disarray.segment set digest = 'another' returning 1")
    before = eager.rows("select * from disarray.fragment order by fragment_id")
    [report] = eager.keep_house()
    assert "would no longer say what it says" in next(iter(report.failed.values()))
    assert eager.rows("select * from disarray.fragment order by fragment_id") == before


def test_a_damaged_fragment_fails_its_subject_and_no_other(eager: Plant) -> None:
    grow(eager, "T1/grown.csv", steps=6)
    [(path,)] = eager.rows("select path from disarray.fragment order by fragment_id limit 1")
    (eager.place.lake.root / str(path)).unlink()
    grow(eager, "T2/grown.csv", steps=6)
    [report] = eager.keep_house()
    assert [kept.subject_key for kept in report.kept] == ["T2"]
    assert len(report.failed) == 1


def test_a_worker_that_lost_its_subject_compacts_nothing(
    eager: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(eager, "T1/grown.csv", steps=6)

    def fenced(*arguments: Any, **named: Any) -> Any:
        eager.rows("update disarray.subject_lock set fence = fence + 1 returning 1")
        return compact_subjects(*arguments, **named)

    monkeypatch.setattr(subject_upkeep, "compact_subjects", fenced)
    before = eager.rows("select * from disarray.fragment order by fragment_id")
    with eager.pool.connection() as connection:
        housekeeping.queue_compaction(connection, ["T1"])
    report = next(iter(Scheduler(eager.place).drain()))
    assert report.lost_subjects == ("T1",)
    assert eager.rows("select * from disarray.fragment order by fragment_id") == before


def test_a_commit_cannot_name_a_file_that_the_vacuum_has_got_hold_of(eager: Plant) -> None:
    path = grow(eager, "T1/a.csv", steps=1)
    eager.rows("update disarray.lake_file set doomed_at = now() returning 1")
    copy = eager.write("T1/b.csv", path.read_text())
    eager.notify(copy)
    before = eager.derived()
    report = Scheduler(eager.place).process_batch()
    assert report is not None
    assert report.lost_subjects == ("T1",)
    assert eager.derived() == before


def rewritten(made: list[Delivery], generator: random.Random) -> list[Delivery]:
    """Some files once more, their tail another one, of the same length at least: what was read is cut."""
    again = []
    for delivery in made:
        kept = delivery.text[: generator.randrange(len(HEADER), len(delivery.text) + 1)]
        kept = kept[: kept.rindex("\n") + 1]
        tail = "".join(rows(generator, 30))
        if generator.random() < 0.4:
            again.append(Delivery(delivery.name, kept + tail))
    return again


@pytest.fixture(
    scope="module",
    params=['key = "content"', 'key = ["part"]', 'key = "none"'],
    ids=["content", "part", "none"],
)
def line_plant(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_dsn: str
) -> Iterator[Plant]:
    """A plant for all examples of one kind of key; what comes in place of what was there replaces it."""
    description = DATASET % {"key": f'{request.param}\non_shrink = "replace"'}
    plant = Plant(tmp_path_factory.mktemp("line"), shared_dsn, description=description)
    plant.place = replace(plant.place, housekeeping=EAGER)
    yield plant
    plant.pool.close()


def live(plant: Plant, made: list[Delivery], seed: int, *, compacts: bool) -> None:
    """The same history of growth, copies, rewrites, removals and late files, with or without compactions in between."""
    history, chance = random.Random(seed), random.Random(seed + 1)
    plant.forget_everything()
    for path in plant.inbox.rglob("*.csv"):
        path.unlink()

    def pause() -> None:
        if compacts and chance.random() < 0.5:
            plant.keep_house()

    pending = [(delivery, [*delivery.steps, len(delivery.text)]) for delivery in made]
    while pending:
        delivery, steps = history.choice(pending)
        plant.ingest(plant.write(delivery.name, delivery.text[: steps.pop(0)]))
        pending = [(other, rest) for other, rest in pending if rest]
        pause()
    for delivery in rewritten(made, history):
        plant.ingest(plant.write(delivery.name, delivery.text))
        pause()
    gone = history.choice(made)
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(
            connection, str(plant.inbox / gone.name), gone.name.partition("/")[0], reason="x", by="y"
        )
    plant.drain()
    pause()
    if compacts:
        plant.keep_house()


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_no_history_tells_whether_segments_were_compacted_meanwhile(line_plant: Plant, seed: int) -> None:
    made = deliveries(seed)
    live(line_plant, made, seed, compacts=False)
    plain, plain_readings = line_plant.derived(), told(line_plant)
    live(line_plant, made, seed, compacts=True)
    assert line_plant.derived() == plain
    assert told(line_plant) == plain_readings
