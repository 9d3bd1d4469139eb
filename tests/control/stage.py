"""Actors that call the queue from connections of their own, one scripted step at a time."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from itertools import permutations
from typing import TYPE_CHECKING, Any, Self

from disarray.control import claim_ends, claims, connections, files, instances
from disarray.control.claims import FetchPolicy
from disarray.errors import LeaseLostError
from tests.control.queue_tables import BROKEN_GUARANTEES, LOST_VERSIONS, empty_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder, QueueItem

LEASE_SECONDS = 30
PATIENCE_SECONDS = 20


def interleavings(*scripts: tuple[str, ...]) -> Iterator[tuple[tuple[int, str], ...]]:
    """Every order of the actors' steps in which each actor keeps its own order: (actor, step) pairs."""
    turns = [actor for actor, script in enumerate(scripts) for _ in script]
    for order in sorted(set(permutations(turns))):
        rest = [iter(script) for script in scripts]
        yield tuple((actor, next(rest[actor])) for actor in order)


class Actor:
    """A process with one connection, which remembers what it was given and does not know what it lost."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.name = name
        self.connection: Connection = connections.connect(stage.dsn, application_name=name)
        self.thread = ThreadPoolExecutor(1)
        self.pending: Future[Any] | None = None
        self.holder: Holder | None = None
        self.items: list[QueueItem] = []

    def start(self, name: str | None = None) -> Holder:
        self.holder = instances.register_instance(self.connection, name or self.name)
        return self.holder

    def life(self) -> Holder:
        return self.holder or self.start()

    def claim(self, policy: FetchPolicy | None = None) -> list[QueueItem]:
        policy = policy or FetchPolicy(lease_seconds=LEASE_SECONDS)
        claimed = claims.fetch_items(self.connection, self.life(), policy)
        self.items += claimed
        return claimed

    def steal(self) -> list[QueueItem]:
        self.stage.advance(timedelta(seconds=LEASE_SECONDS + 1))
        return self.claim()

    def renew(self) -> list[str]:
        keys = sorted({item.subject_key for item in self.items})
        return claim_ends.renew_subjects(self.connection, keys, self.life(), lease_seconds=LEASE_SECONDS)

    def complete(self) -> None:
        ids = [item.queue_id for item in self.items]
        claim_ends.complete_items(self.connection, ids, self.life())
        self.items.clear()

    def fail(self) -> None:
        for item in self.items:
            claim_ends.fail_item(
                self.connection, item.queue_id, self.life(), error_message="unreadable", retry_delay_seconds=0
            )
        self.items.clear()

    def fail_all(self) -> None:
        """All in one call, in whatever order they come."""
        failures = [claim_ends.Failure(item.queue_id, "unreadable") for item in reversed(self.items)]
        claim_ends.fail_items(self.connection, failures, self.life(), retry_delay_seconds=0)
        self.items.clear()

    def release(self) -> None:
        for key in sorted({item.subject_key for item in self.items}):
            claim_ends.release_subject(self.connection, key, self.life())
        self.items.clear()

    def forget(self) -> None:
        claim_ends.return_unknown_claims(self.connection, [], self.life())
        self.items.clear()

    def begin(self) -> None:
        self.connection.execute("begin")

    def commit(self) -> None:
        self.connection.execute("commit")

    def hold(self) -> None:
        """Open a commit: lock the subject's row first, as every commit does."""
        self.begin()
        for item in self.items:
            claim_ends.assert_subject_held(self.connection, item.subject_key, self.life(), fence=item.fence)

    def believes_to_hold(self, subject_key: str) -> list[tuple[Holder, int]]:
        return [(self.life(), item.fence) for item in self.items if item.subject_key == subject_key]

    def close(self) -> None:
        self.thread.shutdown()
        self.connection.close()


class Stage:
    """Runs one step at a time, and tells a step that waits for somebody else's lock from one that is at work."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.actors: dict[str, Actor] = {}
        self.watcher: Connection = connections.connect(dsn, application_name="watcher")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self.actors.values():
            actor.close()
        self.watcher.close()

    def actor(self, name: str) -> Actor:
        if name not in self.actors:
            self.actors[name] = Actor(self, name)
        return self.actors[name]

    def clear(self) -> None:
        empty_tables(self.watcher)
        self.watcher.execute("update disarray.test_clock set ahead = '0'")
        for actor in self.actors.values():
            actor.holder, actor.items, actor.pending = None, [], None

    def advance(self, by: timedelta) -> None:
        self.watcher.execute("update disarray.test_clock set ahead = ahead + %s", (by,))

    def enqueue(self, *uris: str, subject: str = "TOOL01") -> None:
        files.enqueue_files(self.watcher, [files.Notification(uri, subject) for uri in uris])

    def run(self, actor: Actor, step: Callable[[], Any]) -> Future[Any]:
        """The step's future: done, or waiting for a lock."""
        assert actor.pending is None or actor.pending.done(), f"{actor.name} is still waiting"
        actor.pending = actor.thread.submit(step)
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while not actor.pending.done() and not self.waits_for_lock(actor):
            assert time.monotonic() < give_up_at, f"{actor.name} neither ends nor waits for a lock"
            time.sleep(0.001)
        return actor.pending

    def waits_for_lock(self, actor: Actor) -> bool:
        """Whether somebody on the stage is in its way; a vacuum that happens to be is none of the script's."""
        others = [other.connection.info.backend_pid for other in self.actors.values() if other is not actor]
        row = self.watcher.execute(
            "select pg_blocking_pids(%s) && %s::int[]", (actor.connection.info.backend_pid, others)
        ).fetchone()
        return row is not None and bool(row[0])

    def holders(self, subject_key: str) -> set[tuple[Holder, int]]:
        """Whom of all who believe to hold a subject the database would let commit."""
        believed = {
            belief for actor in self.actors.values() for belief in actor.believes_to_hold(subject_key)
        }
        holding = set()
        for holder, fence in believed:
            try:
                claim_ends.assert_subject_held(self.watcher, subject_key, holder, fence=fence)
                holding.add((holder, fence))
            except LeaseLostError:
                pass
        return holding

    def end_transactions(self) -> None:
        for actor in self.actors.values():
            if actor.pending is not None:
                actor.pending.exception(timeout=PATIENCE_SECONDS)
            actor.connection.rollback()

    def drain(self) -> None:
        """Whatever happened, a fresh worker finishes it; nothing is lost and nothing is done twice."""
        worker = self.actor("Drainer")
        self.advance(timedelta(hours=3))
        for _ in range(10):
            if not worker.claim(FetchPolicy(limit=100, max_subjects=10)):
                break
            worker.complete()
        assert self.watcher.execute("select source_uri from disarray.ingest_queue").fetchall() == []
        assert self.watcher.execute(BROKEN_GUARANTEES).fetchall() == []
        assert self.watcher.execute(LOST_VERSIONS).fetchall() == []

    def times_completed(self, uri: str) -> int:
        row = self.watcher.execute(
            "select count(*) from disarray.ingest_event where source_uri = %s and event_type = 'completed'",
            (uri,),
        ).fetchone()
        assert row is not None
        return int(row[0])
