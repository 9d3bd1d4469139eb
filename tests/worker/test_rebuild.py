"""A dataset that is defined anew: old numbers until the swap, and then those of a fresh ingest, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from disarray.control import blacklist, definitions, instances, quarantine, values
from disarray.control.files import Notification, Reason
from disarray.engine.runner import InProcessRunner
from disarray.errors import NotBuiltYetError, SupersededDefinitionError
from disarray.formats.loader import load_datasets
from disarray.model.segments import microseconds_of
from disarray.queries.metric_values import value_at
from disarray.queries.names import find_metric, find_subjects
from disarray.store.registering import register
from disarray.worker.passes import committing, ingest, rebuilding
from disarray.worker.passes.rehearsal import rehearse
from disarray.worker.process.scheduler import Scheduler
from disarray.worker.workplace import Workplace
from tests.plant import Plant
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from disarray.worker.passes.report import PassReport

pytestmark = pytest.mark.postgres

START = datetime(2026, 10, 1, tzinfo=UTC)
PEAK = '[dataset.metrics.peak]\nkind = "max"\ninput = "watts"\n'
DAILY = """[dataset.rollups.daily]
bucket = "1 day"
[dataset.rollups.daily.aggregates]
top = { function = "max", input = "watts" }
"""
LARGEST = DATASET.replace('kind = "sum"\ninput = "good"', 'kind = "max"\ninput = "good"')
GOOD = '[dataset.columns.good]\ntype = "int64"'

SCAN_CHANGES = {
    "a metric more": DATASET + PEAK,
    "a metric of another kind": LARGEST,
    "a metric less": DATASET.replace('[dataset.metrics.good_total]\nkind = "sum"\ninput = "good"\n', ""),
    "another gap": DATASET.replace('max_gap = "10 min"', 'max_gap = "20 s"'),
    "a rollup more": DATASET + DAILY,
    "another bucket": DATASET.replace('bucket = "1 hour"', 'bucket = "15 min"'),
    "another key": DATASET.replace("key = []", 'key = "content"'),
    "an attribute": DATASET + "[dataset.attributes.T1]\nfactor = 2.0\n",
}
PARSE_CHANGES = {
    "a column of another type": DATASET.replace(GOOD, GOOD.replace("int64", "float64")),
    "a column read from another": DATASET.replace(GOOD, GOOD + '\nfrom = "spare"'),
    "longer segments": DATASET.replace('segment = "1 h"', 'segment = "2 h"'),
    "shorter segments": DATASET.replace('segment = "1 h"', 'segment = "7 min"'),
    "an order": DATASET.replace("key = []", 'key = "content"\norder_by = ["good"]'),
}


def report(*hours: int, rows: int = 120, step: int = 30, watts: float = 0.1) -> str:
    lines = [
        f"{(START + timedelta(hours=hour, seconds=step * row)).isoformat()},"
        f"{watts * hour + row / 7},{row % 3},{row % 5}\n"
        for hour in hours
        for row in range(rows)
    ]
    return "time,watts,good,spare\n" + "".join(lines)


@pytest.fixture
def full(plant: Plant) -> Plant:
    """A plant with two subjects, overlapping files and a copy."""
    plant.ingest(
        plant.write("T1/a.csv", report(0, 1)),
        plant.write("T1/b.csv", report(1, 2, rows=60, step=45, watts=0.3)),
        plant.write("T1/copy.csv", report(0, 1)),
        plant.write("T2/a.csv", report(5)),
    )
    return plant


def everything(plant: Plant) -> list[Path]:
    return sorted(plant.inbox.glob("*/*.csv"))


def assert_as_fresh(plant: Plant, *paths: Path) -> None:
    """The numbers are those of one ingest of these files, or all, under the definition in force."""
    rebuilt = plant.derived()
    assert plant.rows("select count(*) from disarray.dirty_range where resolved_at is null") == [(0,)]
    plant.forget_everything()
    plant.ingest(*(paths or everything(plant)))
    assert plant.derived() == rebuilt


def pending(plant: Plant) -> list[str]:
    with plant.pool.connection() as connection:
        return [each.subject_key for each in definitions.list_rebuilds(connection)]


def newest(plant: Plant, metric: str, subject: str = "T1") -> float | None:
    with plant.pool.connection() as connection:
        subjects = find_subjects(connection, plant.datasets, subject_key=subject)
        found, chosen = find_metric(subjects, metric)
        [value] = value_at(
            connection, plant.place.lake, dataset=found.dataset, subject_key=subject, metric=chosen
        ).values
    return value.number


@pytest.mark.parametrize("description", SCAN_CHANGES.values(), ids=SCAN_CHANGES)
def test_a_change_of_scanning_gives_the_numbers_of_a_fresh_ingest_and_reads_no_file(
    full: Plant, description: str
) -> None:
    before = full.derived()
    full.redefine(description)
    assert full.derived() == before
    kept = {path: path.read_text() for path in everything(full)}
    for path in kept:
        path.unlink()
    fragments = full.rows("select fragment_id, state from disarray.fragment order by 1")
    assert [each.failed for each in full.drain()] == [{}]
    assert pending(full) == []
    assert full.rows("select fragment_id, state from disarray.fragment order by 1") == fragments
    for path, text in kept.items():
        path.write_text(text)
    assert_as_fresh(full)


@pytest.mark.parametrize("description", PARSE_CHANGES.values(), ids=PARSE_CHANGES)
def test_a_change_of_parsing_gives_the_numbers_of_a_fresh_ingest(full: Plant, description: str) -> None:
    before = full.derived()
    full.redefine(description)
    assert full.derived() == before
    assert [each.failed for each in full.drain()] == [{}]
    assert pending(full) == []
    version = full.datasets["tools"].parse_version
    for table in ("file_info", "file_fingerprint", "fragment where state = 'active'"):
        name, _, condition = table.partition(" ")
        assert full.rows(f"select distinct parse_version from disarray.{name} {condition}") == [(version,)]
    assert full.rows("select distinct status::text from disarray.file_info") == [("processed",)]
    assert_as_fresh(full)


def test_segments_of_another_length_lie_in_other_blocks_also_where_they_have_the_same_readings(
    plant: Plant,
) -> None:
    plant.ingest(plant.write("T1/a.csv", report(3, 12, 18, rows=10)))
    plant.redefine(DATASET.replace('segment = "1 h"', 'segment = "3 h"'))
    assert [each.failed for each in plant.drain()] == [{}]
    misplaced = """
        select summary.segment_us
        from disarray.segment_summary as summary
        inner join disarray.subject_version as made using (dataset, subject_key)
        where summary.block_us <> telemetry.block_of(summary.segment_us, made.block_length_us)
    """
    assert plant.rows(misplaced) == []
    assert_as_fresh(plant)


def test_an_attribute_of_one_subject_costs_the_others_no_scan(full: Plant) -> None:
    for factor in (1.0, 2.0):
        attributes = f'[dataset.attributes."*"]\nfactor = 0.5\n[dataset.attributes.T1]\nfactor = {factor}\n'
        full.redefine(DATASET + attributes)
        [done] = full.drain()
    assert {plan.subject_key: len(plan.units) for plan in done.plans} == {"T1": 3, "T2": 0}


def test_old_numbers_are_served_until_the_swap_also_when_others_change(full: Plant) -> None:
    total, energy = newest(full, "good_total"), newest(full, "energy")
    full.redefine(LARGEST + PEAK)
    assert newest(full, "good_total") == total
    with full.pool.connection() as connection:
        connection.execute("delete from disarray.ingest_queue")
        inside = value_at(
            connection,
            full.place.lake,
            dataset=find_subjects(connection, full.datasets, subject_key="T1")[0].dataset,
            subject_key="T1",
            metric=full.datasets["tools"].metrics[1],
            at_us=microseconds_of(START + timedelta(minutes=30)),
        )
    assert inside.segments_read == 1
    full.ingest(full.write("T2/late.csv", report(3)))
    assert pending(full) == ["T1"]
    assert (newest(full, "good_total"), newest(full, "energy")) == (total, energy)
    with pytest.raises(NotBuiltYetError, match="is not built yet for T1: 1 of 2 subjects rebuilt"):
        newest(full, "peak")
    assert newest(full, "peak", "T2") == pytest.approx(0.5 + 119 / 7)


def test_a_shift_of_bases_left_open_is_done_by_the_old_kinds(full: Plant) -> None:
    before = full.derived()
    full.redefine(LARGEST)
    with full.pool.connection() as connection:
        connection.execute("delete from disarray.ingest_queue where reason = 'rebuild'")
        connection.execute(
            """
            insert into disarray.dirty_range (subject_key, range_start, range_end, reason, created_at)
            values ('T1', '2026-10-01 00:00Z', 'infinity', 'a test', now())
            """
        )
    full.drain()
    assert full.rows("select count(*) from disarray.dirty_range where resolved_at is null") == [(0,)]
    assert full.derived() == before


def test_a_file_that_comes_before_the_rebuild_brings_it_along_in_one_commit(full: Plant) -> None:
    full.redefine(PARSE_CHANGES["longer segments"])
    with full.pool.connection() as connection:
        connection.execute("delete from disarray.ingest_queue where reason = 'rebuild'")
    commits = full.rows("select count(*) from disarray.run where subject_key = 'T1'")[0][0]
    assert isinstance(commits, int)
    [done] = full.ingest(full.write("T1/late.csv", report(7)))
    assert not done.failed
    assert full.rows("select count(*) from disarray.run where subject_key = 'T1'") == [(commits + 1,)]
    assert pending(full) == ["T2"]
    with full.pool.connection() as connection:
        assert definitions.queue_rebuilds(connection, dataset=None, subject_key=None) == 1
    full.drain()
    assert_as_fresh(full)


def test_a_removal_that_waits_with_the_rebuild_is_done_with_it(full: Plant) -> None:
    full.redefine(PARSE_CHANGES["shorter segments"])
    gone = full.inbox / "T1/b.csv"
    with full.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(gone), "T1", reason="doubt", by="ada")
    full.drain()
    assert_as_fresh(full, *(path for path in everything(full) if path != gone))


def test_a_vanished_file_stops_the_rebuild_of_its_subject_and_old_numbers_stay(full: Plant) -> None:
    lost = full.inbox / "T1/b.csv"
    text = lost.read_text()
    lost.unlink()
    before = [row for row in full.derived()["metrics"] if row[1] == "T1"]
    full.redefine(PARSE_CHANGES["longer segments"])
    reports = full.drain()
    messages = [message for each in reports for message in each.failed.values()]
    assert len(messages) == 1
    assert messages[0].startswith(
        "T1 waits for its rebuild under the new definition of dataset 'tools': 1 of its "
    )
    assert f"{lost} (the file is gone)" in messages[0]
    assert "disarray rebuild --dataset tools --subject T1" in messages[0]
    assert [row for row in full.derived()["metrics"] if row[1] == "T1"] == before
    assert pending(full) == ["T1"]
    # What comes meanwhile waits, however often: it is no dead letter.
    new = full.write("T1/new.csv", report(8))
    for _ in range(7):
        full.ingest(new, reason=Reason.BACKFILL)
    assert full.rows(f"select status::text from disarray.file_info where source_uri = '{new}'") == [
        ("pending",)
    ]
    assert [row for row in full.derived()["metrics"] if row[1] == "T1"] == before
    # The file is back.
    lost.write_text(text)
    with full.pool.connection() as connection:
        definitions.queue_rebuilds(connection, dataset="tools", subject_key="T1")
    full.drain()
    assert pending(full) == []
    assert full.rows("select count(*) from disarray.ingest_queue") == [(0,)]
    assert_as_fresh(full)


def test_a_vanished_file_that_is_blacklisted_goes_with_the_rebuild(full: Plant) -> None:
    lost = full.inbox / "T1/b.csv"
    lost.unlink()
    full.redefine(PARSE_CHANGES["longer segments"])
    full.drain()
    with full.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(lost), "T1", reason="gone for good", by="ada")
    full.drain()
    assert pending(full) == []
    assert_as_fresh(full)


def test_a_definition_that_cannot_read_the_files_takes_nothing_away(full: Plant) -> None:
    before = full.derived()
    full.redefine(DATASET.replace("[dataset.columns.good]\n", '[dataset.columns.good]\nfrom = "misspelt"\n'))
    reports = full.drain()
    assert all("cannot be read again" in message for each in reports for message in each.failed.values())
    assert full.derived() == before
    full.redefine(DATASET + PEAK)
    full.drain()
    assert_as_fresh(full)


def test_a_file_that_says_less_now_is_not_taken_for_what_it_said(full: Plant) -> None:
    path = full.inbox / "T1/a.csv"
    path.write_text(report(0, rows=5, watts=7))
    before = [row for row in full.derived()["metrics"] if row[1] == "T1"]
    full.redefine(PARSE_CHANGES["longer segments"])
    messages = [message for each in full.drain() for message in each.failed.values()]
    assert ["it was replaced by a version that says less" in message for message in messages] == [True]
    assert [row for row in full.derived()["metrics"] if row[1] == "T1"] == before
    full.ingest(path, reason=Reason.REINGEST)
    assert pending(full) == []
    assert_as_fresh(full)


def test_a_crash_between_subjects_repeats_only_those_that_are_not_done(
    full: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    full.redefine(PARSE_CHANGES["longer segments"])
    commit = committing.commit_work
    done: list[str] = []

    def commit_one(*arguments: object, **named: object) -> object:
        if done:
            raise KeyboardInterrupt
        result = commit(*arguments, **named)  # type: ignore[arg-type]
        done.append("a subject")
        return result

    monkeypatch.setattr(ingest, "commit_work", commit_one)
    monkeypatch.setattr(ingest, "COMMITS_AT_A_TIME", 1)
    with pytest.raises(KeyboardInterrupt):
        full.drain()
    monkeypatch.setattr(ingest, "commit_work", commit)
    [waiting] = pending(full)
    with full.pool.connection() as connection:
        holder = instances.register_instance(connection, "Worker01")
    place = replace(full.place, holder=holder)
    again = list(Scheduler(place).drain())
    assert [plan.subject_key for each in again for plan in each.plans] == [waiting]
    assert_as_fresh(replaced(full, place))


def replaced(plant: Plant, place: Workplace) -> Plant:
    plant.place = place
    return plant


def test_a_superseded_definition_is_refused_and_can_be_put_in_force_again_on_purpose(full: Plant) -> None:
    before = full.derived()
    full.redefine(LARGEST)
    full.drain()
    with pytest.raises(
        SupersededDefinitionError, match=r"as it was until .* run: disarray rebuild --dataset tools"
    ):
        full.redefine(DATASET)
    assert pending(full) == []
    full.redefine(DATASET, is_on_purpose=True)
    full.drain()
    assert full.derived() == before


def test_going_back_before_anything_was_rebuilt_costs_nothing(full: Plant) -> None:
    before = full.derived()
    full.redefine(LARGEST)
    full.redefine(DATASET, is_on_purpose=True)
    assert pending(full) == []
    reports = full.drain()
    assert [plan for each in reports for plan in each.plans] == []
    assert full.derived() == before
    assert full.rows("select count(*) from disarray.ingest_queue") == [(0,)]


def test_a_worker_whose_definition_was_replaced_stops_and_its_items_go_back_uncounted(full: Plant) -> None:
    with full.pool.connection() as connection:
        holder = instances.register_instance(connection, "Worker02")
    outdated = Workplace(full.pool, InProcessRunner(), full.place.lake, dict(full.datasets), holder)
    full.redefine(LARGEST)
    with pytest.raises(SupersededDefinitionError, match="no longer in force; it is replaced since"):
        Scheduler(outdated).process_batch()
    assert full.rows("select distinct status::text, retry_count from disarray.ingest_queue") == [
        ("available", 0)
    ]
    assert full.rows("select count(*) from disarray.subject_lock") == [(0,)]
    full.drain()
    assert_as_fresh(full)


def test_a_commit_under_a_definition_that_was_replaced_during_the_pass_changes_nothing(
    full: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = full.derived()
    commit = committing.commit_work
    [changed] = load_datasets(_written(full, LARGEST))

    def replaced_first(*arguments: object, **named: object) -> object:
        with full.pool.connection() as connection:
            definitions.register_dataset(connection, changed)
        return commit(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(ingest, "commit_work", replaced_first)
    full.notify(full.write("T1/new.csv", report(9)))
    with pytest.raises(SupersededDefinitionError):
        full.drain()
    assert full.derived() == before
    assert full.rows("select reason::text, retry_count from disarray.ingest_queue order by 1") == [
        ("file_notification", 0),
        ("rebuild", 0),
        ("rebuild", 0),
    ]


def _written(plant: Plant, description: str) -> Path:
    plant.description.write_text(description)
    return plant.description


def test_a_rebuild_restates_metrics_that_both_definitions_have_and_names_the_definition(full: Plant) -> None:
    full.redefine(LARGEST.replace("[dataset.metrics.energy]", "[dataset.metrics.work]") + PEAK)
    full.drain()
    with full.pool.connection() as connection:
        noted = values.list_restatements(connection)
    assert {
        (each.subject_key, each.metric, each.is_redefined, tuple(each.source_uris)) for each in noted
    } == {("T1", "good_total", True, ())}


def test_what_is_in_quarantine_stays_there_through_a_rebuild(strict_plant: Plant) -> None:
    strict = strict_plant.description.read_text()
    strict_plant.ingest(strict_plant.write("T1/new.csv", report(9, 10, 11, 12)))
    late = strict_plant.write("T1/late.csv", report(2, 3, 8))
    strict_plant.ingest(late)
    strict_plant.redefine(strict.replace('type = "int64"', 'type = "float64"'))
    strict_plant.drain()
    assert pending(strict_plant) == []
    states = (
        "select state::text, sum(readings)::int from disarray.fragment where state <> 'dropped' group by 1"
    )
    assert strict_plant.rows(states + " order by 1") == [("active", 5 * 120), ("parked", 240)]
    status = f"select status::text from disarray.file_info where source_uri = '{late}'"
    assert strict_plant.rows(status) == [("parked",)]
    with strict_plant.pool.connection() as connection:
        quarantine.release_file(connection, str(late), reason="it was right", by="ada")
    strict_plant.drain()
    assert_as_fresh_in_order(strict_plant)


def assert_as_fresh_in_order(plant: Plant) -> None:
    released = plant.derived()
    plant.forget_everything()
    plant.ingest(*everything(plant))
    assert plant.derived() == released


def test_a_release_that_waits_for_a_rebuild_is_previewed_by_the_old_definition_and_done_with_it(
    strict_plant: Plant,
) -> None:
    strict = strict_plant.description.read_text()
    strict_plant.ingest(strict_plant.write("T1/new.csv", report(9, 10)))
    late = strict_plant.write("T1/late.csv", report(2))
    strict_plant.ingest(late)
    strict_plant.redefine(strict.replace('segment = "1 h"', 'segment = "3 h"').replace("good_total", "goods"))
    notification = Notification(str(late), "T1", Reason.RELEASE, {"dataset": "tools", "release": "readings"})
    with strict_plant.pool.connection() as connection:
        [preview] = rehearse(
            connection, [notification], datasets=strict_plant.datasets, lake=strict_plant.place.lake
        ).plans
        quarantine.release_file(connection, str(late), reason="it was right", by="ada")
    assert preview.is_rebuild_pending
    assert {each.metric: each.new for each in preview.impact.totals}["good_total"] == 3 * 120
    strict_plant.drain()
    assert pending(strict_plant) == []
    assert_as_fresh_in_order(strict_plant)


def test_a_release_that_is_done_with_a_rebuild_lets_nothing_count_that_was_rejected(
    strict_plant: Plant,
) -> None:
    strict = strict_plant.description.read_text()
    strict_plant.ingest(strict_plant.write("T1/new.csv", report(9, 10, 11, 12)))
    late = strict_plant.write("T1/late.csv", report(2, 8))
    strict_plant.ingest(late)
    with strict_plant.pool.connection() as connection:
        quarantine.reject_file(connection, str(late), reason="another cell", by="ada")
    late.write_text(report(2, 8, 3))
    strict_plant.ingest(late)
    strict_plant.redefine(strict.replace('type = "int64"', 'type = "float64"'))
    with strict_plant.pool.connection() as connection:
        quarantine.release_file(connection, str(late), reason="it was right", by="ada")
    strict_plant.drain()
    assert pending(strict_plant) == []
    states = f"""
        select state::text, array_agg(distinct segment_us order by segment_us) from disarray.fragment
        where source_uri = '{late}' and state <> 'dropped' group by 1 order by 1
    """
    hours = {hour: microseconds_of(START + timedelta(hours=hour)) for hour in (2, 3, 8)}
    assert strict_plant.rows(states) == [("active", [hours[3], hours[8]]), ("rejected", [hours[2]])]


def test_sealed_segments_keep_the_numbers_that_mean_the_same(full: Plant) -> None:
    first_us = microseconds_of(START)
    with full.pool.connection() as connection:
        connection.execute(
            "update disarray.segment set sealed_at = now() where subject_key = 'T1' and segment_us = %s",
            (first_us,),
        )
        connection.execute(
            """
            update disarray.fragment set state = 'sealed', dropped_at = now()
            where subject_key = 'T1' and segment_us = %s
            """,
            (first_us,),
        )
    full.redefine(LARGEST + PEAK)
    assert [each.failed for each in full.drain()] == [{}]
    kept = full.rows(
        f"select metric from disarray.segment_metric where subject_key = 'T1' and segment_us = {first_us}"
    )
    assert kept == [("energy",)]
    full.redefine(PARSE_CHANGES["longer segments"])
    messages = [message for each in full.drain() for message in each.failed.values()]
    assert ["segments of another length cannot be made of them" in message for message in messages] == [True]


def test_reports_of_a_rebuild_say_so(full: Plant) -> None:
    full.redefine(LARGEST)
    reports: list[PassReport] = full.drain()
    assert {each.arrival.value for report_ in reports for each in report_.committed} == {
        "rebuilt under a new definition"
    }


def test_files_that_are_about_another_subject_now_are_moved_to_it(full: Plant) -> None:
    by_name = DATASET.replace("path = '^(?P<subject>[^/]+)/'", "file_name = '^(?P<subject>[a-z]+)'")
    full.redefine(by_name)
    reports = full.drain()
    assert [message for each in reports for message in each.failed.values()] == []
    assert full.rows("select distinct subject_key from disarray.segment order by 1") == [
        ("a",),
        ("b",),
        ("copy",),
    ]
    assert_as_fresh(full)


def test_rebuilds_of_long_histories_are_committed_one_after_the_other(
    full: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuilding, "PORTION_READINGS", 10)
    full.redefine(LARGEST)
    [done] = full.drain()
    assert len(done.plans) == 2
    runs = full.rows(
        "select count(distinct run_id), count(*) from disarray.run where metadata::text like '%rebuilt%'"
    )
    assert runs == [(2, 2)]
    assert_as_fresh(full)


def test_rebuilds_give_way_to_a_file_that_comes_meanwhile(
    full: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuilding, "PORTION_READINGS", 10)
    full.ingest(*(full.write(f"T{number}/a.csv", report(5)) for number in (3, 4, 5)))
    full.redefine(LARGEST)
    process, fresh = ingest._process, full.write("T9/a.csv", report(3))

    def then_a_file_comes(*given: Any, **named: Any) -> None:
        process(*given, **named)
        if not full.rows("select from disarray.file_info where subject_key = 'T9'"):
            full.notify(fresh)

    monkeypatch.setattr(ingest, "_process", then_a_file_comes)
    first, second, *_ = full.drain()
    assert {plan.plan.subject_key for plan in first.committed} == {"T2"}
    assert len(first.given_back) == 4
    assert "T9" in {plan.plan.subject_key for plan in second.committed}
    # One turn was taken from it, and none of its attempts.
    assert full.rows("select count(*) from disarray.ingest_queue where retry_count > 0") == [(0,)]
    assert_as_fresh(full)


def test_rebuilds_take_small_portions_while_live_work_comes(
    full: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuilding, "BUSY_READINGS_A_CORE", 10)
    scheduler = Scheduler(full.place)
    rebuilt = "select count(distinct run_id) from disarray.run where metadata::text like '%rebuilt%'"
    full.redefine(LARGEST)
    list(scheduler.drain())
    assert full.rows(rebuilt) == [(1,)]
    full.notify(full.write("T9/a.csv", report(3)))
    list(scheduler.drain())
    full.redefine(LARGEST.replace('kind = "max"', 'kind = "min"'))
    list(scheduler.drain())
    assert full.rows(rebuilt) == [(1 + 3,)]
    assert_as_fresh(full)


def test_live_orders_of_a_batch_come_before_its_rebuilds(full: Plant) -> None:
    full.redefine(LARGEST)
    full.notify(full.write("T9/a.csv", report(3)))
    [done] = full.drain()
    assert done.committed[0].plan.subject_key == "T9"
    # In a run of its own: it is readable before the first of them is looked at.
    runs = full.rows(
        "select count(*) from disarray.run where run_id in (select run_id from disarray.run where subject_key = 'T9')"
    )
    assert runs == [(1,)]
    assert_as_fresh(full)


@pytest.fixture
def table(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A plant whose readings that count lie in a table of the database as well."""
    built = Plant(tmp_path, dsn, description=in_table(DATASET))
    built.ingest(built.write("T1/a.csv", report(0, 1)), built.write("T2/a.csv", report(5)))
    yield built
    built.pool.close()


def in_table(description: str) -> str:
    return description.replace("key = []", 'key = []\nstore = "timescale"')


def rows_of(plant: Plant) -> list[tuple[object, ...]]:
    """The table, but for what stands for nothing: the numbers of its sources."""
    names = plant.rows(
        "select string_agg(quote_ident(attname), ', ' order by attname) from pg_attribute "
        "where attrelid = 'telemetry.tools'::regclass and attnum > 0 and not attisdropped and attname <> '_source_id'"
    )
    return plant.rows(f"select {names[0][0]} from telemetry.tools order by subject_key, event_at, ordinal")


@pytest.mark.parametrize(
    "description",
    [LARGEST + PEAK, PARSE_CHANGES["a column of another type"], PARSE_CHANGES["longer segments"]],
    ids=["scanning", "parsing", "segments"],
)
def test_a_table_of_readings_is_rebuilt_with_its_subject(table: Plant, description: str) -> None:
    table.redefine(in_table(description))
    assert newest(table, "good_total") == 240
    assert [message for each in table.drain() for message in each.failed.values()] == []
    rebuilt = rows_of(table)
    assert pending(table) == []
    assert table.rows("select count(*) from disarray.segment where table_digest is null") == [(0,)]
    assert_as_fresh(table)
    assert rows_of(table) == rebuilt


def test_a_table_whose_columns_came_and_went_is_whole_again(table: Plant) -> None:
    before = rows_of(table)
    table.redefine(in_table(LARGEST))
    with pytest.raises(SupersededDefinitionError):
        table.redefine(in_table(DATASET))
    table.redefine(in_table(DATASET), is_on_purpose=True)
    assert newest(table, "good_total") == 240
    table.drain()
    assert rows_of(table) == before
    assert table.rows("select count(*) from disarray.segment where table_digest is null") == [(0,)]


def test_a_definition_that_is_in_force_already_waits_for_no_commit(full: Plant) -> None:
    dataset = full.datasets["tools"]
    with full.pool.connection() as frozen, full.pool.connection() as starting:
        with frozen.transaction():
            definitions.assert_in_force(frozen, [dataset])
            starting.execute("set lock_timeout = '1s'")
            assert register(starting, dataset) == 0
        starting.execute("reset lock_timeout")
