"""Nobody starves: no subject behind a busy one, no suspect behind files that harm nobody, no lane behind the other."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from disarray.control import files, housekeeping
from disarray.control.claims import FetchPolicy
from disarray.control.files import Notification
from disarray.control.queue import Lane

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.control.stage import Actor, Stage

pytestmark = pytest.mark.postgres


class Flow:
    """A queue in which some subjects get new files before every fetch, and time goes on."""

    def __init__(self, stage: Stage, *, worker_count: int) -> None:
        self.stage = stage
        self.workers = [stage.actor(f"Worker{number:02}") for number in range(worker_count)]
        for worker in self.workers:
            worker.start()
        self.tick = 0

    def feed(self, subjects: Iterable[str], *, files_each: int = 1) -> None:
        notifications = [
            Notification(f"file:///{subject}/{self.tick}/{number}", subject)
            for subject in subjects
            for number in range(files_each)
        ]
        files.enqueue_files(self.stage.watcher, notifications)
        self.tick += 1
        self.stage.advance(timedelta(milliseconds=100))

    def feed_backfill(self, subjects: list[str]) -> None:
        """A compaction of each subject; those that were never seen are made known."""
        self.stage.watcher.execute(
            "insert into disarray.subject (subject_key, first_seen_at, has_numbers)"
            " select unnest(%s::text[]), now(), true on conflict do nothing",
            (subjects,),
        )
        housekeeping.queue_compaction(self.stage.watcher, subjects)
        self.stage.advance(timedelta(milliseconds=100))

    def served(self, worker: Actor, policy: FetchPolicy, *, keeps_running: bool = False) -> set[str]:
        """The subjects of the worker's next batch; its batch before is done by then, or just after."""
        if not keeps_running:
            worker.complete()
        before = len(worker.items)
        claimed = worker.claim(policy)
        if keeps_running:
            worker.items = worker.items[:before]
            worker.complete()
            worker.items = claimed
        return {item.subject_key for item in claimed}


@pytest.mark.parametrize("keeps_running", [False, True], ids=["batch by batch", "always busy"])
@pytest.mark.parametrize("worker_count", [1, 2])
@pytest.mark.parametrize("give_way_batches", [1, 3])
def test_every_subject_is_served_within_a_bounded_number_of_batches_of_a_steady_flow(
    stage: Stage, worker_count: int, give_way_batches: int, keeps_running: bool
) -> None:
    flow = Flow(stage, worker_count=worker_count)
    policy = FetchPolicy(limit=2, give_way_batches=give_way_batches)
    flow.feed(["BUSY"], files_each=20)
    for worker in flow.workers:
        flow.served(worker, policy, keeps_running=keeps_running)
    patient = ["PATIENT1", "PATIENT2", "PATIENT3"]
    flow.feed(patient)
    seen: set[str] = set()
    for _ in range(2 * (give_way_batches + 1) * len(patient)):
        for worker in flow.workers:
            flow.feed(["BUSY"], files_each=3)
            seen |= flow.served(worker, policy, keeps_running=keeps_running)
    assert set(patient) <= seen
    assert "BUSY" in seen


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    subject_count=st.integers(2, 5),
    worker_count=st.integers(1, 3),
    policy=st.builds(
        FetchPolicy,
        limit=st.integers(1, 6),
        max_subjects=st.integers(1, 3),
        give_way_batches=st.integers(1, 4),
    ),
)
def test_no_subject_waits_longer_than_the_shares_of_all_others(
    stage: Stage, subject_count: int, worker_count: int, policy: FetchPolicy
) -> None:
    stage.clear()
    flow = Flow(stage, worker_count=worker_count)
    subjects = [f"TOOL{number}" for number in range(subject_count)]
    flow.feed(subjects, files_each=5)
    waited: Counter[str] = Counter()
    bound = policy.give_way_batches * (subject_count - 1) + worker_count
    for _ in range(2 * bound + 2):
        for worker in flow.workers:
            flow.feed(subjects, files_each=2)
            served = flow.served(worker, policy)
            for subject in subjects:
                waited[subject] = 0 if subject in served else waited[subject] + 1
            assert max(waited.values()) <= bound * worker_count


@pytest.mark.parametrize("keeps_running", [False, True], ids=["batch by batch", "always busy"])
def test_a_suspect_gets_its_turn_while_the_worker_stays_on_several_busy_subjects(
    stage: Stage, keeps_running: bool
) -> None:
    flow, victim = Flow(stage, worker_count=1), stage.actor("Victim")
    [worker] = flow.workers
    policy = FetchPolicy(limit=2, max_subjects=2, give_way_batches=3, give_way_seconds=3)
    flow.feed(["SUSPECT"])
    victim.claim()
    # One batch apart: there is no fetch at which both have had their share.
    flow.feed(["BUSY1"], files_each=4)
    flow.served(worker, policy, keeps_running=keeps_running)
    flow.feed(["BUSY2"], files_each=4)
    flow.served(worker, policy, keeps_running=keeps_running)
    victim.items.clear()
    victim.start()
    served: list[set[str]] = []
    for _ in range(15):
        flow.feed(["BUSY1", "BUSY2"], files_each=2)
        stage.advance(timedelta(seconds=1))
        served.append(flow.served(worker, policy, keeps_running=keeps_running))
    assert {"SUSPECT"} in served


def test_a_file_that_kills_its_worker_ends_as_a_dead_letter_and_harms_no_other(stage: Stage) -> None:
    flow = Flow(stage, worker_count=1)
    [worker] = flow.workers
    mates = [f"file:///TOOL01/mate{number}" for number in range(4)]
    stage.enqueue("file:///TOOL01/killer", *mates, subject="TOOL01")
    stage.enqueue("file:///TOOL02/bystander", subject="TOOL02")
    deaths = 0
    for _ in range(40):
        batch = worker.claim(FetchPolicy(max_subjects=2, give_way_seconds=5))
        if "file:///TOOL01/killer" in {item.source_uri for item in batch}:
            deaths += 1
            worker.items.clear()
            worker.start()
        else:
            worker.complete()
        stage.advance(timedelta(seconds=1))
    assert deaths == 5
    status = {record.source_uri: record.status for record in files.list_files(stage.watcher)}
    assert status.pop("file:///TOOL01/killer") == "failed"
    assert set(status.values()) == {"processed"}
    assert all(stage.times_completed(uri) == 1 for uri in (*mates, "file:///TOOL02/bystander"))


def test_other_subjects_flow_while_a_suspect_runs_alone(stage: Stage) -> None:
    stage.enqueue("file:///TOOL01/killer", subject="TOOL01")
    victim, other = stage.actor("Worker01"), stage.actor("Worker02")
    victim.claim()
    victim.items.clear()
    victim.start()
    assert [item.retry_count for item in victim.claim()] == [1]
    for number in range(5):
        stage.enqueue(f"file:///TOOL02/{number}", subject="TOOL02")
        assert victim.claim() == []
        assert [item.source_uri for item in other.claim()] == [f"file:///TOOL02/{number}"]
        other.complete()


def make_known(stage: Stage, subjects: Iterable[str]) -> None:
    stage.watcher.execute(
        "insert into disarray.subject (subject_key, first_seen_at, has_numbers) select unnest(%s::text[]), now(), true",
        (list(subjects),),
    )


@pytest.fixture(params=[0, 1], ids=["even fence", "odd fence"])
def fences_taken(stage: Stage, request: pytest.FixtureRequest) -> int:
    """Claims of before: whose turn it is follows from how many there were."""
    count = 100 + int(request.param)
    stage.watcher.execute("select setval('disarray.fence_seq', %s)", (count,))
    return count


SIZES = pytest.mark.parametrize("max_subjects", [1, 2, 8, 64])


@SIZES
@pytest.mark.usefixtures("fences_taken")
def test_subjects_that_somebody_invented_do_not_keep_one_with_numbers_waiting(
    stage: Stage, max_subjects: int
) -> None:
    flow = Flow(stage, worker_count=1)
    [worker] = flow.workers
    make_known(stage, ["HONEST"])
    flow.feed([f"INVENTED{number}" for number in range(200)])
    flow.feed(["HONEST"])
    policy = FetchPolicy(limit=max_subjects, max_subjects=max_subjects, give_way_batches=1)
    served: list[str] = []
    while len(served) < 2:
        flow.served(worker, policy)
        served += [item.subject_key for item in worker.items]
    assert "HONEST" in served[:2]


@SIZES
@pytest.mark.usefixtures("fences_taken")
def test_a_newcomer_is_not_kept_waiting_by_those_that_have_numbers(stage: Stage, max_subjects: int) -> None:
    flow = Flow(stage, worker_count=1)
    [worker] = flow.workers
    known = [f"TOOL{number}" for number in range(200)]
    make_known(stage, known)
    policy = FetchPolicy(limit=max_subjects, max_subjects=max_subjects, give_way_batches=1)
    flow.feed(known)
    for number in range(4):
        flow.feed([f"NEW{number}"])
        served: list[str] = []
        while len(served) < 2:
            flow.served(worker, policy)
            served += [item.subject_key for item in worker.items]
            flow.feed(known)
        assert f"NEW{number}" in served[:2]


@pytest.mark.parametrize("sizes", [(1,), (2,), (64,), (1, 1), (1, 2), (5, 8, 64)], ids=str)
@pytest.mark.parametrize("holds_one", [False, True], ids=["nothing held", "one held"])
@pytest.mark.usefixtures("fences_taken")
def test_known_subjects_and_newcomers_take_turns_whoever_claims_and_how_many_at_once(
    stage: Stage, sizes: tuple[int, ...], holds_one: bool
) -> None:
    flow = Flow(stage, worker_count=len(sizes))
    busy = [f"BUSY{number}" for number, size in enumerate(sizes) if holds_one and size > 1]
    known = [f"TOOL{number:03}" for number in range(100)]
    make_known(stage, [*busy, *known])
    policies = [FetchPolicy(limit=2 * size, max_subjects=size, give_way_batches=1000) for size in sizes]
    # Each of those that claim several stays on one, which takes no fence again.
    for subject in busy:
        flow.feed([subject])
        assert flow.served(flow.workers[int(subject[4:])], FetchPolicy()) == {subject}
    flow.feed([*known, *(f"NEW{number:03}" for number in range(100))])
    in_turn: list[bool] = []
    while len(in_turn) < 150:
        for worker, policy in zip(flow.workers, policies, strict=True):
            flow.feed(busy)
            flow.served(worker, policy)
            free = {item.fence: item.subject_key for item in worker.items if item.subject_key not in busy}
            in_turn += [free[fence] in known for fence in sorted(free)]
    pairs = set(pairwise(in_turn[:150]))
    assert pairs == {(True, False), (False, True)}


@pytest.mark.parametrize("max_subjects", [1, 2, 5, 64])
@pytest.mark.usefixtures("fences_taken")
def test_turns_of_the_backfill_lane_take_no_more_from_one_side_than_from_the_other(
    stage: Stage, max_subjects: int
) -> None:
    flow = Flow(stage, worker_count=1)
    [worker] = flow.workers
    known = [f"TOOL{number:03}" for number in range(150)]
    make_known(stage, known)
    flow.feed_backfill([f"OLD{number}" for number in range(100)])
    flow.feed([*known, *(f"NEW{number:03}" for number in range(150))])
    policy = FetchPolicy(limit=2 * max_subjects, max_subjects=max_subjects)
    live: list[str] = []
    while len(live) < 120:
        flow.served(worker, policy)
        live += [item.subject_key for item in worker.items if item.lane is Lane.LIVE]
    # Two of the same side around a turn of the backfill lane, never three.
    sides = [subject in known for subject in live[:120]]
    assert all(len(set(sides[at : at + 3])) == 2 for at in range(118))


def test_a_live_file_is_never_behind_a_thousand_backfill_orders(stage: Stage) -> None:
    flow = Flow(stage, worker_count=1)
    [worker] = flow.workers
    flow.feed_backfill([f"OLD{number}" for number in range(1000)])
    for number in range(10):
        flow.feed([f"LIVE{number}"])
        served = [flow.served(worker, FetchPolicy()) for _ in range(2)]
        assert {f"LIVE{number}"} in served


def test_a_live_file_is_not_behind_the_backfill_orders_of_its_own_subject(stage: Stage) -> None:
    flow = Flow(stage, worker_count=1)
    [worker] = flow.workers
    stage.watcher.execute(
        """
        insert into disarray.ingest_queue (kind, lane, subject_key, dataset, reason, enqueued_at, available_at)
        select 'copy', 'backfill', 'TOOL01', 'dataset' || number, 'copy', disarray.clock(), disarray.clock()
        from generate_series(1, 1000) as number
        """
    )
    flow.feed_backfill(["TOOL01"])
    assert {item.lane for item in worker.claim()} == {Lane.BACKFILL}
    flow.feed(["TOOL01"])
    lanes = [{item.lane for item in worker.claim()} for _ in range(2)]
    assert {Lane.LIVE} in lanes


@pytest.mark.parametrize("keeps_running", [False, True], ids=["batch by batch", "always busy"])
@pytest.mark.parametrize(("live_count", "max_subjects"), [(1, 1), (5, 1), (5, 3)])
def test_one_turn_in_five_is_of_the_backfill_lane_while_both_have_something(
    stage: Stage, live_count: int, max_subjects: int, keeps_running: bool
) -> None:
    flow = Flow(stage, worker_count=1)
    [worker] = flow.workers
    live = [f"LIVE{number}" for number in range(live_count)]
    policy = FetchPolicy(limit=12, max_subjects=max_subjects, give_way_batches=3)
    flow.feed_backfill([*live, *(f"OLD{number}" for number in range(100))])
    turns: Counter[Lane] = Counter()
    compacted: list[str] = []
    for _ in range(60):
        flow.feed(live, files_each=3)
        flow.served(worker, policy, keeps_running=keeps_running)
        lanes = {item.subject_key: item.lane for item in worker.items}
        turns.update(lanes.values())
        compacted += [subject for subject, lane in lanes.items() if lane is Lane.BACKFILL]
    assert abs(turns[Lane.BACKFILL] - turns.total() / 5) <= 1
    # Each in its turn, those under load like the others.
    assert len(set(compacted)) == len(compacted)
    assert set(live) <= set(compacted)


def test_without_live_work_every_turn_is_of_the_backfill_lane(stage: Stage) -> None:
    flow = Flow(stage, worker_count=1)
    [worker] = flow.workers
    flow.feed_backfill([f"OLD{number}" for number in range(8)])
    assert [len(flow.served(worker, FetchPolicy(max_subjects=4))) for _ in range(3)] == [4, 4, 0]


def test_a_subject_that_gave_its_turn_to_the_backfill_lane_is_free_for_others(stage: Stage) -> None:
    flow = Flow(stage, worker_count=2)
    [worker, other] = flow.workers
    flow.feed_backfill(["OLD"])
    for _ in range(5):
        flow.feed(["BUSY"], files_each=2)
        served = flow.served(worker, FetchPolicy())
    assert served == {"OLD"}
    assert flow.served(other, FetchPolicy()) == {"BUSY"}


def test_backfill_whose_lease_ran_out_is_claimed_again_by_the_call_that_frees_it(stage: Stage) -> None:
    flow = Flow(stage, worker_count=1)
    flow.feed_backfill(["TOOL01"])
    policy = FetchPolicy(limit=1, lease_seconds=30)
    assert [item.lane for item in flow.workers[0].claim(policy)] == [Lane.BACKFILL]
    stage.advance(timedelta(seconds=31))
    assert [item.lane for item in flow.workers[0].claim(policy)] == [Lane.BACKFILL]
