"""What followers of a subject hear: every commit that changed a number, in order, and exactly what it changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from disarray.control import audit_catalog, blacklist, claims, instances, subject_commits
from disarray.control.subject_commits import ChangedBuckets
from disarray.engine.jobs import scan_job
from disarray.errors import CommitsDroppedError, DatabaseUnavailableError, InvalidRequestError
from disarray.kernels.scanning import rollup_blocks
from disarray.store import staging
from disarray.worker.passes import rows
from disarray.worker.passes.ingest import process_items
from disarray.worker.process.scheduler import Scheduler
from tests.plant import Plant
from tests.wire import Cut, Wire
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from disarray.control.subject_commits import CommitNotice

pytestmark = pytest.mark.postgres

Key = TypeVar("Key")

START = datetime(2025, 10, 1, tzinfo=UTC)
HOUR, STEP = timedelta(hours=1), timedelta(minutes=5)
WEEKLY = (
    '\n[dataset.rollups.weekly]\nbucket = "1 week"\n[dataset.rollups.weekly.aggregates]\nreadings = "count"\n'
)
# Hourly buckets in a day's segment, and weeks that cross segments.
LONG = DATASET.replace('segment = "1 h"', 'segment = "1 d"') + WEEKLY
METRICS = DATASET[DATASET.index("[dataset.metrics.energy]") : DATASET.index("[dataset.rollups.hourly]")]


@pytest.fixture
def long_plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    """A plant whose segments hold many buckets of one rollup, and parts of buckets of another."""
    built = Plant(tmp_path, dsn, description=LONG)
    yield built
    built.pool.close()


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


def report(hour: int, *, rows: int = 12, factor: float = 1.0, ending: str = "\n") -> str:
    lines = [
        f"{(START + hour * HOUR + row * STEP).isoformat()},{(hour * 0.1 + row / 7) * factor},{row}{ending}"
        for row in range(rows)
    ]
    return f"time,watts,good{ending}" + "".join(lines)


def micro(instant: datetime) -> int:
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def commits_of(
    plant: Plant, subject: str = "T1", *, dataset: str = "tools", after: int = 0
) -> list[CommitNotice]:
    with plant.pool.connection() as connection:
        return subject_commits.list_commits(connection, subject, dataset, after_seq=after)


def numbers(plant: Plant, subject: str = "T1", *, dataset: str = "tools") -> list[int]:
    return [notice.commit_seq for notice in commits_of(plant, subject, dataset=dataset)]


def content(plant: Plant) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """What each segment and each bucket says, read from the tables themselves."""
    segments: dict[Any, Any] = {
        row[0]: row[1] for row in plant.rows("select segment_us, digest from disarray.segment")
    }
    buckets: dict[Any, Any] = {}
    for rollup, bucket_us, part in plant.rows(
        "select rollup, bucket_us, to_jsonb(part) from disarray.rollup as part order by part"
    ):
        buckets.setdefault((rollup, bucket_us), []).append(part)
    return segments, buckets


def differing(left: dict[Key, Any], right: dict[Key, Any]) -> set[Key]:
    return {key for key in left.keys() | right.keys() if left.get(key) != right.get(key)}


def test_subjects_that_commit_side_by_side_are_numbered_each_without_a_gap(plant: Plant) -> None:
    for hour in range(4):
        plant.ingest(*(plant.write(f"T{tool}/{hour}.csv", report(hour)) for tool in range(4)))
    for tool in range(4):
        notices = commits_of(plant, f"T{tool}")
        assert [notice.commit_seq for notice in notices] == [1, 2, 3, 4]
        assert [notice.committed_at for notice in notices] == sorted(each.committed_at for each in notices)
        assert [notice.changed_from for notice in notices] == [START + hour * HOUR for hour in range(4)]
    assert plant.rows("select count(distinct (run_id, subject_key)) from disarray.subject_commit") == [(16,)]
    with plant.pool.connection() as connection:
        assert audit_catalog.audit_commits(connection, limit=9) == []
        connection.execute("delete from disarray.subject_commit where subject_key = 'T1' and commit_seq = 2")
        [found] = audit_catalog.audit_commits(connection, limit=9)
    assert found.rule == "commits_are_numbered_without_gaps"


def test_a_commit_whose_answer_is_lost_is_noted_once(remote_plant: Plant, wire: Wire) -> None:
    remote_plant.ingest(remote_plant.write("T1/0.csv", report(0)))
    wire.armed = Cut.AFTER_COMMIT
    remote_plant.ingest(remote_plant.write("T1/1.csv", report(1)))
    assert wire.cuts == 1
    remote_plant.ingest(remote_plant.write("T1/2.csv", report(2)))
    assert numbers(remote_plant) == [1, 2, 3]


def test_a_commit_that_never_arrived_leaves_no_number_behind(remote_plant: Plant, wire: Wire) -> None:
    path = remote_plant.write("T1/0.csv", report(0))
    wire.armed = Cut.BEFORE_COMMIT
    with pytest.raises(DatabaseUnavailableError):
        remote_plant.ingest(path)
    assert numbers(remote_plant) == []
    remote_plant.drain()
    assert numbers(remote_plant) == [1]


def test_a_worker_whose_subject_was_taken_over_notes_nothing(
    plant: Plant, advance_clock: Callable[[timedelta], None]
) -> None:
    plant.notify(plant.write("T1/0.csv", report(0)))
    with plant.pool.connection() as connection:
        items = claims.fetch_items(connection, plant.place.holder)
        advance_clock(timedelta(days=1))
        other = instances.register_instance(connection, "Worker02")
        assert claims.fetch_items(connection, other) != []
    late = process_items(plant.place, items, on_step=lambda: None)
    assert late.lost_subjects == ("T1",)
    assert numbers(plant) == []


def test_what_changes_no_number_is_no_commit_for_followers(plant: Plant) -> None:
    path = plant.write("T1/0.csv", report(0))
    plant.ingest(path)
    plant.ingest(path)
    plant.ingest(plant.write("T1/copy.csv", report(0)))
    path.write_bytes(report(0, ending="\r\n").encode())
    plant.ingest(path)
    assert numbers(plant) == [1]


def test_compaction_and_sealing_are_not_heard_of(tmp_path: Path, dsn: str) -> None:
    plant = Plant(tmp_path, dsn, description=DATASET.replace("key = []", 'key = []\nretain = "1 d"'))
    rules = replace(plant.place.housekeeping, cold_after=timedelta(0), compact_fragments=2)
    plant.place = replace(plant.place, housekeeping=rules)
    for hour, rows_ in ((0, 12), (60, 3), (60, 6), (60, 9)):
        plant.ingest(plant.write(f"T1/{hour}-{rows_}.csv", report(hour, rows=rows_, factor=1 + rows_)))
    before = numbers(plant)
    reports = plant.keep_house()
    kept = [each for report_ in reports for each in report_.kept]
    assert sum(each.segments_sealed for each in kept) == 1
    assert sum(each.segments_compacted for each in kept) == 1
    assert numbers(plant) == before
    plant.pool.close()


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_late_file_names_the_segments_and_buckets_that_it_changed_and_no_other(
    long_plant: Plant, monkeypatch: pytest.MonkeyPatch, *, is_streamed: bool
) -> None:
    if is_streamed:
        monkeypatch.setattr(scan_job, "INLINE_ROWS", 3)
        monkeypatch.setattr(staging, "_BATCH_SUMMARIES", 4)
        monkeypatch.setattr(rollup_blocks, "BLOCK_PARTS", 4)
        monkeypatch.setattr(rows, "STATEMENT_BYTES", 1000)
    hours = [0, 1, 5, 6, 30, 54, 200]
    long_plant.ingest(*(long_plant.write(f"T1/{hour}.csv", report(hour)) for hour in hours))
    before = content(long_plant)
    # One hour that was empty, and one that has readings of other files as well.
    late = [long_plant.write(f"T1/late{hour}.csv", report(hour, rows=13, factor=2)) for hour in (3, 29)]
    long_plant.ingest(*late)
    after = content(long_plant)
    segments, buckets = (differing(*pair) for pair in zip(before, after, strict=True))
    assert len(segments) == 2
    assert len(buckets) == 5
    [notice] = commits_of(long_plant, after=1)
    assert notice.changed_from == START
    assert notice.changed_to is None
    assert set(notice.changed_segments or ()) == segments
    assert notice.changed_buckets == {
        rollup: ChangedBuckets(buckets=tuple(sorted(us for name, us in buckets if name == rollup)))
        for rollup in ("hourly", "weekly")
    }


def test_a_file_that_is_blacklisted_takes_its_buckets_away_and_followers_hear_which(
    long_plant: Plant,
) -> None:
    long_plant.ingest(*(long_plant.write(f"T1/{hour}.csv", report(hour)) for hour in (0, 30)))
    with long_plant.pool.connection() as connection:
        blacklist.blacklist_file(
            connection, str(long_plant.inbox / "T1/30.csv"), "T1", reason="wrong", by="ada"
        )
    long_plant.drain()
    [_, notice] = commits_of(long_plant)
    assert notice.changed_segments == (micro(START + 24 * HOUR),)
    assert notice.changed_buckets is not None
    assert notice.changed_buckets["hourly"].buckets == (micro(START + 30 * HOUR),)
    assert notice.changed_buckets.keys() == {"hourly", "weekly"}


def test_more_segments_and_buckets_than_can_be_named_are_all_from_the_first_on(plant: Plant) -> None:
    lines = "".join(f"{(START + hour * HOUR).isoformat()},1.5,1\n" for hour in range(1_001))
    plant.ingest(plant.write("T1/long.csv", "time,watts,good\n" + lines))
    [notice] = commits_of(plant)
    assert notice.changed_from == START
    assert (notice.changed_segments, notice.changed_buckets) == (None, None)


def test_of_more_than_a_thousand_buckets_followers_hear_the_first(long_plant: Plant) -> None:
    lines = "".join(f"{(START + hour * HOUR).isoformat()},1.5,1\n" for hour in range(5, 1_010))
    long_plant.ingest(long_plant.write("T1/long.csv", "time,watts,good\n" + lines))
    [notice] = commits_of(long_plant)
    assert len(notice.changed_segments or ()) == 43
    assert notice.changed_buckets is not None
    assert notice.changed_buckets["hourly"] == ChangedBuckets(from_us=micro(START + 5 * HOUR))
    assert len(notice.changed_buckets["weekly"].buckets) == 7


def test_without_metrics_a_change_ends_with_its_segments(tmp_path: Path, dsn: str) -> None:
    plant = Plant(tmp_path, dsn, description=DATASET.replace(METRICS, ""))
    plant.ingest(*(plant.write(f"T1/{hour}.csv", report(hour)) for hour in (0, 9)))
    plant.ingest(plant.write("T1/late.csv", report(4)))
    notice = commits_of(plant)[-1]
    assert (notice.changed_from, notice.changed_to) == (START + 4 * HOUR, START + 5 * HOUR)
    plant.pool.close()


def test_a_shift_that_was_put_off_is_a_commit_of_its_own_once_it_is_done(plant: Plant) -> None:
    plant.ingest(*(plant.write(f"T1/{hour}.csv", report(hour)) for hour in (0, 4, 9)))
    plant.place = replace(plant.place, max_shift_rows=0)
    plant.notify(plant.write("T1/late.csv", report(2)))
    assert Scheduler(plant.place).process_batch() is not None
    [_, late] = commits_of(plant)
    assert late.changed_segments == (micro(START + 2 * HOUR),)
    bases = plant.rows(
        "select base_int from disarray.segment_metric where metric = 'good_total' order by segment_us"
    )
    plant.drain()
    assert (
        plant.rows(
            "select base_int from disarray.segment_metric where metric = 'good_total' order by segment_us"
        )
        != bases
    )
    [_, _, shift] = commits_of(plant)
    assert (shift.changed_from, shift.changed_to) == (START + 2 * HOUR, None)
    assert (shift.changed_segments, shift.changed_buckets) == ((), {})
    assert [(shift.run_id, "T1")] == plant.rows(
        "select run_id, subject_key from disarray.run order by committed_at desc limit 1"
    )


def test_a_commit_that_does_the_shift_of_another_says_so_in_its_own_span(plant: Plant) -> None:
    plant.ingest(*(plant.write(f"T1/{hour}.csv", report(hour)) for hour in (0, 4, 9)))
    plant.place = replace(plant.place, max_shift_rows=0)
    plant.notify(plant.write("T1/late.csv", report(2)))
    assert Scheduler(plant.place).process_batch() is not None
    plant.place = replace(plant.place, max_shift_rows=100_000)
    plant.ingest(plant.write("T1/10.csv", report(10)))
    [_, late, newest] = commits_of(plant)
    assert late.changed_segments == (micro(START + 2 * HOUR),)
    assert (newest.changed_from, newest.changed_to) == (START + 2 * HOUR, None)
    assert newest.changed_segments == (micro(START + 10 * HOUR),)
    assert newest.changed_buckets == {"hourly": ChangedBuckets(buckets=(micro(START + 10 * HOUR),))}


def test_a_new_definition_tells_followers_that_everything_may_differ(plant: Plant) -> None:
    plant.ingest(*(plant.write(f"T1/{hour}.csv", report(hour)) for hour in (0, 9)))
    plant.redefine(DATASET + WEEKLY)
    plant.drain()
    [_, rebuilt] = commits_of(plant)
    assert rebuilt.is_redefined
    assert (rebuilt.changed_from, rebuilt.changed_to) == (None, None)
    assert (rebuilt.changed_segments, rebuilt.changed_buckets) == (None, None)


def test_commits_are_kept_for_the_slowest_follower_and_numbers_go_on(
    plant: Plant, advance_clock: Callable[[timedelta], None]
) -> None:
    plant.ingest(plant.write("T1/0.csv", report(0)))
    keep = timedelta(days=2)
    with plant.pool.connection() as connection:
        for follower in ("fast", "slow"):
            assert subject_commits.follow_commits(connection, follower, "T1", "tools") == 1
    for hour in (1, 2, 3):
        plant.ingest(plant.write(f"T1/{hour}.csv", report(hour)))
    with plant.pool.connection() as connection:
        assert subject_commits.drop_commits(connection, keep=keep) == 0
        advance_clock(timedelta(days=3))
        for follower, seq in (("fast", 4), ("slow", 2)):
            subject_commits.advance_follower(connection, follower, "T1", "tools", commit_seq=seq)
        assert subject_commits.advance_follower(connection, "fast", "T1", "tools", commit_seq=3) == 4
        assert [
            (each.commit_seq, each.newest_seq) for each in subject_commits.list_followers(connection)
        ] == [
            (4, 4),
            (2, 4),
        ]
        assert subject_commits.drop_commits(connection, keep=keep, is_rehearsal=True) == 2
        assert subject_commits.drop_commits(connection, keep=keep) == 2
        slow = subject_commits.list_commits(connection, "T1", "tools", after_seq=2)
        assert [notice.commit_seq for notice in slow] == [3, 4]
        with pytest.raises(CommitsDroppedError):
            subject_commits.list_commits(connection, "T1", "tools", after_seq=1)
        assert subject_commits.unfollow_commits(connection, "slow") == 1
        # The newest is older than that, and every follower has done it: the next number follows from it.
        assert subject_commits.drop_commits(connection, keep=keep) == 1
    plant.ingest(plant.write("T1/5.csv", report(5)))
    assert [notice.commit_seq for notice in commits_of(plant, after=4)] == [5]


def test_housekeeping_drops_commits_after_their_time(
    plant: Plant, advance_clock: Callable[[timedelta], None]
) -> None:
    for hour in (0, 1):
        plant.ingest(plant.write(f"T1/{hour}.csv", report(hour)))
    advance_clock(timedelta(days=29))
    plant.keep_house()
    assert numbers(plant) == [1, 2]
    advance_clock(timedelta(days=2))
    plant.keep_house()
    assert [notice.commit_seq for notice in commits_of(plant, after=1)] == [2]


def test_a_follower_goes_no_further_than_there_are_commits_and_only_where_it_follows(plant: Plant) -> None:
    plant.ingest(plant.write("T1/0.csv", report(0)))
    with plant.pool.connection() as connection:
        with pytest.raises(InvalidRequestError, match="does not follow"):
            subject_commits.advance_follower(connection, "sink", "T1", "tools", commit_seq=1)
        subject_commits.follow_commits(connection, "sink", "T1", "tools")
        with pytest.raises(InvalidRequestError, match="has no commit 2 yet"):
            subject_commits.advance_follower(connection, "sink", "T1", "tools", commit_seq=2)
        with pytest.raises(InvalidRequestError, match="needs a name"):
            subject_commits.follow_commits(connection, "", "T1", "tools")
        assert subject_commits.follow_commits(connection, "sink", "NEW", "tools") == 0
