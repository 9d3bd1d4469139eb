"""What an agent tells of itself, over a real socket."""

from __future__ import annotations

import json
import socket
import sqlite3
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from disarray.agent import monitoring
from disarray.agent.monitoring import MonitoringServer
from disarray.errors import PortUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.agent.conftest import Lab

LINE = "time,value\n2024-01-01T00:00:00Z,1\n"


@pytest.fixture
def server(lab: Lab) -> Iterator[MonitoringServer]:
    """Tells the figures of the lab's agent."""
    started = MonitoringServer("127.0.0.1", 0, figures=lambda: lab.agent.figures, clock_us=lambda: lab.now_us)
    started.start()
    yield started
    started.stop()


def ask(server: MonitoringServer, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def figures(server: MonitoringServer) -> dict[str, float]:
    status, text = ask(server, "/metrics")
    assert status == 200
    return {
        sample.name.removeprefix("disarray_agent_") + "".join(sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_was_seen_and_sent_is_counted(lab: Lab, server: MonitoringServer) -> None:
    lab.write("TOOL07/a.csv", LINE)
    lab.write("TOOL08/b.csv", LINE)
    assert len(lab.after()) == 2
    found = figures(server)
    assert (found["files"], found["notifications_total"], found["published_total"]) == (2, 2, 2)
    assert (found["pending_notifications"], found["spool_bytes"]) == (0, 0)
    assert found["oldest_unannounced_seconds"] == 0
    assert found["read_bytes_total"] == 2 * len(LINE)
    assert found["scans_total"] == 2


def test_what_waits_while_the_broker_is_away_has_an_age(lab: Lab, server: MonitoringServer) -> None:
    lab.transport.is_away = True
    lab.write("TOOL07/a.csv", LINE)
    lab.after()
    lab.write("TOOL07/b.csv", LINE)
    lab.minutes(8)
    lab.now_us += 5_000_000
    found = figures(server)
    assert (found["pending_notifications"], found["published_total"]) == (2, 0)
    assert found["oldest_unannounced_seconds"] == 485
    assert found["errors_totaltransport"] == 2
    lab.transport.is_away = False
    assert len(lab.minutes(1)) == 2
    found = figures(server)
    assert (found["pending_notifications"], found["oldest_unannounced_seconds"]) == (0, 0)


def test_of_subjects_that_no_queue_takes_the_age_is_that_of_the_oldest(
    lab: Lab, server: MonitoringServer
) -> None:
    lab.transport.unroutable = frozenset({"TOOL07"})
    lab.write("TOOL07/a.csv", LINE)
    lab.after()
    for minute in range(3):
        lab.write(f"TOOL08/{minute}.csv", LINE)
        lab.minutes(1)
    found = figures(server)
    assert (found["pending_notifications"], found["published_total"]) == (1, 3)
    assert found["oldest_unannounced_seconds"] == 180


def test_what_waited_before_a_restart_is_as_old_as_the_new_life_at_least(
    lab: Lab, server: MonitoringServer
) -> None:
    lab.transport.is_away = True
    lab.write("TOOL07/a.csv", LINE)
    lab.after()
    lab.now_us += 60_000_000
    lab.start()
    lab.after(30)
    found = figures(server)
    assert (found["pending_notifications"], found["oldest_unannounced_seconds"]) == (1, 30)


def test_counts_of_the_spool_are_those_of_its_file(lab: Lab, server: MonitoringServer) -> None:
    lab.transport.unroutable = frozenset({"TOOL07"})
    for name in ("TOOL07/a.csv", "TOOL07/b.csv", "TOOL08/c.csv"):
        lab.write(name, LINE)
    lab.after()
    assert lab.state is not None
    lab.state.close()
    with sqlite3.connect(lab.state_path) as kept:
        [(waiting,)] = kept.execute("select count(*) from outbox")
    kept.close()
    assert figures(server)["pending_notifications"] == waiting == 2
    lab.state = None


def test_errors_are_counted_by_what_they_are(lab: Lab, server: MonitoringServer) -> None:
    (lab.share / "TOOL07").mkdir()
    (lab.share / "TOOL07" / "link.csv").symlink_to("/etc/hostname")
    lab.after()
    assert figures(server)["errors_totalrefused"] == 1


def test_no_name_of_a_file_or_subject_is_told(lab: Lab, server: MonitoringServer) -> None:
    lab.write("TOOL07/secret.csv", LINE)
    lab.after()
    for path in ("/metrics", "/health", "/nowhere"):
        assert "TOOL07" not in ask(server, path)[1]
        assert "secret" not in ask(server, path)[1]


def test_an_agent_that_hangs_is_not_healthy(lab: Lab, server: MonitoringServer) -> None:
    lab.after()
    status, told = ask(server, "/health")
    assert (status, json.loads(told)["pending"]) == (200, 0)
    lab.now_us += int((monitoring.SILENT_SECONDS + 1) * 1e6)
    assert ask(server, "/health")[0] == 503
    assert figures(server)["stepped_seconds"] > monitoring.SILENT_SECONDS
    lab.after()
    assert ask(server, "/health")[0] == 200


def test_nothing_else_is_answered(server: MonitoringServer) -> None:
    assert ask(server, "/")[0] == 404
    posted = urllib.request.Request(f"http://127.0.0.1:{server.port}/metrics", data=b"x", method="POST")
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(posted, timeout=60)


def test_who_takes_their_time_keeps_nobody_out_for_long(
    lab: Lab, server: MonitoringServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitoring._Handler, "timeout", 0.2)
    silent = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(40)]
    try:
        for client in silent:
            assert client.recv(1) == b""  # each is hung up on, at once or after its time
        assert ask(server, "/health")[0] == 200
    finally:
        for client in silent:
            client.close()


def test_a_port_that_is_taken_is_told(server: MonitoringServer, lab: Lab) -> None:
    with pytest.raises(PortUnavailableError, match="Nothing was started"):
        MonitoringServer(
            "127.0.0.1", server.port, figures=lambda: lab.agent.figures, clock_us=lambda: lab.now_us
        )
