"""Readings that are too late: parked, previewed, released or rejected, and never silently applied."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from disarray.control import blacklist, events, quarantine, values
from disarray.control.files import Notification, Reason
from disarray.errors import InvalidRequestError, NotQuarantinedError
from disarray.model.segments import microseconds_of
from disarray.worker.passes import committing, ingest
from disarray.worker.passes.rehearsal import rehearse

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.control.previews import CommitPreview
    from tests.plant import Plant

pytestmark = pytest.mark.postgres

START = datetime(2026, 10, 1, tzinfo=UTC)


def report(*hours: int, rows: int = 120, step: int = 30, watts: float = 0.1) -> str:
    lines = [
        f"{(START + timedelta(hours=hour, seconds=step * row)).isoformat()},{watts * hour + row / 7},{row % 3}\n"
        for hour in hours
        for row in range(rows)
    ]
    return "time,watts,good\n" + "".join(lines)


@pytest.fixture
def late(strict_plant: Plant) -> Path:
    """A file of which one hour is in time and two are too late, after hours 0 and 9 to 12 were ingested."""
    strict_plant.ingest(strict_plant.write("T1/0.csv", report(0)))
    strict_plant.ingest(strict_plant.write("T1/new.csv", report(9, 10, 11, 12)))
    path = strict_plant.write("T1/late.csv", report(2, 3, 8))
    strict_plant.ingest(path)
    return path


def states(plant: Plant, path: Path) -> list[tuple[object, ...]]:
    return plant.rows(
        f"""
        select state::text, sum(readings)::int from disarray.fragment
        where source_uri = '{path}' group by 1 order by 1
        """
    )


def status_of(plant: Plant, path: Path) -> object:
    return plant.rows(f"select status::text from disarray.file_info where source_uri = '{path}'")[0][0]


def preview(plant: Plant, path: Path, release: str = "readings") -> CommitPreview:
    notification = Notification(str(path), "T1", Reason.RELEASE, {"dataset": "tools", "release": release})
    with plant.pool.connection() as connection:
        # Whoever decides needs no more than the role of operators to see what about.
        connection.execute("set role disarray_operator")
        [found] = rehearse(connection, [notification], datasets=plant.datasets, lake=plant.place.lake).plans
        connection.execute("reset role")
    return found.impact


def test_what_is_beyond_the_horizon_is_parked_and_the_rest_of_the_file_flows_on(
    strict_plant: Plant, late: Path
) -> None:
    assert states(strict_plant, late) == [("active", 120), ("parked", 240)]
    assert status_of(strict_plant, late) == "parked"
    with strict_plant.pool.connection() as connection:
        [waiting] = quarantine.list_quarantine(connection)
    assert (waiting.segments, waiting.readings, waiting.why) == (2, 240, "beyond the horizon")
    assert waiting.first_us == microseconds_of(START + timedelta(hours=2))
    assert len(strict_plant.derived()["segments"]) == 6


def test_a_preview_changes_nothing_and_tells_bit_for_bit_what_the_release_then_does(
    strict_plant: Plant, late: Path
) -> None:
    before = strict_plant.derived()
    impact = preview(strict_plant, late)
    assert strict_plant.derived() == before
    with strict_plant.pool.connection() as connection:
        assert quarantine.release_file(connection, str(late), reason="clock was right", by="ada") is not None
    strict_plant.drain()
    with strict_plant.pool.connection() as connection:
        known = values.list_restatements(connection)
    noted = [each for each in known if each.restated_at == known[0].restated_at]
    assert {
        (
            each.metric, each.channel, microseconds_of(each.changed_from), microseconds_of(each.changed_to or START),
            each.first_old, each.first_new, each.old, each.new, each.delta, each.least, each.greatest,
        )
        for each in noted
    } == {
        (
            each.metric, each.channel, each.from_us, each.to_us, each.old_first, each.new_first, each.old_last,
            each.new_last, each.delta, each.least, each.greatest,
        )
        for each in impact.spans
    }  # fmt: skip
    assert {each.metric for each in noted} == {"energy", "good_total"}
    assert {each.metric: each.new for each in impact.totals}["good_total"] == 8 * 120
    changed = set(strict_plant.derived()["rollups"]) ^ set(before["rollups"])
    assert {row[5] for row in changed} == {bucket.bucket_us for bucket in impact.buckets}
    assert impact.frontier_us == microseconds_of(START + timedelta(hours=2))


def test_a_release_needs_no_source_file_and_gives_the_numbers_of_files_in_order(
    strict_plant: Plant, late: Path
) -> None:
    text = late.read_text()
    late.unlink()
    with strict_plant.pool.connection() as connection:
        quarantine.release_file(connection, str(late), reason="clock was right", by="ada")
    strict_plant.drain()
    assert status_of(strict_plant, late) == "processed"
    released = strict_plant.derived()
    strict_plant.forget_everything()
    late.write_text(text)
    strict_plant.ingest(strict_plant.inbox / "T1/0.csv", late)
    strict_plant.ingest(strict_plant.inbox / "T1/new.csv")
    assert strict_plant.derived() == released


def release_readings(plant: Plant, path: Path) -> None:
    with plant.pool.connection() as connection:
        quarantine.release_file(connection, str(path), reason="clock was right", by="ada", part="readings")


@pytest.mark.parametrize("when", ["one-pass", "one-pass-announced-first", "two-passes"])
def test_released_readings_count_though_the_file_says_something_else_there_by_now(
    strict_plant: Plant, late: Path, when: str
) -> None:
    late.write_text(report(2, 3, 4, 8, watts=0.2))
    if when == "one-pass-announced-first":
        strict_plant.notify(late)
    release_readings(strict_plant, late)
    if when == "two-passes":
        strict_plant.drain()
    strict_plant.ingest(late)
    # Hour 4 was never parked before, so nobody decided about it.
    assert states(strict_plant, late) == [("active", 360), ("dropped", 360), ("parked", 120)]
    with strict_plant.pool.connection() as connection:
        [waiting] = quarantine.list_quarantine(connection)
    assert (waiting.segments, waiting.first_us) == (1, microseconds_of(START + timedelta(hours=4)))


def test_a_rejection_drops_what_is_parked_and_nothing_else(strict_plant: Plant, late: Path) -> None:
    before = strict_plant.derived()
    with strict_plant.pool.connection() as connection:
        assert quarantine.reject_file(connection, str(late), reason="another cell", by="ada") == 240
        assert quarantine.list_quarantine(connection) == []
        newest = events.list_file_events(connection, str(late))[0]
    strict_plant.drain()
    assert (newest.event_type, newest.metadata["by"], newest.metadata["reason"]) == (
        "quarantine_rejected",
        "ada",
        "another cell",
    )
    assert states(strict_plant, late) == [("active", 120), ("rejected", 240)]
    assert status_of(strict_plant, late) == "processed"
    assert strict_plant.derived() == before


def test_a_rejection_after_a_release_that_no_worker_has_seen_yet_wins(
    strict_plant: Plant, late: Path
) -> None:
    before = strict_plant.derived()
    with strict_plant.pool.connection() as connection:
        quarantine.release_file(connection, str(late), reason="clock was right", by="ada")
        quarantine.reject_file(connection, str(late), reason="it was not", by="bob")
    strict_plant.drain()
    assert strict_plant.derived() == before
    assert status_of(strict_plant, late) == "processed"


def test_a_decision_without_reason_or_name_or_about_nothing_is_refused(
    strict_plant: Plant, late: Path
) -> None:
    with strict_plant.pool.connection() as connection:
        with pytest.raises(InvalidRequestError, match="needs a reason and a name"):
            quarantine.release_file(connection, str(late), reason=" ", by="ada")
        with pytest.raises(NotQuarantinedError, match="nothing of file"):
            quarantine.reject_file(connection, str(strict_plant.inbox / "T1/0.csv"), reason="x", by="ada")
        assert len(quarantine.list_quarantine(connection)) == 1


def test_growth_keeps_a_file_in_quarantine_until_somebody_decides(strict_plant: Plant, late: Path) -> None:
    late.write_text(late.read_text() + report(9, rows=7, step=31).split("\n", 1)[1])
    strict_plant.ingest(late)
    assert states(strict_plant, late) == [("active", 127), ("parked", 240)]
    assert status_of(strict_plant, late) == "parked"


def test_a_reingest_beyond_the_horizon_leaves_no_hole(strict_plant: Plant) -> None:
    old = strict_plant.write("T1/0.csv", report(0))
    strict_plant.ingest(old)
    strict_plant.ingest(strict_plant.write("T1/new.csv", report(9, 10)))
    before = strict_plant.derived()
    strict_plant.ingest(old, reason=Reason.REINGEST)
    assert strict_plant.derived() == before
    with strict_plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(old), "T1", reason="doubt", by="ada")
    strict_plant.drain()
    with strict_plant.pool.connection() as connection:
        blacklist.allow_file(connection, str(old), reason="no doubt", by="ada")
    strict_plant.drain()
    assert strict_plant.derived() == before


def test_a_version_that_says_less_waits_and_its_release_reads_it(strict_plant: Plant) -> None:
    path = strict_plant.write("T1/9.csv", report(9, rows=100))
    strict_plant.ingest(path)
    before = strict_plant.derived()
    path.write_text(report(9, rows=40, watts=0.2))
    strict_plant.ingest(path)
    assert strict_plant.derived() == before
    with strict_plant.pool.connection() as connection:
        [waiting] = quarantine.list_quarantine(connection)
    assert (waiting.readings, waiting.why) == (0, "says less than before")
    impact = preview(strict_plant, path, "version")
    with strict_plant.pool.connection() as connection:
        quarantine.release_file(connection, str(path), reason="the tool was reset", by="ada")
    strict_plant.drain()
    assert strict_plant.rows("select readings from disarray.segment") == [(40,)]
    totals = strict_plant.rows(
        "select metric, coalesce(base_int + total_int, base_float + total_float) from disarray.segment_metric"
    )
    assert {(each.metric, each.new) for each in impact.totals} == set(totals)
    assert status_of(strict_plant, path) == "processed"


def reject_before_commit(plant: Plant, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an operator reject what is parked when the next pass has planned and not committed."""
    commit = committing.commit_work

    def rejected_first(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(ingest, "commit_work", commit)
        with plant.pool.connection() as connection:
            quarantine.reject_file(connection, str(path), reason="it was not", by="bob")
        return commit(*arguments, **named)

    monkeypatch.setattr(ingest, "commit_work", rejected_first)


def test_a_rejection_between_plan_and_commit_is_planned_around(
    strict_plant: Plant, late: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = strict_plant.derived()
    release_readings(strict_plant, late)
    reject_before_commit(strict_plant, late, monkeypatch)
    first, _ = strict_plant.drain()
    assert first.lost_subjects == ("T1",)
    assert strict_plant.derived() == before
    assert states(strict_plant, late) == [("active", 120), ("rejected", 240)]


def test_what_takes_the_place_of_released_readings_waits_if_they_are_rejected_between_plan_and_commit(
    strict_plant: Plant, late: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late.write_text(report(2, 3, 8, watts=0.2))
    release_readings(strict_plant, late)
    strict_plant.notify(late)
    reject_before_commit(strict_plant, late, monkeypatch)
    first, _ = strict_plant.drain()
    assert first.lost_subjects == ("T1",)
    assert states(strict_plant, late) == [("active", 120), ("dropped", 360), ("parked", 240)]


@pytest.fixture
def twice_parked(strict_plant: Plant, late: Path) -> Path:
    """The late file, whose late readings are parked, and then a version of it that says less."""
    late.write_text(report(8, rows=50, watts=0.2))
    strict_plant.ingest(late)
    return late


def test_parked_readings_and_a_parked_version_are_two_decisions(
    strict_plant: Plant, twice_parked: Path
) -> None:
    before = strict_plant.derived()
    with strict_plant.pool.connection() as connection:
        waiting = quarantine.list_quarantine(connection)
        assert [(each.part, each.why) for each in waiting] == [
            ("readings", "beyond the horizon"),
            ("version", "says less than before"),
        ]
        with pytest.raises(InvalidRequestError, match="two decisions"):
            quarantine.release_file(connection, str(twice_parked), reason="clock was right", by="ada")
    strict_plant.drain()
    assert strict_plant.derived() == before
    assert status_of(strict_plant, twice_parked) == "parked"


def test_released_readings_leave_the_parked_version_where_it_waits(
    strict_plant: Plant, twice_parked: Path
) -> None:
    with strict_plant.pool.connection() as connection:
        quarantine.release_file(
            connection, str(twice_parked), part="readings", reason="clock was right", by="ada"
        )
    strict_plant.drain()
    assert states(strict_plant, twice_parked) == [("active", 360)]
    assert status_of(strict_plant, twice_parked) == "parked"
    with strict_plant.pool.connection() as connection:
        [waiting] = quarantine.list_quarantine(connection)
        assert waiting.part == "version"
        quarantine.release_file(connection, str(twice_parked), reason="the tool was reset", by="ada")
    strict_plant.drain()
    assert states(strict_plant, twice_parked) == [("active", 50), ("dropped", 360)]
    assert status_of(strict_plant, twice_parked) == "processed"


def test_a_released_version_takes_the_place_of_the_readings_that_it_replaces_parked_or_not(
    strict_plant: Plant, twice_parked: Path
) -> None:
    with strict_plant.pool.connection() as connection:
        quarantine.release_file(
            connection, str(twice_parked), part="version", reason="the tool was reset", by="ada"
        )
    strict_plant.drain()
    assert states(strict_plant, twice_parked) == [("active", 50), ("dropped", 360)]
    assert status_of(strict_plant, twice_parked) == "processed"


def test_both_decisions_can_be_made_before_a_worker_comes(strict_plant: Plant, twice_parked: Path) -> None:
    with strict_plant.pool.connection() as connection:
        quarantine.release_file(connection, str(twice_parked), part="version", reason="reset", by="ada")
        quarantine.release_file(connection, str(twice_parked), part="readings", reason="right", by="ada")
    strict_plant.drain()
    assert states(strict_plant, twice_parked) == [("active", 50), ("dropped", 360)]
    with strict_plant.pool.connection() as connection:
        assert quarantine.list_quarantine(connection) == []


def test_a_rejected_version_stays_rejected_until_the_file_says_something_else(
    strict_plant: Plant, twice_parked: Path
) -> None:
    before = strict_plant.derived()
    with strict_plant.pool.connection() as connection:
        # Decided the other way first: the later decision counts.
        quarantine.release_file(connection, str(twice_parked), part="version", reason="reset", by="ada")
        quarantine.reject_file(connection, str(twice_parked), part="version", reason="cut off", by="bob")
    strict_plant.drain()
    assert strict_plant.derived() == before
    strict_plant.ingest(twice_parked)
    strict_plant.ingest(twice_parked, reason=Reason.QUIET)
    with strict_plant.pool.connection() as connection:
        assert [each.part for each in quarantine.list_quarantine(connection)] == ["readings"]
    twice_parked.write_text(report(8, rows=60, watts=0.2))
    strict_plant.ingest(twice_parked)
    with strict_plant.pool.connection() as connection:
        assert [each.part for each in quarantine.list_quarantine(connection)] == ["readings", "version"]
    assert strict_plant.derived() == before


def blacklisted_and_allowed(plant: Plant, path: Path) -> None:
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(path), "T1", reason="doubt", by="ada")
    plant.drain()
    with plant.pool.connection() as connection:
        assert quarantine.list_quarantine(connection) == []
        blacklist.allow_file(connection, str(path), reason="no doubt", by="ada")
    plant.drain()


def test_nothing_of_a_blacklisted_file_waits_for_a_decision_before_a_worker_has_removed_it(
    strict_plant: Plant, twice_parked: Path
) -> None:
    waiting = strict_plant.rows("select * from disarray.list_quarantine()")
    with strict_plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(twice_parked), "T1", reason="doubt", by="ada")
        assert quarantine.list_quarantine(connection) == []
        for decide in (quarantine.release_file, quarantine.reject_file):
            with pytest.raises(NotQuarantinedError):
                decide(connection, str(twice_parked), part="readings", reason="right", by="ada")
        blacklist.allow_file(connection, str(twice_parked), reason="no doubt", by="ada")
    strict_plant.drain()
    assert strict_plant.rows("select * from disarray.list_quarantine()") == waiting


def test_allow_restores_what_counted_and_what_waited_goes_on_waiting(
    strict_plant: Plant, twice_parked: Path
) -> None:
    before = strict_plant.derived()
    waiting = strict_plant.rows("select * from disarray.list_quarantine()")
    blacklisted_and_allowed(strict_plant, twice_parked)
    assert strict_plant.derived() == before
    assert states(strict_plant, twice_parked) == [("active", 120), ("parked", 240)]
    assert status_of(strict_plant, twice_parked) == "parked"
    assert strict_plant.rows("select * from disarray.list_quarantine()") == waiting


def test_allow_leaves_rejected_what_an_operator_rejected(strict_plant: Plant, late: Path) -> None:
    before = strict_plant.derived()
    with strict_plant.pool.connection() as connection:
        quarantine.reject_file(connection, str(late), reason="another cell", by="ada")
    blacklisted_and_allowed(strict_plant, late)
    assert strict_plant.derived() == before
    assert states(strict_plant, late) == [("active", 120), ("rejected", 240)]
    assert status_of(strict_plant, late) == "processed"


def test_allow_needs_no_source_file_and_what_came_meanwhile_is_held_against_the_horizon(
    strict_plant: Plant, late: Path
) -> None:
    before = strict_plant.derived()
    text = late.read_text()
    with strict_plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(late), "T1", reason="doubt", by="ada")
    strict_plant.drain()
    late.unlink()
    with strict_plant.pool.connection() as connection:
        blacklist.allow_file(connection, str(late), reason="no doubt", by="ada")
    strict_plant.drain()
    assert strict_plant.derived() == before
    with strict_plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(late), "T1", reason="doubt", by="ada")
    strict_plant.drain()
    # Grown while nobody looked: an hour too late, and an hour in time.
    late.write_text(text + report(4, 10, rows=5, step=31).split("\n", 1)[1])
    with strict_plant.pool.connection() as connection:
        blacklist.allow_file(connection, str(late), reason="no doubt", by="ada")
    strict_plant.drain()
    assert states(strict_plant, late) == [("active", 125), ("parked", 245)]


def test_a_file_that_never_counted_is_allowed_to_come_not_to_count(strict_plant: Plant, late: Path) -> None:
    never = strict_plant.write("T1/never.csv", report(1, 11, rows=5, step=31))
    with strict_plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(never), "T1", reason="doubt", by="ada")
        blacklist.allow_file(connection, str(never), reason="no doubt", by="ada")
    strict_plant.drain()
    assert states(strict_plant, never) == [("active", 5), ("parked", 5)]
