"""The queue functions against a plain model of what the design says, over thousands of random steps."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from disarray.control import (
    blacklist,
    claim_ends,
    claims,
    commits,
    connections,
    dirty_ranges,
    files,
    housekeeping,
    instances,
)
from disarray.control.claims import FetchPolicy
from disarray.control.commits import SubjectCommit
from disarray.control.files import Notification, Reason, Verdict
from disarray.control.queue import Holder, Lane, QueueId, QueueItem
from disarray.errors import LeaseLostError, NotBlacklistedError, StaleIncarnationError
from tests.control.queue_model import MAX_RETRIES, Answer, File, Lock, QueueModel, Row
from tests.control.queue_tables import BROKEN_GUARANTEES, LOST_VERSIONS, empty_tables, read_tables

if TYPE_CHECKING:
    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres

URIS = ("file:///a", "file:///b", "file:///c", "file:///d")
SUBJECTS = ("CELL1", "CELL2", "TOOL1")
PATTERNS = {"Everyone": ("*",), "Cells": ("CELL?",), "Tools": ("TOOL*", "CELL2")}

policies = st.builds(
    FetchPolicy,
    limit=st.sampled_from([1, 2, 10]),
    lease_seconds=st.sampled_from([30, 300]),
    max_subjects=st.sampled_from([1, 2, 3]),
    give_way_batches=st.sampled_from([1, 3]),
    give_way_seconds=st.sampled_from([20, 60]),
)
notifications = st.builds(
    Notification,
    st.sampled_from(URIS),
    st.sampled_from(SUBJECTS),
    st.sampled_from([Reason.FILE_NOTIFICATION] * 4 + [Reason.QUIET] * 2 + [Reason.REINGEST, Reason.RELEASE]),
    st.fixed_dictionaries(
        {}, optional={"content_hash": st.sampled_from(["v1", "v2"]), "parse_version": st.just("p2")}
    ),
)
results = st.fixed_dictionaries(
    {},
    optional={
        "content_hash": st.sampled_from(["v2", "v3"]),
        "outcome": st.sampled_from(["processed", "parked"]),
        "parse_version": st.sampled_from(["p1", "p2"]),
    },
)
instance_names = st.sampled_from(sorted(PATTERNS))


class AbandonedError(Exception):
    """The transaction ends before its commit, as when the process dies."""


def has_claims(machine: QueueMachine) -> bool:
    return any(row.holder for row in machine.model.rows)


class QueueMachine(RuleBasedStateMachine):
    """Calls the real functions and the model side by side; the subclass of each test carries the connection."""

    connection: Connection
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.model = QueueModel()
        self.model.patterns.update(PATTERNS)
        self.lives: list[Holder] = []
        self.handed_out: list[tuple[QueueItem, Holder]] = []
        empty_tables(self.connection)
        self._set_clock()

    def _set_clock(self) -> None:
        self.connection.execute("update disarray.fixed_instant set at = %s", (self.model.now,))

    @initialize()
    def everyone_starts(self) -> None:
        for name in PATTERNS:
            self._start(name)

    def _start(self, name: str) -> None:
        holder = instances.register_instance(
            self.connection, name, subject_patterns=self.model.patterns[name]
        )
        assert all(holder.incarnation > life.incarnation for life in self.lives)
        self.lives.append(holder)
        self.model.incarnations[name] = holder
        self.model.reap(only=name)

    @rule(name=instance_names, patterns=st.none() | st.sampled_from(sorted(PATTERNS.values())))
    def start_again_or_bind(self, name: str, patterns: tuple[str, ...] | None) -> None:
        if patterns is None:
            self._start(name)
        else:
            instances.bind_instance(self.connection, name, patterns, by="operator")
            self.model.patterns[name] = patterns

    @rule(seconds=st.sampled_from([1, 25, 31, 61, 301, 3600, 10_000]))
    def time_passes(self, seconds: int) -> None:
        self.model.now += timedelta(seconds=seconds)
        self._set_clock()

    @rule(notification=notifications)
    def enqueue_one(self, notification: Notification) -> None:
        expected = self.model.announce(notification.source_uri, [notification])
        queue_id = files.enqueue_file(
            self.connection,
            notification.source_uri,
            notification.subject_key,
            reason=notification.reason,
            metadata=notification.metadata,
        )
        self._adopt_id(expected, queue_id)

    @rule(batch=st.lists(notifications, min_size=1, max_size=5))
    def enqueue_batch(self, batch: list[Notification]) -> None:
        by_uri: dict[str, list[Notification]] = {}
        for notification in batch:
            by_uri.setdefault(notification.source_uri, []).append(notification)
        expected = {uri: self.model.announce(uri, given) for uri, given in by_uri.items()}
        answers = files.enqueue_files(self.connection, batch)
        assert {answer.source_uri: answer.verdict for answer in answers} == {
            uri: answer.verdict for uri, answer in expected.items()
        }
        for answer in answers:
            self._adopt_id(expected[answer.source_uri], answer.queue_id)

    def _adopt_id(self, expected: Answer, queue_id: int | None) -> None:
        if expected.row is None:
            assert queue_id is None
            return
        assert queue_id is not None
        if expected.verdict is Verdict.ENQUEUED:
            expected.row.queue_id = queue_id
        assert expected.row.queue_id == queue_id

    @rule(subjects_to_compact=st.sets(st.sampled_from(SUBJECTS), min_size=1))
    def compact(self, subjects_to_compact: set[str]) -> None:
        """Work for the backfill lane; subjects that were never seen have nothing to compact."""
        known = {
            row[0] for row in self.connection.execute("select subject_key from disarray.subject").fetchall()
        }
        queued = housekeeping.queue_compaction(self.connection, sorted(subjects_to_compact))
        new = [
            Row(-1, None, subject, Reason.COMPACT, None, self.model.now)
            for subject in sorted(subjects_to_compact & known)
        ]
        new = [row for row in new if self.model.waiting(row.target) is None]
        assert queued == len(new)
        for row in new:
            self.model.rows.append(row)
            row.queue_id = self._id_of_new(row.subject)

    def _id_of_new(self, subject: str) -> int:
        known = {row.queue_id for row in self.model.rows}
        tables = read_tables(self.connection)
        [queue_id] = [
            queue_id
            for queue_id, (uri, about, *_) in tables.rows.items()
            if queue_id not in known and uri is None and about == subject
        ]
        return queue_id

    @rule(uri=st.sampled_from(URIS), subject=st.sampled_from(SUBJECTS))
    def blacklist(self, uri: str, subject: str) -> None:
        file = self.model.files.setdefault(uri, File(subject))
        file.status, file.is_listed = "blacklisted", True
        self.model.events["blacklisted", uri] += 1
        if (waiting := self.model.waiting(uri)) is not None:
            self.model.rows.remove(waiting)
        expected = Answer(Verdict.UNCHANGED, None)
        if file.process_count > 0 or any(row.uri == uri for row in self.model.rows):
            expected = self.model.announce(uri, [Notification(uri, file.subject, Reason.REMOVE)])
        queue_id = blacklist.blacklist_file(self.connection, uri, subject, reason="wrong cell", by="operator")
        self._adopt_id(expected, queue_id)

    @precondition(lambda self: any(file.is_listed for file in self.model.files.values()))
    @rule(uri=st.sampled_from(URIS))
    def allow(self, uri: str) -> None:
        file = self.model.files.get(uri)
        if file is None or not file.is_listed:
            with pytest.raises(NotBlacklistedError):
                blacklist.allow_file(self.connection, uri, reason="mistake", by="operator")
            return
        file.is_listed = False
        self.model.events["allowed", uri] += 1
        expected = self.model.announce(uri, [Notification(uri, file.subject, Reason.ALLOW)])
        self._adopt_id(expected, blacklist.allow_file(self.connection, uri, reason="mistake", by="operator"))

    @rule(name=instance_names, policy=policies)
    def fetch(self, name: str, policy: FetchPolicy) -> None:
        self._fetch(self.model.incarnations[name], policy)

    @precondition(lambda self: self.model.rows)
    @rule(name=instance_names)
    def fetch_all(self, name: str) -> None:
        self._fetch(self.model.incarnations[name], FetchPolicy(limit=20, max_subjects=2))

    def _fetch(self, holder: Holder, policy: FetchPolicy) -> list[QueueItem]:
        model = self.model
        model.reap()
        for subject in model.reconcile_rows_due():
            model.rows.append(Row(-1, None, subject, Reason.RECONCILE, None, model.now))
        running = model.claimed_by(holder)
        items = claims.fetch_items(self.connection, holder, policy)
        tables = read_tables(self.connection)
        known = {row.queue_id for row in model.rows}
        for queue_id, (uri, subject, *_) in tables.rows.items():
            if queue_id not in known and (
                unnamed := next(
                    (row for row in model.rows if (row.uri, row.subject, row.queue_id) == (uri, subject, -1)),
                    None,
                )
            ):
                unnamed.queue_id = queue_id

        by_subject: dict[str, list[QueueItem]] = {}
        for item in items:
            by_subject.setdefault(item.subject_key, []).append(item)
        assert len(items) <= policy.limit
        assert len(by_subject) <= policy.max_subjects
        if not items:
            self._check_that_nothing_was_due(holder, policy, running)
        suspects = [row for row in running if row.crash_count > 0]
        suspects += [model.row(item.queue_id) for item in items if model.row(item.queue_id).crash_count > 0]
        assert not suspects or len(running) + len(items) <= 1 or not items, "a suspect runs alone"

        former_fence = model.highest_fence
        for subject, claimed in by_subject.items():
            assert model.may_serve(subject, holder)
            [lane] = {item.lane for item in claimed}
            line = model.line(subject, lane)
            oldest_first = [row.queue_id for row in line if row is line[0] or row.crash_count == 0]
            assert [item.queue_id for item in claimed] == oldest_first[: len(claimed)]
            self._take(subject, holder, claimed, policy, former_fence)
        for subject, lock in list(model.locks.items()):
            is_idle = not any(row.holder is not None and row.subject == subject for row in model.rows)
            if lock.holder == holder and is_idle and subject not in tables.locks:
                del model.locks[subject]
        return items

    def _take(
        self, subject: str, holder: Holder, claimed: list[QueueItem], policy: FetchPolicy, former_fence: int
    ) -> None:
        lease = self.model.now + timedelta(seconds=policy.lease_seconds)
        lock = self.model.locks.get(subject)
        if lock is None or lock.fence != claimed[0].fence:
            # A subject that was left and taken again inside one call comes back under a new fence.
            is_idle = not any(row.holder is not None and row.subject == subject for row in self.model.rows)
            assert is_idle
            assert claimed[0].fence > former_fence
            lock = self.model.locks[subject] = Lock(holder, claimed[0].fence, lease)
        lock.expires_at = max(lock.expires_at, lease)
        self.model.highest_fence = max(self.model.highest_fence, lock.fence)
        for item in claimed:
            row = self.model.row(item.queue_id)
            assert (item.source_uri, item.content_hash, item.reason) == (row.uri, row.version, row.reason)
            assert (item.retry_count, item.fence, item.lease_expires_at) == (
                row.retry_count,
                lock.fence,
                lock.expires_at,
            )
            row.holder, row.fence = holder, item.fence
            self.handed_out.append((item, holder))

    def _check_that_nothing_was_due(self, holder: Holder, policy: FetchPolicy, running: list[Row]) -> None:
        model = self.model
        lines = {
            (subject, lane): line
            for subject in SUBJECTS
            for lane in Lane
            if model.may_serve(subject, holder) and (line := model.line(subject, lane))
        }
        if not running:
            assert not lines
        patience_ends = model.now - timedelta(seconds=policy.give_way_seconds)
        if any(row.crash_count > 0 for row in running) or any(
            line[0].crash_count > 0 and line[0].available_at < patience_ends for line in lines.values()
        ):
            return
        assert not [
            subject
            for (subject, _), line in lines.items()
            if line[0].crash_count == 0 and subject not in model.locks
        ]

    def _any_claim(self, data: st.DataObject) -> tuple[QueueId, Holder]:
        claims = [(QueueId(row.queue_id), row.holder) for row in self.model.rows if row.holder is not None]
        return data.draw(st.sampled_from(claims), "claim")

    @precondition(has_claims)
    @rule(data=st.data(), result=results)
    def complete(self, data: st.DataObject, result: dict[str, Any]) -> None:
        queue_id, holder = self._any_claim(data)
        if not self.model.owns(queue_id, holder):
            with pytest.raises(LeaseLostError):
                claim_ends.complete_item(self.connection, queue_id, holder, metadata=result)
            return
        claim_ends.complete_item(self.connection, queue_id, holder, metadata=result)
        self.model.complete(self.model.row(queue_id), result)

    @precondition(has_claims)
    @rule(data=st.data())
    def complete_all(self, data: st.DataObject) -> None:
        _, holder = self._any_claim(data)
        mine = [row.queue_id for row in self.model.claimed_by(holder)]
        if all(self.model.owns(queue_id, holder) for queue_id in mine):
            claim_ends.complete_items(self.connection, [QueueId(queue_id) for queue_id in mine], holder)
            for queue_id in mine:
                self.model.complete(self.model.row(queue_id), {})
        else:
            with pytest.raises(LeaseLostError):
                claim_ends.complete_items(self.connection, [QueueId(queue_id) for queue_id in mine], holder)

    @precondition(has_claims)
    @rule(
        data=st.data(),
        delay=st.sampled_from([None, 0, 45]),
        is_permanent=st.sampled_from([False] * 4 + [True]),
    )
    def fail(self, data: st.DataObject, delay: int | None, is_permanent: bool) -> None:
        queue_id, holder = self._any_claim(data)
        arguments: dict[str, Any] = {
            "error_message": "unreadable",
            "retry_delay_seconds": delay,
            "is_permanent": is_permanent,
        }
        if not self.model.owns(queue_id, holder):
            with pytest.raises(LeaseLostError):
                claim_ends.fail_item(self.connection, queue_id, holder, **arguments)
            return
        claim_ends.fail_item(self.connection, queue_id, holder, **arguments)
        row = self.model.row(queue_id)
        seconds = delay if delay is not None else 60 * 5 ** min(row.retry_count, 3)
        attempts = MAX_RETRIES if is_permanent else 1
        self.model.give_back(row, "failed", attempts=attempts, delay=timedelta(seconds=seconds))

    @precondition(lambda self: self.model.locks)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        subject = data.draw(st.sampled_from(sorted(self.model.locks)), "subject")
        holder = self.model.locks[subject].holder
        if not self.model.holds(subject, holder):
            with pytest.raises(LeaseLostError):
                claim_ends.release_subject(self.connection, subject, holder)
            return
        claim_ends.release_subject(self.connection, subject, holder)
        for row in [row for row in self.model.claimed_by(holder) if row.subject == subject]:
            self.model.give_back(row, "released", attempts=0)
        del self.model.locks[subject]

    @precondition(lambda self: self.model.locks)
    @rule(name=instance_names, lease_seconds=st.sampled_from([10, 300]))
    def renew(self, name: str, lease_seconds: int) -> None:
        holder = self.model.incarnations[name]
        held = [subject for subject in SUBJECTS if self.model.holds(subject, holder)]
        renewed = claim_ends.renew_subjects(self.connection, SUBJECTS, holder, lease_seconds=lease_seconds)
        assert renewed == held
        for subject in held:
            lock = self.model.locks[subject]
            lock.expires_at = max(lock.expires_at, self.model.now + timedelta(seconds=lease_seconds))

    @precondition(has_claims)
    @rule(data=st.data())
    def return_unknown_claims(self, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from(sorted(self.model.incarnations.values(), key=str)), "life")
        mine = self.model.claimed_by(holder)
        known = [row for row in mine if data.draw(st.booleans(), f"knows {row.queue_id}")]
        unknown = [row for row in mine if row not in known]
        known_ids = [QueueId(row.queue_id) for row in known]
        if not all(self.model.owns(row.queue_id, holder) for row in unknown):
            with pytest.raises(LeaseLostError):
                claim_ends.return_unknown_claims(self.connection, known_ids, holder)
            return
        assert claim_ends.return_unknown_claims(self.connection, known_ids, holder) == len(unknown)
        for row in unknown:
            self.model.give_back(row, "released", attempts=0)

    @precondition(lambda self: self.handed_out)
    @rule(
        data=st.data(),
        result=results,
        reconciles=st.booleans(),
        is_abandoned=st.sampled_from([False, False, True]),
    )
    def commit(
        self, data: st.DataObject, result: dict[str, Any], reconciles: bool, is_abandoned: bool
    ) -> None:
        """A pass over a subject ends in one transaction: whole, refused, or abandoned on the way."""
        item, holder = data.draw(st.sampled_from(self.handed_out[-8:]), "claim")
        lock = self.model.locks.get(item.subject_key)
        is_held = self.model.holds(item.subject_key, holder) and lock is not None and lock.fence == item.fence
        batch = [
            row
            for row in self.model.claimed_by(holder)
            if row.subject == item.subject_key and row.fence == item.fence
        ]
        completions = {QueueId(row.queue_id): result for row in batch} or {item.queue_id: result}
        commit = SubjectCommit(
            run_id=uuid4(), subject_key=item.subject_key, fence=item.fence, completions=completions
        )
        expects_error = not is_held or not batch
        frontier = None
        try:
            with connections.transaction(self.connection):
                commits.commit_subject(self.connection, commit, holder)
                if reconciles:
                    frontier = dirty_ranges.reconcile_subject(self.connection, item.subject_key, holder)
                if is_abandoned:
                    raise AbandonedError
        except LeaseLostError:
            assert expects_error
        except AbandonedError:
            assert not expects_error
        else:
            assert not expects_error
            for row in batch:
                self.model.complete(row, result)
            if reconciles:
                assert frontier == min(self.model.open_ranges.pop(item.subject_key, []), default=None)
        # Whoever did not hear how it ended finds out here, and nowhere else.
        took_effect = not expects_error and not is_abandoned
        assert commits.is_committed(self.connection, commit.run_id, item.subject_key) == took_effect
        if took_effect:
            with pytest.raises(LeaseLostError):
                commits.commit_subject(self.connection, replace(commit, run_id=uuid4()), holder)

    @precondition(lambda self: self.ended_claims())
    @rule(data=st.data())
    def nobody_ends_a_claim_that_is_over(self, data: st.DataObject) -> None:
        item, holder = data.draw(st.sampled_from(self.ended_claims()[-6:]), "claim")
        with pytest.raises(LeaseLostError):
            claim_ends.complete_item(self.connection, item.queue_id, holder)
        with pytest.raises(LeaseLostError):
            claim_ends.fail_item(self.connection, item.queue_id, holder, error_message="unreadable")
        if self.model.incarnations[holder.instance_name] != holder:
            with pytest.raises(LeaseLostError):
                claim_ends.release_subject(self.connection, item.subject_key, holder)
            with pytest.raises(StaleIncarnationError):
                claim_ends.renew_subjects(self.connection, SUBJECTS, holder, lease_seconds=30)
            with pytest.raises(StaleIncarnationError):
                claims.fetch_items(self.connection, holder)
            with pytest.raises(StaleIncarnationError):
                claim_ends.return_unknown_claims(self.connection, [], holder)

    def ended_claims(self) -> list[tuple[QueueItem, Holder]]:
        return [
            (item, holder) for item, holder in self.handed_out if not self.model.owns(item.queue_id, holder)
        ]

    @precondition(lambda self: self.model.locks)
    @rule(data=st.data(), day=st.integers(1, 28))
    def mark_dirty(self, data: st.DataObject, day: int) -> None:
        subject = data.draw(st.sampled_from(sorted(self.model.locks)), "subject")
        holder = self.model.locks[subject].holder
        start = datetime(2025, 1, day, tzinfo=UTC)
        span: dict[str, Any] = {
            "range_start": start,
            "range_end": start + timedelta(days=1),
            "reason": "late file",
        }
        if not self.model.holds(subject, holder):
            with pytest.raises(LeaseLostError):
                dirty_ranges.mark_dirty(self.connection, subject, holder, **span)
            return
        dirty_ranges.mark_dirty(self.connection, subject, holder, **span)
        self.model.open_ranges.setdefault(subject, []).append(start)

    @precondition(lambda self: self.model.locks)
    @rule(data=st.data())
    def reconcile(self, data: st.DataObject) -> None:
        subject = data.draw(st.sampled_from(sorted(self.model.locks)), "subject")
        holder = self.model.locks[subject].holder
        if not self.model.holds(subject, holder):
            with pytest.raises(LeaseLostError):
                dirty_ranges.reconcile_subject(self.connection, subject, holder)
            return
        frontier = min(self.model.open_ranges.pop(subject, []), default=None)
        assert dirty_ranges.reconcile_subject(self.connection, subject, holder) == frontier

    @invariant()
    def tables_say_what_the_model_says(self) -> None:
        type(self).steps += 1
        model, tables = self.model, read_tables(self.connection)
        assert tables.rows == {
            row.queue_id: (
                row.uri,
                row.subject,
                row.reason,
                row.version,
                row.available_at,
                row.retry_count,
                row.crash_count,
                row.holder.instance_name if row.holder else None,
                row.holder.incarnation if row.holder else None,
                row.fence,
            )
            for row in model.rows
        }
        assert tables.files == {
            uri: (
                file.subject,
                file.status,
                file.announced,
                file.processed,
                file.quiet,
                file.parse_version,
                file.process_count,
                file.retry_count,
                file.crash_count,
                file.is_listed,
            )
            for uri, file in model.files.items()
        }
        assert tables.locks == model.locks
        assert tables.events == model.events

    @invariant()
    def guarantees_hold(self) -> None:
        assert self.connection.execute(BROKEN_GUARANTEES).fetchall() == []

    def nothing_is_lost(self) -> None:
        # Not after every step: what is lost once stays lost, and this is the most expensive question.
        assert self.connection.execute(LOST_VERSIONS).fetchall() == []

    def teardown(self) -> None:
        """Once faults stop the backlog drains: nothing is stuck, nothing is lost."""
        # A failure above is the one to report, not what it does to the rest.
        if not self.lives or sys.exc_info()[0] is not None:
            return
        self.nothing_is_lost()
        self.model.patterns["Everyone"] = ("*",)
        for name in PATTERNS:
            self._start(name)
        holder = self.model.incarnations["Everyone"]
        rounds = 0
        while self.model.rows or any(self.model.open_ranges.values()):
            rounds += 1
            assert rounds <= 3 * len(URIS) + 4 * len(SUBJECTS), "the backlog does not drain"
            self.time_passes(10_000)
            for item in self._fetch(holder, FetchPolicy(max_subjects=3)):
                if item.reason == Reason.RECONCILE:
                    dirty_ranges.reconcile_subject(self.connection, item.subject_key, holder)
                    self.model.open_ranges.pop(item.subject_key, None)
                claim_ends.complete_item(self.connection, item.queue_id, holder)
                self.model.complete(self.model.row(item.queue_id), {})
        self.tables_say_what_the_model_says()
        self.guarantees_hold()
        self.nothing_is_lost()


@pytest.fixture
def machine(connection: Connection) -> type[QueueMachine]:
    """The machine on a database whose clock stands still until it is set."""
    connection.execute(
        """
        set synchronous_commit = off;
        create table disarray.fixed_instant (at timestamptz not null);
        insert into disarray.fixed_instant values (now());
        alter table disarray.fixed_instant owner to disarray_owner;
        create or replace function disarray.clock() returns timestamptz language sql stable
        as 'select at from disarray.fixed_instant';
        """
    )
    return type("ConnectedQueueMachine", (QueueMachine,), {"connection": connection})


BRIEF = settings(
    max_examples=100,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)


@pytest.mark.timeout(900)
def test_the_queue_does_what_the_model_says_at_every_step(machine: type[QueueMachine]) -> None:
    run_state_machine_as_test(machine, settings=BRIEF)
    assert machine.steps > 4000


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_queue_does_what_the_model_says_over_a_long_random_run(machine: type[QueueMachine]) -> None:
    long = settings(BRIEF, max_examples=150, derandomize=False, print_blob=True)
    run_state_machine_as_test(machine, settings=long)
