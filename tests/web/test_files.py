"""Files over REST: list, show, reingest, blacklist, allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.plant import Plant
    from tests.web.conftest import Client

pytestmark = pytest.mark.postgres


def total(ada: Client) -> object:
    [value] = ada.get("values", subject_key="TOOL07", metric="good_total")["values"]
    return value["value"]


def test_files_are_listed_by_uri_and_the_list_says_when_there_are_more(plant: Plant, ada: Client) -> None:
    listed = ada.get("files")
    assert [file["source_uri"].rpartition("/")[2] for file in listed["files"]] == ["0.csv", "new.csv"]
    assert (listed["next"], listed["files"][0]["status"]) == (None, "processed")
    assert ada.get("files", status="failed")["files"] == []
    assert ada.get("files", subject_key="TOOL08")["files"] == []


def test_file_1001_is_reached_by_following_the_links(plant: Plant, ada: Client) -> None:
    with plant.pool.connection() as connection:
        connection.execute(
            """
            insert into disarray.file_info (source_uri, subject_key, status, first_seen_at, last_seen_at)
            select 'file:///more/' || number, 'TOOL09', 'processed', now(), now()
            from generate_series(1, 1001) as number
            """
        )
    path: str | None = "/api/v1/files?limit=1000&subject_key=TOOL09"
    pages = []
    while path is not None:
        response = ada.http.get(path)
        pages.append(response.json())
        path = response.links["next"]["url"] if "next" in response.links else None
    assert [len(page["files"]) for page in pages] == [1000, 1]
    assert len({file["source_uri"] for page in pages for file in page["files"]}) == 1001
    assert pages[-1]["next"] is None
    refused = ada.get("files", after="nonsense", expect=422)
    assert "'nonsense' is no place in the list of files" in refused["detail"]


def test_a_file_is_shown_with_its_whole_history(plant: Plant, ada: Client) -> None:
    uri = str(plant.inbox / "TOOL07/0.csv")
    story = ada.get("files/show", source_uri=uri)
    assert story["subject_key"] == "TOOL07"
    assert story["fragments"]["active"]["readings"] == 120
    assert [event["event_type"] for event in story["events"]] == ["completed", "enqueued"]
    assert (
        "no file 'nowhere' was ever announced"
        in ada.get("files/show", source_uri="nowhere", expect=404)["detail"]
    )


def test_a_blacklisted_file_counts_for_nothing_until_it_is_allowed_again(plant: Plant, ada: Client) -> None:
    uri = str(plant.inbox / "TOOL07/0.csv")
    before = total(ada)
    assert ada.post("files/blacklist", source_uri=uri, reason="broken sensor")["queue_id"] is not None
    plant.drain()
    assert total(ada) != before
    ada.post("files/allow", source_uri=uri, reason="it was the cable")
    plant.drain()
    assert total(ada) == before
    decisions = [
        (event["event_type"], event["metadata"]["by"], event["metadata"]["reason"])
        for event in ada.get("files/show", source_uri=uri)["events"]
        if event["event_type"] in ("blacklisted", "allowed")
    ]
    assert decisions == [("allowed", "ada", "it was the cable"), ("blacklisted", "ada", "broken sensor")]


def test_what_cannot_be_decided_is_refused(plant: Plant, ada: Client) -> None:
    uri = str(plant.inbox / "TOOL07/0.csv")
    assert "is not blacklisted" in ada.post("files/allow", source_uri=uri, reason="x", expect=409)["detail"]
    for action in ("reingest", "blacklist", "allow"):
        ada.post(f"files/{action}", source_uri="nowhere", reason="x", expect=404)
        ada.post(f"files/{action}", source_uri=uri, expect=400)
    ada.post("files/blacklist", source_uri=uri, reason="   ", expect=422)


def test_a_reingest_is_queued_and_recorded_with_who_and_why(plant: Plant, ada: Client) -> None:
    uri = str(plant.inbox / "TOOL07/0.csv")
    queue_id = ada.post("files/reingest", source_uri=uri, reason="the parser was mended")["queue_id"]
    assert plant.rows("select queue_id, reason::text from disarray.ingest_queue") == [(queue_id, "reingest")]
    plant.drain()
    told = ada.get("files/show", source_uri=uri)["events"]
    assert ("ada", "the parser was mended") in [
        (event["metadata"].get("by"), event["metadata"].get("reason")) for event in told
    ]
