"""Dead letters, workers, runs, events and figures over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.web.conftest import report

if TYPE_CHECKING:
    from tests.plant import Plant
    from tests.web.conftest import Client

pytestmark = pytest.mark.postgres


@pytest.fixture
def dead(plant: Plant) -> str:
    """The uri of a file that was given up: it has not one column of its dataset."""
    path = plant.write("TOOL07/dead.csv", "a,b\n1,2\n")
    plant.ingest(path)
    return str(path)


def test_a_dead_letter_is_retried_with_who_and_why(plant: Plant, ada: Client, dead: str) -> None:
    [letter] = ada.get("dead-letters")["dead_letters"]
    assert (letter["source_uri"], letter["reason"]) == (dead, "file_notification")
    assert letter["last_error"]
    assert ada.get("dead-letters", subject_key="TOOL08")["dead_letters"] == []
    assert ada.get("dead-letters", failed_before="2020-01-01T00:00:00Z")["dead_letters"] == []
    plant.write("TOOL07/dead.csv", report(12))
    answer = ada.post("dead-letters/retry", source_uris=[dead, dead], reason="the export was mended")
    assert list(answer["queue_ids"]) == [dead]
    plant.drain()
    assert ada.get("dead-letters")["dead_letters"] == []
    [event] = ada.get("events", event_type="dead_letter_retried")["events"]
    assert (event["metadata"]["by"], event["metadata"]["reason"]) == ("ada", "the export was mended")


def test_a_discarded_dead_letter_is_no_longer_listed(plant: Plant, ada: Client, dead: str) -> None:
    other = str(plant.inbox / "TOOL07/0.csv")
    ada.post("dead-letters/discard", source_uris=[dead, other], reason="known rubbish", expect=409)
    assert len(ada.get("dead-letters")["dead_letters"]) == 1
    assert ada.post("dead-letters/discard", source_uris=[dead], reason="known rubbish") == {
        "source_uris": [dead]
    }
    assert ada.get("dead-letters")["dead_letters"] == []
    ada.post("dead-letters/retry", source_uris=[], reason="x", expect=400)


def test_a_worker_is_paused_drained_and_resumed(plant: Plant, ada: Client) -> None:
    for action, state in (("pause", "paused"), ("resume", "active"), ("drain", "draining")):
        told = ada.post(f"instances/{action}", instance_name="Worker01", reason="maintenance")
        assert told == {"instance_name": "Worker01", "state": state}
        [instance] = ada.get("instances")["instances"]
        assert instance["state"] == state
    plant.notify(plant.write("TOOL07/12.csv", report(12)))
    assert plant.drain() == []
    ada.post("instances/resume", instance_name="Worker01", reason="done")
    assert len(plant.drain()) == 1
    ada.post("instances/pause", instance_name="Worker99", reason="x", expect=404)


def test_runs_and_events_are_listed_newest_first(plant: Plant, ada: Client, late: str) -> None:
    runs = ada.get("runs", subject_key="TOOL07")["runs"]
    assert len(runs) == 3
    assert runs[0]["committed_at"] > runs[-1]["committed_at"]
    assert ada.get("runs", limit="1")["next"] is not None
    events = ada.get("events", source_uri=late)["events"]
    assert [event["event_type"] for event in events] == ["completed", "enqueued"]
    assert ada.get("events", since="2100-01-01T00:00:00Z")["events"] == []


def test_figures_account_for_every_line_and_tell_how_late_files_were(
    plant: Plant, ada: Client, late: str
) -> None:
    counted = ada.get("figures/duplicates")
    assert counted["readings_seen"] == sum(
        counted[name]
        for name in (
            "readings_kept",
            "readings_duplicate",
            "readings_rejected",
            "readings_parked",
            "lines_blank",
        )
    )
    assert (counted["files_read"], counted["readings_parked"]) == (3, 120)
    lateness = ada.get("figures/lateness")
    assert sum(each["files"] for each in lateness["classes"]) == 3
    assert lateness["late_readings"] == 120
    assert lateness["repair_amplification"] == 1.0
    assert ada.get("figures/duplicates", since="2100-01-01T00:00:00Z")["files_read"] == 0


def test_a_repair_is_asked_for_only_where_numbers_are_stale(plant: Plant, ada: Client) -> None:
    assert ada.post("subjects/reconcile", reason="nightly") == {"subjects": []}
    with plant.pool.connection() as connection:
        connection.execute(
            """
            insert into disarray.dirty_range (subject_key, range_start, range_end, reason, created_at)
            values ('TOOL07', '2026-10-01', 'infinity', 'test', now())
            """
        )
    [asked] = ada.post("subjects/reconcile", subject_keys=["TOOL07"], reason="nightly")["subjects"]
    assert asked["queue_id"] is not None
    plant.drain()
    assert ada.get("status")["open_dirty_ranges"] == 0
