"""`disarray agent` as a process, with a real broker or the embedded database behind it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

URL = os.environ.get("DISARRAY_TEST_BROKER", "amqp://guest:guest@127.0.0.1:5672/%2F")
DATASET = r"""
[[dataset]]
name = "tool"
roots = ["share"]
files = ["*/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>TOOL\d+)/' }
zone = "UTC"
event_time = { from = "time", layouts = ["iso"] }
columns.value = { from = "value", type = "float64" }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose share holds one file."""
    (tmp_path / "share" / "TOOL07").mkdir(parents=True)
    (tmp_path / "share" / "TOOL07" / "a.csv").write_text("time,value\n2024-01-01T00:00:00Z,1\n")
    (tmp_path / "disarray.toml").write_text(DATASET)
    return tmp_path


@pytest.fixture
def queue(project: Path) -> Iterator[tuple[Any, str]]:
    """A worker's queue of this test alone, named in the project's configuration."""
    import pika  # type: ignore[import-untyped]
    import pika.exceptions  # type: ignore[import-untyped]

    from disarray.broker.topology import Names, declare_worker_queue

    try:
        connection = pika.BlockingConnection(pika.URLParameters(URL))
    except (OSError, pika.exceptions.AMQPError) as error:
        pytest.skip(
            f"no RabbitMQ at {URL.rpartition('@')[2]} ({error!r}); set DISARRAY_TEST_BROKER or start one"
        )
    names = Names(f"test-{uuid.uuid4().hex[:12]}")
    channel = connection.channel()
    (project / "disarray.toml").write_text(
        f'[broker]\nurl = "{URL}"\nprefix = "{names.prefix}"\n[agent]\nscan_every = "100 ms"\n{DATASET}'
    )
    yield channel, declare_worker_queue(channel, names, "Worker01", subject_patterns=("TOOL*",))
    for each in (names.dead_queue, names.worker_queue("Worker01")):
        channel.queue_delete(each)
    for exchange in (names.exchange, names.dead_exchange):
        channel.exchange_delete(exchange)
    connection.close()


def start(*arguments: str, project: Path) -> subprocess.Popen[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DISARRAY_")}
    return subprocess.Popen(
        [sys.executable, "-m", "disarray", *arguments],
        cwd=project,
        env=inherited,
        stderr=subprocess.PIPE,
        text=True,
    )


def received(channel: Any, queue: str) -> list[str]:
    from disarray.broker.messages import decode_message

    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            return [each.notification.source_uri.rpartition("/")[2] for each in decode_message(body)]
        time.sleep(0.05)
    return []


def test_once_announces_what_is_there_and_ends(project: Path, queue: tuple[Any, str]) -> None:
    ended = start("agent", "--once", project=project)
    _, lines = ended.communicate(timeout=240)
    assert ended.returncode == 0, lines
    assert "1 files, 1 notifications, 1 sent, 0 refused; 0 bytes wait in the spool" in lines
    assert received(*queue) == ["a.csv"]
    again = start("agent", "--once", project=project)
    assert "0 notifications" in again.communicate(timeout=240)[1]


def test_once_without_a_broker_keeps_everything_and_ends_with_code_1(project: Path) -> None:
    ended = start("agent", "--once", "--broker", "amqp://alice:s3cret@127.0.0.1:1/%2F", project=project)
    _, lines = ended.communicate(timeout=240)
    assert ended.returncode == 1
    assert "kept and sent again" in lines
    assert "; 0 bytes wait" not in lines
    assert "s3cret" not in lines
    assert "Traceback" not in lines


def test_it_watches_until_it_is_told_to_end(project: Path, queue: tuple[Any, str]) -> None:
    agent = start("agent", project=project)
    try:
        assert received(*queue) == ["a.csv"]
        (project / "share" / "TOOL07" / "b.csv").write_text("time,value\n")
        assert received(*queue) == ["b.csv"]
    finally:
        agent.send_signal(signal.SIGTERM)
    _, lines = agent.communicate(timeout=240)
    assert agent.returncode == 0, lines
    assert "2 sent" in lines


def test_a_second_agent_on_the_same_state_is_refused(project: Path, queue: tuple[Any, str]) -> None:
    first = start("agent", project=project)
    try:
        assert received(*queue) == ["a.csv"]
        second = start("agent", "--once", project=project)
        _, lines = second.communicate(timeout=240)
        assert second.returncode == 1
        assert lines.startswith("disarray: another agent works with")
    finally:
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=240)


@pytest.mark.postgres
def test_without_a_broker_it_queues_in_the_database(project: Path, dsn: str) -> None:
    from disarray.control import queue
    from disarray.control.connections import connect

    ended = start("--dsn", dsn, "agent", "--once", project=project)
    _, lines = ended.communicate(timeout=240)
    assert ended.returncode == 0, lines
    with connect(dsn) as connection:
        [entry] = queue.list_queue(connection)
    assert entry.subject_key == "TOOL07"
    assert entry.source_uri == f"file://{project}/share/TOOL07/a.csv"


def test_an_agent_tells_its_figures_where_it_is_asked_to(queue: tuple[Any, str], project: Path) -> None:
    with start("agent", "--metrics-port", "0", project=project) as running:
        assert running.stderr is not None
        place = next(line for line in running.stderr if "/metrics" in line).rpartition("http://")[2].strip()
        assert place.startswith("127.0.0.1:")
        told = ""
        # Until pytest's own time limit: the message goes out as soon as the broker takes it.
        while "disarray_agent_published_total 1\n" not in told:
            with urllib.request.urlopen(f"http://{place}", timeout=60) as response:
                told = response.read().decode()
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=120)
    assert running.returncode == 0
