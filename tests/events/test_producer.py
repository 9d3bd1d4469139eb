"""The client of programs on lab PCs: what it was given is sent, whatever happens to it or to the server."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from disarray.errors import SpoolFullError
from disarray.events import Producer
from disarray.events.spool import Spool
from disarray.store.lake import Lake
from disarray.web.app import create_app
from disarray.web.http_server import Server
from disarray.web.route import Scope, Sources
from tests.control.test_raw_events import define
from tests.web.conftest import add_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from disarray.control.connections import Pool

from disarray.control import connections

pytestmark = pytest.mark.postgres

SECONDS = 60.0
PRODUCERS = ("produce.spooled", "produce.answered")


@pytest.fixture
def pool(dsn: str) -> Iterator[Pool]:
    with connections.open_pool(dsn) as pool:
        with pool.connection() as connection:
            define(connection, "hmi")
        yield pool


@pytest.fixture
def token(pool: Pool) -> str:
    return add_token(pool, "press", Scope.PRODUCE)


@pytest.fixture
def serve(pool: Pool, tmp_path: Path) -> Iterator[Callable[[int], Server]]:
    """Starts the REST server at a port, as often as it is told to."""
    started: list[Server] = []

    def start(port: int) -> Server:
        server = Server(create_app(Sources(pool, Lake(tmp_path / "lake"), {})), host="127.0.0.1", port=port)
        server.start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        found: int = probe.getsockname()[1]
        return found


def make(port: int, token: str, folder: Path, **options: float) -> Producer:
    return Producer(
        f"http://127.0.0.1:{port}",
        dataset="hmi",
        token=token,
        spool=folder / "spool" / "events.sqlite",
        linger_seconds=0.01,
        longest_pause_seconds=0.2,
        **options,  # type: ignore[arg-type]
    )


def stored(pool: Pool) -> list[int]:
    with pool.connection() as connection:
        rows = connection.execute(
            "select (payload ->> 'n')::int from disarray.raw_event order by event_id"
        ).fetchall()
    return [number for (number,) in rows]


def test_importing_it_loads_the_standard_library_alone() -> None:
    script = "import disarray.events, sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    others = set(found) - set(sys.stdlib_module_names) - {"__main__", "disarray"}
    # What the installation loads at every start of Python is not ours.
    idle = subprocess.run(
        [sys.executable, "-c", "import sys; print(*{name.partition('.')[0] for name in sys.modules})"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert others - set(idle) == set()


def test_events_arrive_in_the_order_in_which_they_were_sent(
    serve: Callable[[int], Server], port: int, token: str, pool: Pool, tmp_path: Path
) -> None:
    serve(port)
    with make(port, token, tmp_path) as producer:
        producer.send({"n": 0})
        producer.send_many({"n": number} for number in range(1, 12_000))
        assert producer.flush(SECONDS)
        assert (producer.waiting, producer.counts.new, producer.counts.duplicate) == (0, 12_000, 0)
    assert stored(pool) == list(range(12_000))


def test_what_is_sent_while_the_server_is_away_arrives_when_it_is_back(
    serve: Callable[[int], Server], port: int, token: str, pool: Pool, tmp_path: Path
) -> None:
    with make(port, token, tmp_path) as producer:
        producer.send_many({"n": number} for number in range(10))
        assert not producer.flush(0.3)
        assert "does not answer" in (producer.problem or "")
        server = serve(port)
        assert producer.flush(SECONDS)
        server.stop()
        producer.send({"n": 10})
        assert not producer.flush(0.3)
        serve(port)
        assert producer.flush(SECONDS)
    assert stored(pool) == list(range(11))


def test_what_was_not_taken_waits_for_the_next_life(
    serve: Callable[[int], Server], port: int, token: str, pool: Pool, tmp_path: Path
) -> None:
    producer = make(port, token, tmp_path)
    producer.send({"n": 1})
    producer.close(0.1)
    serve(port)
    with make(port, token, tmp_path) as successor:
        assert successor.flush(SECONDS)
    assert stored(pool) == [1]


def test_a_token_that_does_not_hold_costs_no_event(
    serve: Callable[[int], Server], port: int, token: str, pool: Pool, tmp_path: Path
) -> None:
    serve(port)
    with make(port, "dsr_0123456789abcdef_" + "x" * 43, tmp_path) as producer:
        producer.send({"n": 1})
        assert not producer.flush(0.5)
        assert "answered 401" in (producer.problem or "")
    with make(port, token, tmp_path) as mended:
        assert mended.flush(SECONDS)
    assert stored(pool) == [1]


def test_what_the_server_refuses_is_kept_apart_and_holds_nothing_up(
    serve: Callable[[int], Server], port: int, token: str, pool: Pool, tmp_path: Path
) -> None:
    serve(port)
    with make(port, token, tmp_path) as producer:
        producer.send_many([{"n": 1}, {"n": "\ud800"}, {"n": 2}])
        assert producer.flush(SECONDS)
        [refused] = producer.rejected()
        assert (json.loads(refused.event), producer.counts.rejected) == ({"n": "\ud800"}, 1)
        assert "not JSON that can be stored" in refused.reason
        producer.forget_rejected([refused.number])
        assert producer.rejected() == []
    assert stored(pool) == [1, 2]


def test_what_is_no_json_is_refused_where_it_is_given(port: int, token: str, tmp_path: Path) -> None:
    with make(port, token, tmp_path) as producer:
        with pytest.raises(ValueError, match="not JSON compliant"):
            producer.send({"n": float("nan")})
        with pytest.raises(TypeError, match="a mapping"):
            producer.send([1])  # type: ignore[arg-type]
        assert producer.waiting == 0


def test_a_full_spool_takes_nothing_and_loses_nothing(
    serve: Callable[[int], Server], port: int, token: str, pool: Pool, tmp_path: Path
) -> None:
    with make(port, token, tmp_path, spool_bytes=100) as producer:
        producer.send_many({"n": number} for number in range(10))
        with pytest.raises(SpoolFullError, match="These 5 events were not kept"):
            producer.send_many({"n": number} for number in range(10, 15))
        serve(port)
        assert producer.flush(SECONDS)
        producer.send_many({"n": number} for number in range(10, 15))
        assert producer.flush(SECONDS)
    assert stored(pool) == list(range(15))


def produce(port: int, token: str, folder: Path, armed: str, first: int) -> None:
    """A life of a program: ten events one by one."""
    os.environ["DISARRAY_FAILPOINTS"] = armed
    from disarray import failpoints

    failpoints._armed = failpoints.armoury_of(os.environ)
    with make(port, token, folder) as producer:
        for number in range(first, first + 10):
            producer.send({"n": number})
            time.sleep(0.005)
        producer.flush(SECONDS)


@pytest.mark.parametrize(
    "armed", [f"{PRODUCERS[0]}=kill@4", f"{PRODUCERS[1]}=kill", f"{PRODUCERS[1]}=kill@2"]
)
def test_a_program_that_is_killed_at_any_step_loses_and_doubles_nothing(
    serve: Callable[[int], Server], port: int, token: str, pool: Pool, tmp_path: Path, armed: str
) -> None:
    serve(port)
    for first in (0, 100):
        life = multiprocessing.get_context("spawn").Process(
            target=produce, args=(port, token, tmp_path, armed, first)
        )
        life.start()
        life.join(SECONDS)
        assert life.exitcode == -signal.SIGKILL
    spool = Spool(tmp_path / "spool" / "events.sqlite", most_bytes=1 << 20)
    kept = spool.waiting
    spool.close()
    before = set(stored(pool))
    with make(port, token, tmp_path) as successor:
        assert successor.flush(SECONDS)
        # What was on disk is there, what the server had is known, and nothing else came.
        assert successor.counts.seen == kept
    found = stored(pool)
    assert before <= set(found)
    assert len(found) == len(set(found))
    if armed.startswith("produce.spooled"):
        assert sorted(found) == [0, 1, 2, 3, 100, 101, 102, 103]
