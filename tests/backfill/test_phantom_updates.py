"""Others write to the table meanwhile: in every order of their steps and ours no change is lost.

`touched` counts the backfill, `gross` and `revision` are the others' own, and `net` says which version of `gross` the
transformation saw.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from disarray.control import connections
from tests.backfill.conftest import Shop
from tests.control.stage import interleavings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disarray.backfill.chunk_worker import ChunkWorker

EXPRESSIONS = {"set": {"net": "gross * 2", "touched": "touched + 1"}}
FUNCTION = {
    "set": ["net", "touched"],
    "function": "tests.backfill.test_phantom_updates:from_gross",
    "columns": ["gross", "touched"],
}
VERSIONED = {**FUNCTION, "version": "revision"}
CHANGE = "update shop.orders set gross = gross + 100, revision = revision + 1 where id = 30"
DELETE = "delete from shop.orders where id = 30"
# Ours: read (outside of any transaction), write, commit.
OURS, THEIRS = ("read", "write", "commit"), ("begin", "change", "end")
ORDERS = list(interleavings(OURS, THEIRS))


def from_gross(rows: pa.Table) -> pa.Table:
    return pa.table(
        {"net": pc.multiply(rows["gross"].cast(pa.float64()), 2.0), "touched": pc.add(rows["touched"], 1)}
    )


class Ours:
    """A worker whose chunk stops before each of its steps until the script says that it is due."""

    def __init__(self, shop: Shop, worker: ChunkWorker, patch: pytest.MonkeyPatch) -> None:
        self._shop = shop
        self._due = {step: threading.Event() for step in OURS}
        self._reached = {step: threading.Event() for step in (*OURS, "over")}
        self._pid = worker._session.control.info.backend_pid
        kind = worker._session.kind
        patch.setitem(vars(kind), "read", self._stepped("read", kind.read))
        patch.setitem(vars(kind), "write", self._stepped("write", kind.write))
        patch.setattr(worker, "_complete", self._stepped("commit", worker._complete))
        self._thread = threading.Thread(target=self._work, args=(worker,), daemon=True)
        self._thread.start()

    def take(self, step: str) -> None:
        """Let a step begin; returns when it has ended or waits for somebody."""
        self._due[step].set()
        following = {"read": "write", "write": "commit", "commit": "over"}[step]
        eventually(lambda: self._reached[following].is_set() or self.waits())

    def waits(self) -> bool:
        return is_blocked(self._shop, self._pid)

    def join(self) -> None:
        self._thread.join(30)
        assert self._reached["over"].is_set()

    def _work(self, worker: ChunkWorker) -> None:
        worker.step()
        self._reached["over"].set()

    def _stepped(self, name: str, real: Any) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            self._reached[name].set()
            assert self._due[name].wait(30)
            return real(*given, **more)

        return call


class Theirs:
    """Somebody else's transaction on one row."""

    def __init__(self, shop: Shop, statement: str) -> None:
        self._shop = shop
        self._connection = connections.connect(shop.dsn)
        self._statements = {"begin": "begin", "change": statement, "end": "commit"}
        self._thread = ThreadPoolExecutor(1)
        self._pending: Future[Any] | None = None

    def take(self, step: str) -> None:
        pending = self._thread.submit(self._connection.execute, self._statements[step].encode())
        self._pending = pending
        eventually(lambda: pending.done() or self.waits())

    def waits(self) -> bool:
        return is_blocked(self._shop, self._connection.info.backend_pid)

    def join(self) -> None:
        if self._pending is not None:
            self._pending.result(30)
        self._thread.shutdown()
        self._connection.close()


def eventually(condition: Callable[[], object]) -> None:
    """Wait for something that comes within moments."""
    give_up_at = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < give_up_at
        time.sleep(0.001)


def is_blocked(shop: Shop, pid: int) -> bool:
    return bool(shop.rows(f"select cardinality(pg_blocking_pids({pid})) > 0")[0][0])


@pytest.fixture(scope="module")
def busy_shop(shared_dsn: str) -> Iterator[Shop]:
    built = Shop(shared_dsn)
    yield built
    built.close()


@pytest.fixture
def shop(busy_shop: Shop) -> Iterator[Shop]:
    """Orders with a revision that everybody raises who changes one."""
    busy_shop.fill()
    busy_shop.connection.execute("alter table shop.orders add column revision int not null default 0")
    yield busy_shop
    busy_shop.clear()


def play(shop: Shop, update: dict[str, Any], statement: str, order: tuple[tuple[int, str], ...]) -> None:
    """Take the steps in their order; who cannot go on waits until the other has ended."""
    patient = {
        "source": {"batch_size": 100},
        "processing": {"lock_timeout": "30 s", "min_batch_size": 100, "max_batch_size": 100},
    }
    job_id = shop.start({"update": update}, patient)
    with pytest.MonkeyPatch.context() as patch:
        actors = (Ours(shop, shop.worker(job_id), patch), Theirs(shop, statement))
        left = [list(OURS), list(THEIRS)]
        for number, step in order:
            if actors[number].waits():
                for rest in list(left[1 - number]):
                    actors[1 - number].take(rest)
                    left[1 - number].remove(rest)
            if step in left[number]:
                actors[number].take(step)
                left[number].remove(step)
        for actor in actors:
            actor.join()
    job = shop.run(job_id)
    assert job.chunks_dead == 0


@pytest.mark.parametrize(
    "update", [EXPRESSIONS, FUNCTION, VERSIONED], ids=["expressions", "function", "version column"]
)
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "-".join(step for _, step in order))
def test_a_change_of_somebody_else_is_never_lost(
    shop: Shop, order: tuple[tuple[int, str], ...], update: dict[str, Any]
) -> None:
    play(shop, update, CHANGE, order)
    [(gross, net, touched, revision)] = shop.rows(
        "select gross, net, touched, revision from shop.orders where id = 30"
    )
    assert (float(gross), touched, revision) == (115.0, 1, 1)
    steps = [step for _, step in order]
    # Theirs came before our write, and we saw it; or after it, on top of ours.
    assert net == (230.0 if steps.index("change") < steps.index("write") else 30.0)
    assert shop.rows("select distinct touched from shop.orders") == [(1,)]


@pytest.mark.long
@pytest.mark.parametrize("update", [EXPRESSIONS, FUNCTION], ids=["expressions", "function"])
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "-".join(step for _, step in order))
def test_a_row_that_somebody_else_deletes_stays_deleted(
    shop: Shop, order: tuple[tuple[int, str], ...], update: dict[str, Any]
) -> None:
    play(shop, update, DELETE, order)
    assert shop.rows("select count(*), sum(touched) from shop.orders") == [(99, 99)]
