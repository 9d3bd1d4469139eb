"""Work that is queued over REST: where to look for it, and what became of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.web.conftest import report

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plant import Plant
    from tests.web.conftest import Client

pytestmark = pytest.mark.postgres


@pytest.fixture
def uri(plant: Plant) -> str:
    """The uri of a file that is in."""
    return str(plant.inbox / "TOOL07/0.csv")


def test_the_answer_to_a_request_says_where_to_see_what_became_of_it(
    plant: Plant, ada: Client, uri: str
) -> None:
    body = {"source_uri": uri, "reason": "looked odd"}
    answer = ada.http.post("/api/v1/files/reingest", json=body, headers={"Idempotency-Key": "k"})
    place = answer.headers["location"]
    assert (answer.status_code, place) == (202, f"/api/v1/queue/{answer.json()['queue_id']}")
    waiting = ada.http.get(place).json()
    assert (waiting["status"], waiting["item"]["reason"]) == ("available", "reingest")
    assert ada.get("queue", subject_key="TOOL07")["items"] == [waiting["item"]]
    plant.drain()
    done = ada.http.get(place).json()
    assert (done["status"], done["item"]) == ("completed", None)
    assert [event["event_type"] for event in done["events"]] == ["completed", "enqueued"]
    assert (done["source_uri"], done["subject_key"]) == (uri, "TOOL07")
    again = ada.http.post("/api/v1/files/reingest", json=body, headers={"Idempotency-Key": "k"})
    assert (again.status_code, again.headers["location"]) == (202, place)
    assert ada.get("queue") == {"items": [], "next": None}


def test_an_item_that_was_given_up_says_so(plant: Plant, ada: Client) -> None:
    path = plant.write("TOOL07/dead.csv", "a,b\n1,2\n")
    plant.notify(path)
    [item] = ada.get("queue")["items"]
    plant.drain()
    assert ada.get(f"queue/{item['queue_id']}")["status"] == "dead_letter"
    answer = ada.http.post(
        "/api/v1/dead-letters/retry", json={"source_uris": [str(path)], "reason": "mended"}
    )
    assert answer.headers["location"] == f"/api/v1/queue/{answer.json()['queue_ids'][str(path)]}"


def test_an_item_about_a_subject_tells_its_end_too(
    plant: Plant, ada: Client, advance_clock: Callable[[timedelta], None]
) -> None:
    with plant.pool.connection() as connection:
        connection.execute(
            """
            insert into disarray.dirty_range (subject_key, range_start, range_end, reason, created_at)
            values ('TOOL07', '2026-10-01', 'infinity', 'test', now())
            """
        )
    answer = ada.http.post("/api/v1/subjects/reconcile", json={"reason": "nightly"})
    place = answer.headers["location"].removeprefix("/api/v1/")
    assert ada.get(place)["status"] == "available"
    plant.drain()
    for hours in (0, 5):
        advance_clock(timedelta(hours=hours))
        done = ada.get(place)
        assert (done["status"], done["source_uri"], done["subject_key"]) == ("completed", None, "TOOL07")
        assert [event["event_type"] for event in done["events"]] == ["completed", "reconcile_requested"]
    advance_clock(timedelta(hours=20))
    assert "none left the queue within the last day" in ada.get(place, expect=404)["detail"]


def test_several_items_are_found_in_the_list(plant: Plant, ada: Client) -> None:
    paths = [plant.write(f"TOOL07/dead{number}.csv", "a,b\n1,2\n") for number in range(2)]
    for path in paths:
        plant.ingest(path)
    answer = ada.http.post(
        "/api/v1/dead-letters/retry", json={"source_uris": [str(path) for path in paths], "reason": "mended"}
    )
    assert (answer.status_code, answer.headers["location"]) == (202, "/api/v1/queue")
    listed = ada.http.get(answer.headers["location"]).json()["items"]
    assert {item["queue_id"] for item in listed} == set(answer.json()["queue_ids"].values())


def test_where_nothing_is_left_to_be_done_nothing_is_queued(plant: Plant, ada: Client, uri: str) -> None:
    answer = ada.http.post("/api/v1/subjects/reconcile", json={"reason": "nightly"})
    assert (answer.status_code, "location" in answer.headers) == (200, False)
    path = plant.write("TOOL07/unread.csv", report(13))
    plant.notify(path)
    first = ada.http.post("/api/v1/files/blacklist", json={"source_uri": str(path), "reason": "broken"})
    second = ada.http.post("/api/v1/files/reingest", json={"source_uri": str(path), "reason": "again"})
    assert (first.status_code == 202) == (first.json()["queue_id"] is not None)
    assert (second.status_code, second.json()["queue_id"]) == (200, None)


def test_an_item_that_nobody_knows_is_not_found(plant: Plant, ada: Client) -> None:
    assert "no item 999999 is queued" in ada.get("queue/999999", expect=404)["detail"]
    assert "queue_id: expected a whole number" in ada.get("queue/x", expect=400)["detail"]
    ada.get("queue/0", expect=400)
    assert "queue_id is given twice" in ada.get("queue/1", expect=400, queue_id="2")["detail"]
