"""Figures for Prometheus, and the dashboard and alerts that are made from them."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from disarray.agent.monitoring import AgentFigures, metrics_text
from disarray.control import backfills, views
from disarray.control.backfills import BackfillDecision
from disarray.control.destinations import register_destination
from disarray.control.timings import BOUNDS_SECONDS, Timings
from tests.web.conftest import report, start_backfill

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plant import Plant
    from tests.web.conftest import Client

DEPLOY = Path(__file__).parents[2] / "deploy"

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(client: Client, **parameters: str) -> Samples:
    response = client.http.get("/metrics", params=parameters)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def with_labels(**labels: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


@pytest.mark.postgres
def test_facts_are_counted_in_the_database(plant: Plant, ada: Client, late: str) -> None:
    found = samples(ada)
    assert found["disarray_commits_total", ()] == 3
    assert found["disarray_files_total", with_labels(outcome="read")] == 3
    assert found["disarray_readings_total", with_labels(outcome="parked")] == 120
    assert found["disarray_late_readings_total", ()] == 120
    assert found["disarray_repair_readings_total", ()] == 120
    assert found["disarray_lateness_seconds_bucket", with_labels(le="0")] == 2
    assert found["disarray_lateness_seconds_count", ()] == 3
    assert found["disarray_recent_events", with_labels(event="completed")] == 3
    assert found["disarray_recent_events", with_labels(event="lease_expired")] == 0
    assert found["disarray_commit_seconds_count", ()] >= 3


@pytest.mark.postgres
def test_the_backlog_and_its_age_are_told(plant: Plant, ada: Client) -> None:
    assert samples(ada)["disarray_queue_oldest_seconds", ()] == 0
    plant.notify(plant.write("TOOL07/12.csv", "time,watts,good\n"))
    found = samples(ada)
    assert found["disarray_queue_items", with_labels(status="available")] == 1
    assert found["disarray_queue_lane_items", with_labels(lane="live")] == 1
    assert found["disarray_queue_lane_items", with_labels(lane="backfill")] == 0
    assert found["disarray_queue_oldest_seconds", ()] > 0
    assert found["disarray_files_known", with_labels(status="pending")] == 1
    assert found["disarray_instance_seen_seconds", with_labels(worker="Worker01", state="active")] >= 0


@pytest.mark.postgres
def test_no_label_names_a_subject_or_a_file(ada: Client, late: str) -> None:
    labels = {label for _, given in samples(ada) for label, _ in given}
    assert labels == {
        "outcome",
        "le",
        "status",
        "lane",
        "state",
        "worker",
        "event",
        "route",
        "version",
        "verdict",
    }


@pytest.mark.postgres
def test_what_a_label_tells_apart_can_be_summed(plant: Plant, ada: Client, late: str) -> None:
    dead = plant.write("TOOL07/dead.csv", "a,b\n1,2\n")
    plant.ingest(dead)
    plant.notify(plant.write("TOOL07/12.csv", "time,watts,good\n"), plant.write("TOOL08/1.csv", report(1)))
    with plant.pool.connection() as connection:
        # One of two items was tried and waits for its next attempt.
        connection.execute(
            "update disarray.ingest_queue set available_at = now() + interval '1 h' where subject_key = 'TOOL08'"
        )
    found = samples(ada)

    def total(name: str) -> float:
        return sum(value for (own, _), value in found.items() if own == name)

    queued = ada.get("queue")["items"]
    assert total("disarray_queue_items") == total("disarray_queue_lane_items") == len(queued) == 2
    assert found["disarray_queue_items", with_labels(status="available")] == 1
    assert found["disarray_queue_items", with_labels(status="delayed")] == 1
    assert total("disarray_files_known") == len(ada.get("files")["files"])
    counted = ada.get("figures/duplicates")
    # The late file was read, and part of it is parked: it is one file.
    assert (counted["files_read"], total("disarray_files_total"), total("disarray_files_parked_total")) == (
        3,
        3,
        1,
    )
    assert total("disarray_readings_total") == counted["readings_seen"]
    assert total("disarray_instances") == len(ada.get("instances")["instances"]) == 1
    assert total("disarray_subjects") == 2


@pytest.mark.postgres
def test_facts_and_what_is_of_this_process_can_be_asked_for_apart(plant: Plant, ada: Client) -> None:
    facts, process = ({name for name, _ in samples(ada, of=of)} for of in ("facts", "process"))
    assert facts & process == set()
    assert facts | process == {name for name, _ in samples(ada)}
    assert "disarray_commits_total" in facts
    assert "disarray_commit_seconds_count" in process


@pytest.mark.postgres
def test_backfills_are_told_by_name_until_they_have_ended(
    plant: Plant, ada: Client, advance_clock: Callable[[timedelta], None]
) -> None:
    found = samples(ada)
    assert found["disarray_backfills", with_labels(state="stopped")] == 0
    assert found["disarray_backfill_verdicts", with_labels(verdict="failed")] == 0
    with plant.pool.connection() as connection:
        running, paused = (start_backfill(connection, name) for name in ("running", "paused"))
        backfills.note_backfill_hold(connection, running, "max_queue_age", "the oldest live item waits")
        backfills.decide_backfill(connection, paused, BackfillDecision.PAUSED, reason="sale", by="ada")
        connection.execute(
            """
            insert into disarray.backfill_chunk (
                job_id, chunk_no, place, cursor_to, rows_cut, state, available_at, ended_at,
                last_error, rows_written, rows_after, checksum
            )
            values
                (%(job)s, 1, 1, '{3}', 3, 'done', now(), disarray.clock(), null, 3, 3, repeat('0', 32)),
                (%(job)s, 2, 2, '{6}', 3, 'dead', now(), disarray.clock(), 'no', null, null, null)
            """,
            {"job": running},
        )
    advance_clock(timedelta(hours=1))
    found = samples(ada)
    assert found["disarray_backfills", with_labels(state="running")] == 1
    assert found["disarray_backfills", with_labels(state="paused")] == 1
    of_running = with_labels(backfill="running")
    assert found["disarray_backfill_total_rows", of_running] == 9
    assert found["disarray_backfill_done_rows", of_running] == 3
    assert found["disarray_backfill_dead_chunks", of_running] == 1
    assert found["disarray_backfill_held", with_labels(backfill="running", held_by="max_queue_age")] == 1
    assert 3600 <= found["disarray_backfill_idle_seconds", of_running] < 4000
    # Nobody expects it to go on.
    assert ("disarray_backfill_idle_seconds", with_labels(backfill="paused")) not in found
    with plant.pool.connection() as connection:
        for job_id in (running, paused):
            backfills.decide_backfill(connection, job_id, BackfillDecision.CANCELLED, reason="x", by="ada")
    found = samples(ada)
    assert found["disarray_backfills", with_labels(state="cancelled")] == 2
    assert not [given for _, given in found if dict(given).get("backfill")]


@pytest.mark.postgres
def test_a_verdict_is_told_for_a_day_or_until_the_job_is_started_anew(
    plant: Plant, ada: Client, advance_clock: Callable[[timedelta], None]
) -> None:
    def end(name: str, verdict: str) -> None:
        with plant.pool.connection() as connection:
            connection.execute(
                "update disarray.backfill_job set state = 'done', ended_at = disarray.clock(), verdict = %s, "
                "verified_at = disarray.clock() where job_id = %s",
                (verdict, start_backfill(connection, name)),
            )

    def told() -> dict[str, float]:
        verdicts = ("verified", "failed", "incomplete")
        found = samples(ada)
        return {each: found["disarray_backfill_verdicts", with_labels(verdict=each)] for each in verdicts}

    end("fill_net", "failed")
    end("fill_gross", "incomplete")
    assert told() == {"verified": 0, "failed": 1, "incomplete": 1}
    end("fill_net", "verified")
    assert told() == {"verified": 1, "failed": 0, "incomplete": 1}
    advance_clock(timedelta(hours=25))
    assert told() == {"verified": 0, "failed": 0, "incomplete": 0}


@pytest.mark.postgres
def test_a_job_stands_still_once_nobody_verifies_it(
    plant: Plant, ada: Client, advance_clock: Callable[[timedelta], None]
) -> None:
    with plant.pool.connection() as connection:
        connection.execute(
            "update disarray.backfill_job set state = 'verifying', instance_name = 'Worker01', incarnation = 1, "
            "fence = 1, lease_expires_at = disarray.clock() + interval '1 h' where job_id = %s",
            (start_backfill(connection, "fill_net"),),
        )
    idle = ("disarray_backfill_idle_seconds", with_labels(backfill="fill_net"))
    assert samples(ada)[idle] == 0
    advance_clock(timedelta(hours=2))
    assert 3600 <= samples(ada)[idle] < 4000


def named_in(text: str) -> set[str]:
    return set(re.findall(r"\bdisarray_[a-z_]+", text))


@pytest.mark.postgres
def test_dashboard_and_alerts_name_only_what_is_exported(plant: Plant, ada: Client, late: str) -> None:
    with plant.pool.connection() as connection:
        register_destination(connection, "hourly", dataset="tools", definition={}, subject_patterns=["*"])
        views.put_view(
            connection, "counts", schema_name="telemetry", definition="select 1 as one", unique_key=["one"],
            depends_on=["tools"], at_most_every=timedelta(minutes=1), timeout_seconds=60, by="ada", is_built=False,
        )  # fmt: skip
        backfills.note_backfill_hold(connection, start_backfill(connection, "fill_net"), "rate", "it is slow")
    samples(ada)  # so that requests were timed
    exported = {name for name, _ in samples(ada)}
    dashboard = json.loads((DEPLOY / "grafana" / "disarray.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert len(asked) > 10
    assert named_in("\n".join(asked)) <= exported
    alerts = (DEPLOY / "prometheus" / "alerts.yml").read_text()
    assert len(named_in(alerts)) >= 5
    of_agents = {
        name
        for family in text_string_to_metric_families(metrics_text(AgentFigures(stepped_us=0), now_us=0))
        for name in {sample.name for sample in family.samples}
    }
    assert (
        named_in("\n".join(line for line in alerts.splitlines() if "expr:" in line)) <= exported | of_agents
    )


def test_a_duration_is_counted_in_the_class_that_it_fits() -> None:
    timings = Timings()
    for seconds in (0.0, BOUNDS_SECONDS[0], BOUNDS_SECONDS[0] + 1e-9, 1e9):
        timings.observe("x", seconds, kind="a")
    with pytest.raises(ZeroDivisionError), timings.timed("x", kind="b"):
        _ = 1 // 0
    counted = timings.of("x")
    assert counted["a"].counts == (2, 1, *[0] * (len(BOUNDS_SECONDS) - 2), 1)
    assert sum(counted["b"].counts) == 1
    assert timings.of("y") == {}
