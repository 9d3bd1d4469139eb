"""Backfills over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from disarray.control import backfills
from disarray.web.route import Scope
from tests.web.conftest import start_backfill

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plant import Plant
    from tests.web.conftest import Client

pytestmark = pytest.mark.postgres


def test_jobs_are_listed_in_pages_and_shown_with_what_holds_them_back(plant: Plant, ada: Client) -> None:
    assert ada.get("backfills") == {"backfills": [], "next": None}
    with plant.pool.connection() as connection:
        for name in ("first", "second"):
            start_backfill(connection, name)
        backfills.note_backfill_hold(connection, 2, "max_queue_age", "the oldest live item waits")
    newest = ada.get("backfills", limit="1")
    assert [job["name"] for job in newest["backfills"]] == ["second"]
    assert [job["name"] for job in ada.get("backfills", after=newest["next"])["backfills"]] == ["first"]
    job = ada.get("backfills/2")
    assert (job["state"], job["held_by"], job["rate_limit"]) == ("running", "max_queue_age", 5)
    assert job["description"] == {"source": {"table": "shop.orders"}}
    assert ada.http.get("/api/v1/backfills/7").status_code == 404


@pytest.fixture
def job(plant: Plant) -> int:
    """A backfill of nine rows that nobody works on."""
    with plant.pool.connection() as connection:
        return start_backfill(connection, "fill_net")


def events_of(ada: Client, event_type: str) -> list[dict[str, Any]]:
    return [event["metadata"] for event in ada.get("events", event_type=event_type)["events"]]


def test_a_job_is_paused_resumed_and_cancelled_with_who_and_why(ada: Client, job: int) -> None:
    for action, state, event in (
        ("pause", "paused", "backfill_paused"),
        ("resume", "running", "backfill_resumed"),
        ("cancel", "cancelled", "backfill_cancelled"),
    ):
        assert ada.post(f"backfills/{action}", job_id=job, reason="sale") == {"job_id": job, "state": state}
        assert ada.get(f"backfills/{job}")["state"] == state
        [decided] = events_of(ada, event)
        assert (decided["by"], decided["reason"], decided["job_id"]) == ("ada", "sale", job)


def test_who_resumes_a_job_is_told_where_to_look(ada: Client, job: int) -> None:
    ada.post("backfills/pause", job_id=job, reason="sale")
    answer = ada.http.post("/api/v1/backfills/resume", json={"job_id": job, "reason": "night"})
    assert (answer.status_code, answer.headers["location"]) == (202, f"/api/v1/backfills/{job}")
    assert ada.http.get(answer.headers["location"]).json()["state"] == "running"


def test_a_decision_that_is_sent_twice_is_made_once(ada: Client, job: int) -> None:
    paused = [ada.post("backfills/pause", key="k1", job_id=job, reason="sale") for _ in range(2)]
    assert paused[0] == paused[1]
    assert len(events_of(ada, "backfill_paused")) == 1


def test_a_decision_that_cannot_be_is_refused(ada: Client, job: int) -> None:
    running = ada.post("backfills/resume", job_id=job, reason="night", expect=422)
    assert "is running: it cannot be resumed" in running["detail"]
    for action in ("pause", "resume", "cancel"):
        ada.post(f"backfills/{action}", job_id=job + 1, reason="x", expect=404)
    ada.post("backfills/rate", job_id=job + 1, rate_limit=None, max_concurrency=1, reason="x", expect=404)
    ada.post("backfills/rate", job_id=job + 1, rate_limit=None, reason="x", expect=404)
    assert ada.get(f"backfills/{job}")["state"] == "running"


def test_a_job_goes_as_fast_as_it_was_last_told(ada: Client, job: int) -> None:
    assert ada.post("backfills/rate", job_id=job, rate_limit=0.5, max_concurrency=4, reason="day") == {
        "job_id": job,
        "rate_limit": 0.5,
        "max_concurrency": 4,
    }
    assert ada.post("backfills/rate", job_id=job, rate_limit=None, reason="night")["max_concurrency"] == 4
    shown = ada.get(f"backfills/{job}")
    assert (shown["rate_limit"], shown["max_concurrency"]) == (None, 4)
    assert [event["rate_limit"] for event in events_of(ada, "backfill_rate_changed")] == [None, 0.5]


@pytest.mark.parametrize(
    ("rate_limit", "status"), [(0, 422), (-1, 400), (True, 400), ("5", 400), (10**400, 400), (1e10, 400)]
)
def test_a_rate_that_cannot_be_is_refused(ada: Client, job: int, rate_limit: object, status: int) -> None:
    ada.post("backfills/rate", job_id=job, rate_limit=rate_limit, reason="day", expect=status)
    assert ada.get(f"backfills/{job}")["rate_limit"] == 5


@pytest.mark.parametrize("action", ["pause", "resume", "cancel", "rate"])
def test_who_may_read_decides_nothing_about_a_job(
    call_as: Callable[..., Client], job: int, action: str
) -> None:
    reader = call_as("grafana", Scope.READ)
    pace = {"rate_limit": None} if action == "rate" else {}
    reader.post(f"backfills/{action}", job_id=job, reason="x", expect=403, **pace)
    assert reader.get(f"backfills/{job}")["rate_limit"] == 5


def test_a_decision_is_no_job_that_can_be_asked_for(ada: Client) -> None:
    for method in ("GET", "HEAD", "OPTIONS", "PUT"):
        answer = ada.http.request(method, "/api/v1/backfills/pause")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_no_job_is_started_over_rest(ada: Client) -> None:
    """Its SQL would run with the login of the server, and of workers: docs/security.md."""
    assert ada.http.post("/api/v1/backfills", json={}).status_code == 405
    assert ada.http.post("/api/v1/backfills/start", json={}).status_code in (404, 405)
