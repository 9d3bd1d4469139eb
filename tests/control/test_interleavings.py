"""Two and three connections, stepped by script: every order of their steps is a test of its own."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from disarray.control import blacklist, claim_ends, files, instances
from disarray.control.claims import FetchPolicy
from disarray.control.files import Reason
from disarray.errors import LeaseLostError, StaleIncarnationError
from tests.control.stage import LEASE_SECONDS, interleavings

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.control.stage import Actor, Stage

pytestmark = pytest.mark.postgres

Order = tuple[tuple[int, str], ...]


def every_order(*scripts: tuple[str, ...]) -> list[Any]:
    return [
        pytest.param(order, id="-".join(f"{'ABC'[actor]}.{step}" for actor, step in order))
        for order in interleavings(*scripts)
    ]


def is_rejected(step: Callable[[], Any]) -> bool:
    try:
        step()
    except LeaseLostError:
        return True
    return False


def play(stage: Stage, actors: list[Actor], order: Order) -> None:
    """Run the steps one after another; each may succeed only for the one who holds the subject."""
    for number, step in order:
        actor = actors[number]
        holders = stage.holders("TOOL01")
        assert len(holders) <= 1
        mine = set(actor.believes_to_hold("TOOL01"))
        is_stale = actor.holder is not None and is_former_life(stage, actor)
        if step == "restart":
            actor.items.clear()
            actor.start("Worker01")
        elif step == "renew":
            if is_stale:
                with pytest.raises(StaleIncarnationError):
                    actor.renew()
            else:
                assert actor.renew() == (["TOOL01"] if mine & holders else [])
        elif step in ("claim", "steal") and is_stale:
            with pytest.raises(StaleIncarnationError):
                getattr(actor, step)()
        elif step in ("complete", "fail"):
            expected = bool(mine) and not mine & holders
            assert is_rejected(getattr(actor, step)) == expected
            actor.items.clear()
        else:
            getattr(actor, step)()
    assert len(stage.holders("TOOL01")) <= 1
    stage.drain()
    assert stage.times_completed("file:///a") == 1


def is_former_life(stage: Stage, actor: Actor) -> bool:
    living = {one.instance_name: one.incarnation for one in instances.list_instances(stage.watcher)}
    holder = actor.life()
    return living[holder.instance_name] != holder.incarnation


def two_workers(stage: Stage) -> list[Actor]:
    stage.enqueue("file:///a")
    actors = [stage.actor("Worker01"), stage.actor("Worker02")]
    for actor in actors:
        actor.start()
    return actors


@pytest.mark.parametrize(
    "order",
    [
        *every_order(("claim", "renew", "complete"), ("steal", "complete")),
        *every_order(("claim", "fail", "claim"), ("steal", "renew", "complete")),
        *every_order(("claim", "renew", "fail"), ("steal", "fail", "claim")),
        *every_order(("steal", "complete"), ("steal", "complete")),
    ],
)
def test_two_workers_never_hold_one_subject_and_what_is_stolen_is_fenced(stage: Stage, order: Order) -> None:
    play(stage, two_workers(stage), order)


@pytest.mark.parametrize(
    "order",
    [
        *every_order(("claim", "renew", "complete"), ("steal", "fail"), ("restart", "claim")),
        *every_order(("claim", "complete"), ("steal", "complete"), ("restart", "claim", "fail")),
        *every_order(("claim", "renew", "fail"), ("restart", "steal"), ("restart", "complete")),
    ],
)
def test_a_worker_its_rival_and_its_own_next_life_never_hold_one_subject_together(
    stage: Stage, order: Order
) -> None:
    play(stage, [*two_workers(stage), stage.actor("Worker01 again")], order)


@pytest.mark.parametrize(
    "order", every_order(("claim", "hold", "complete", "commit"), ("steal", "renew"), ("restart", "enqueue"))
)
def test_a_commit_that_is_open_holds_nobody_up(stage: Stage, order: Order) -> None:
    actors = [*two_workers(stage), stage.actor("Worker01 again")]
    play_open(stage, actors, order, enqueue="file:///b", may_wait=set())


@pytest.mark.parametrize("order", every_order(("claim", "hold", "fail", "commit"), ("steal",), ("enqueue",)))
def test_a_failure_that_is_not_committed_holds_up_only_notifications_of_its_subject(
    stage: Stage, order: Order
) -> None:
    actors = [*two_workers(stage), stage.actor("Agent")]
    play_open(stage, actors, order, enqueue="file:///b", may_wait={2})


@pytest.mark.parametrize("ending", ["complete", "fail", "release", "forget"])
@pytest.mark.parametrize("order", every_order(("claim", "end"), ("begin", "enqueue", "commit")))
def test_a_claim_that_ends_while_its_file_is_announced_again_keeps_one_row_of_it(
    stage: Stage, order: Order, ending: str
) -> None:
    worker, _ = two_workers(stage)
    steps = tuple((actor, ending if step == "end" else step) for actor, step in order)
    play_open(stage, [worker, stage.actor("Agent")], steps, enqueue="file:///a", may_wait={0, 1})


@pytest.mark.parametrize("ending", ["fail", "release", "forget"])
@pytest.mark.parametrize("order", every_order(("end",), ("begin", "touch", "enqueue", "commit")))
def test_giving_several_files_back_never_deadlocks_with_notifications(
    stage: Stage, order: Order, ending: str
) -> None:
    stage.enqueue("file:///a", "file:///b")
    worker, operator = stage.actor("Worker01"), stage.actor("Operator")
    assert len(worker.claim()) == 2
    blacklist.blacklist_file(stage.watcher, "file:///b", "TOOL01", reason="wrong cell", by="operator")
    steps = tuple((actor, ending if step == "end" else step) for actor, step in order)
    play_open(stage, [worker, operator], steps, enqueue="file:///c", may_wait={0, 1})


@pytest.mark.parametrize(
    "order", every_order(("begin", "enqueue", "commit"), ("claim", "complete"), ("claim",))
)
def test_no_wake_up_is_lost_between_a_notification_and_a_claim(stage: Stage, order: Order) -> None:
    workers = two_workers(stage)
    play_open(stage, [stage.actor("Agent"), *workers], order, enqueue="file:///b", may_wait={0})
    assert stage.times_completed("file:///b") == 1


def play_open(stage: Stage, actors: list[Actor], order: Order, *, enqueue: str, may_wait: set[int]) -> None:
    """Run the steps with transactions left open; only the named actors may find themselves waiting."""
    for number, step in order:
        actor = actors[number]
        if actor.pending is not None and not actor.pending.done():
            # Its next step comes when the one before has ended; whoever is in the way goes on first.
            finish_others(stage, actors, waiting=actor)
        future = stage.run(actor, partial(take_step, actor, step, enqueue))
        assert future.done() or number in may_wait, f"{step} of {actor.name} waits"
        if future.done():
            future.result()
    for actor in actors:
        if actor.pending is not None:
            actor.pending.result(timeout=20)
        actor.connection.rollback()
        actor.items.clear()
    stage.drain()


def finish_others(stage: Stage, actors: list[Actor], *, waiting: Actor) -> None:
    for actor in actors:
        if actor is not waiting and (actor.pending is None or actor.pending.done()):
            stage.run(actor, actor.commit).result()
    assert waiting.pending is not None
    waiting.pending.result(timeout=20)


def take_step(actor: Actor, step: str, uri: str) -> None:
    match step:
        case "enqueue":
            files.enqueue_file(actor.connection, uri, "TOOL01", metadata={"content_hash": "v2"})
        case "touch":
            refused = files.enqueue_file(actor.connection, "file:///b", "TOOL01", reason=Reason.QUIET)
            assert refused is None
        case "restart":
            actor.start("Worker01")
        case _:
            try:
                getattr(actor, step)()
            except LeaseLostError:
                actor.items.clear()
                actor.connection.rollback()


@pytest.mark.parametrize("change", [instances.pause_instance, instances.drain_instance])
@pytest.mark.parametrize("order", every_order(("begin", "claim", "commit", "claim"), ("change",)))
def test_once_a_pause_has_returned_no_claim_comes_after_it(
    stage: Stage, order: Order, change: Callable[..., None]
) -> None:
    stage.enqueue("file:///a", subject="TOOL01")
    stage.enqueue("file:///b", subject="TOOL02")
    worker, operator = stage.actor("Worker01"), stage.actor("Operator")
    worker.start()
    seen_by_operator: list[int] = []

    def decide() -> None:
        change(operator.connection, "Worker01", reason="share is moved", by="ada")
        [known] = instances.list_instances(operator.connection)
        seen_by_operator.append(known.claimed_items)

    for number, step in order:
        if number == 0:
            future = stage.run(worker, getattr(worker, step))
            assert future.done(), f"{step} waits for the operator"
            future.result()
        else:
            stage.run(operator, decide)
    assert operator.pending is not None
    operator.pending.result(timeout=20)
    worker.claim()
    [known] = [each for each in instances.list_instances(stage.watcher) if each.instance_name == "Worker01"]
    assert [known.claimed_items] == seen_by_operator
    assert len(worker.items) == known.claimed_items


def test_a_pause_waits_for_no_other_instance(stage: Stage) -> None:
    stage.enqueue("file:///a", subject="TOOL01")
    worker, other, operator = (stage.actor(name) for name in ("Worker01", "Worker02", "Operator"))
    worker.start()
    other.start()
    worker.begin()
    worker.claim()
    pausing = stage.run(
        operator,
        lambda: instances.pause_instance(operator.connection, "Worker02", reason="x", by="ada"),
    )
    assert pausing.done()
    pausing.result()
    # Nor is its own next life held up by a claim that hangs.
    assert stage.run(other, other.start).done()
    worker.commit()


@pytest.mark.parametrize("order", every_order(("begin", "fail_all", "commit"), ("begin", "both", "commit")))
def test_failures_of_several_subjects_in_one_call_never_deadlock_with_a_batch_of_notifications(
    stage: Stage, order: Order
) -> None:
    for subject in ("TOOL01", "TOOL02"):
        stage.enqueue(f"file:///{subject}/a", f"file:///{subject}/b", subject=subject)
    worker, agent = stage.actor("Worker01"), stage.actor("Agent")
    assert len(worker.claim(FetchPolicy(limit=10, max_subjects=2, lease_seconds=LEASE_SECONDS))) == 4

    def announce_both() -> None:
        again = [
            files.Notification(f"file:///{subject}/{name}", subject, Reason.QUIET)
            for subject in ("TOOL02", "TOOL01")
            for name in "bca"
        ]
        files.enqueue_files(agent.connection, again)

    actors = [worker, agent]
    for number, step in order:
        actor = actors[number]
        if actor.pending is not None and not actor.pending.done():
            finish_others(stage, actors, waiting=actor)
        steps = {"fail_all": worker.fail_all, "both": announce_both}
        future = stage.run(actor, steps.get(step) or getattr(actor, step))
        if future.done():
            future.result()
    for actor in actors:
        assert actor.pending is not None
        actor.pending.result(timeout=20)
        actor.connection.rollback()
    stage.drain()


def test_two_fetches_at_once_take_different_subjects_and_neither_waits(stage: Stage) -> None:
    stage.enqueue("file:///a", subject="TOOL01")
    stage.enqueue("file:///b", subject="TOOL02")
    first, second, third = (stage.actor(name) for name in ("Worker01", "Worker02", "Worker03"))
    for worker in (first, second, third):
        worker.start()
        worker.begin()
    claims = [stage.run(worker, worker.claim) for worker in (first, second, third)]
    assert [[item.subject_key for item in claim.result(timeout=0)] for claim in claims] == [
        ["TOOL01"],
        ["TOOL02"],
        [],
    ]
    for worker in (first, second, third):
        worker.commit()


def test_workers_that_fetch_at_the_same_moment_never_share_a_subject(stage: Stage) -> None:
    workers = [stage.actor(name) for name in ("Worker01", "Worker02", "Worker03")]
    for worker in workers:
        worker.start()
    for round_number in range(40):
        for subject in ("TOOL01", "TOOL02", "TOOL03", "TOOL04"):
            stage.enqueue(f"file:///{subject}/{round_number}", subject=subject)
        futures = [worker.thread.submit(worker.claim, FetchPolicy(max_subjects=2)) for worker in workers]
        taken = [{item.subject_key for item in future.result(timeout=20)} for future in futures]
        assert sum(map(len, taken)) == len(set().union(*taken))
        for future in [worker.thread.submit(worker.complete) for worker in workers]:
            future.result(timeout=20)
    stage.drain()


def freeze_in_commit(stage: Stage) -> Actor:
    """A worker whose commit is complete but for its end."""
    stage.enqueue("file:///frozen", subject="FROZEN")
    frozen = stage.actor("Frozen")
    frozen.start()
    frozen.claim()
    frozen.hold()
    frozen.complete()
    return frozen


FREE_STEPS: dict[str, Callable[[Actor], Any]] = {
    "fetch": lambda other: other.claim(),
    "renew": lambda other: other.renew(),
    "complete": lambda other: other.complete(),
    "enqueue elsewhere": lambda other: files.enqueue_file(other.connection, "file:///z", "TOOL01"),
    "enqueue to its subject": lambda other: files.enqueue_file(other.connection, "file:///y", "FROZEN"),
    "register": lambda other: other.start(),
    "register under its name": lambda other: other.start("Frozen"),
    "take back unknown claims": lambda other: claim_ends.return_unknown_claims(
        other.connection, [], other.life()
    ),
}


@pytest.mark.parametrize("step", FREE_STEPS.values(), ids=FREE_STEPS)
@pytest.mark.parametrize(
    "later", [timedelta(0), timedelta(seconds=LEASE_SECONDS + 1)], ids=["within", "past the lease"]
)
def test_a_worker_frozen_inside_its_commit_holds_up_no_other(
    stage: Stage, step: Callable[[Actor], Any], later: timedelta
) -> None:
    other = stage.actor("Other")
    stage.enqueue("file:///a")
    other.claim()
    frozen = freeze_in_commit(stage)
    stage.advance(later)
    future = stage.run(other, lambda: is_rejected(lambda: step(other)))
    assert future.done(), "it waits for the frozen worker"
    assert future.result() in (False, later > timedelta(0))
    frozen.commit()


def test_a_month_begins_while_a_worker_is_frozen_and_instances_still_register(stage: Stage) -> None:
    frozen = freeze_in_commit(stage)
    other = stage.actor("Other")
    stage.advance(timedelta(days=70))
    other.thread.submit(other.start).result(timeout=5)
    frozen.commit()


def test_an_open_notification_holds_up_no_fetch_of_other_subjects(stage: Stage) -> None:
    stage.enqueue("file:///a", subject="TOOL01")
    stage.enqueue("file:///b", subject="TOOL02")
    dead, agent, worker = (stage.actor(name) for name in ("Dead", "Agent", "Worker01"))
    [lost] = dead.claim()
    agent.begin()
    files.enqueue_file(agent.connection, "file:///new", lost.subject_key)
    stage.advance(timedelta(seconds=LEASE_SECONDS + 1))
    worker.start()
    claim = stage.run(worker, worker.claim)
    assert claim.done(), "it waits for the notification to be committed"
    assert {item.subject_key for item in claim.result()} == {"TOOL01", "TOOL02"} - {lost.subject_key}
    agent.commit()
    dead.items.clear()
    worker.complete()
    stage.drain()


def test_an_open_notification_to_a_stale_subject_holds_up_no_fetch(stage: Stage) -> None:
    stage.enqueue("file:///a", subject="TOOL01")
    stage.enqueue("file:///b", subject="TOOL02")
    agent, worker = stage.actor("Agent"), stage.actor("Worker01")
    worker.start()
    stage.watcher.execute(
        """
        insert into disarray.subject (subject_key, first_seen_at) values ('STALE', disarray.clock());
        insert into disarray.dirty_range (subject_key, range_start, range_end, reason, created_at)
        values ('STALE', '2025-01-01', '2025-01-02', 'late file', disarray.clock());
        """
    )
    agent.begin()
    files.enqueue_file(agent.connection, "file:///new", "STALE")
    claim = stage.run(worker, worker.claim)
    assert claim.done(), "it waits for the notification to be committed"
    assert len(claim.result()) == 1
    agent.commit()
