"""What was given up can be listed, asked for again, and put aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.control import (
    blacklist,
    claim_ends,
    claims,
    dead_letters,
    events,
    files,
    instances,
    status,
)
from disarray.control.claim_ends import Failure
from disarray.control.files import Notification, Reason, Verdict
from disarray.errors import InvalidRequestError, NotDeadLetterError

if TYPE_CHECKING:
    from disarray.control.connections import Connection
    from disarray.control.queue import Holder

pytestmark = pytest.mark.postgres

DECISION = {"reason": "share was away", "by": "ada"}


@pytest.fixture
def holder(connection: Connection) -> Holder:
    return instances.register_instance(connection, "Worker01")


def give_up(
    connection: Connection, holder: Holder, *uris: str, reason: Reason = Reason.FILE_NOTIFICATION
) -> None:
    """Files that were tried once and failed for good."""
    announced = [Notification(uri, "TOOL01", reason, {"content_hash": "v1"}) for uri in uris]
    files.enqueue_files(connection, announced)
    items = claims.fetch_items(connection, holder)
    claim_ends.fail_items(
        connection, [Failure(item.queue_id, "no header", is_permanent=True) for item in items], holder
    )


def listed(connection: Connection) -> list[str]:
    return [dead.source_uri for dead in dead_letters.list_dead_letters(connection)]


def announce(connection: Connection, content_hash: str, reason: Reason = Reason.FILE_NOTIFICATION) -> Verdict:
    [answer] = files.enqueue_files(
        connection, [Notification("file:///a", "TOOL01", reason, {"content_hash": content_hash})]
    )
    return answer.verdict


def test_a_dead_letter_tells_what_was_asked_why_it_failed_and_how_often(
    connection: Connection, holder: Holder
) -> None:
    give_up(connection, holder, "file:///a", reason=Reason.QUIET)
    [dead] = dead_letters.list_dead_letters(connection, subject_key="TOOL01")
    assert (dead.source_uri, dead.reason, dead.last_error, dead.attempts, dead.content_hash) == (
        "file:///a", "quiet", "no header", 5, "v1",
    )  # fmt: skip
    assert status.queue_status(connection)["dead_letters"] == 1
    assert dead_letters.list_dead_letters(connection, subject_key="TOOL02") == []
    assert dead_letters.list_dead_letters(connection, failed_before=dead.failed_at) == []


def test_a_retry_asks_for_the_same_with_a_full_set_of_attempts(
    connection: Connection, holder: Holder
) -> None:
    give_up(connection, holder, "file:///a", "file:///b", reason=Reason.QUIET)
    queued = dead_letters.retry_dead_letters(connection, ["file:///b", "file:///a"], **DECISION)
    assert sorted(queued) == ["file:///a", "file:///b"]
    assert listed(connection) == []
    items = claims.fetch_items(connection, holder)
    assert {(item.reason, item.retry_count, item.content_hash) for item in items} == {("quiet", 0, "v1")}
    claim_ends.fail_items(connection, [Failure(item.queue_id, "still away") for item in items], holder)
    assert listed(connection) == []
    [asked, *_] = [
        event
        for event in events.list_file_events(connection, "file:///a")
        if event.event_type == "dead_letter_retried"
    ]
    assert asked.metadata == {
        "reason": "share was away",
        "by": "ada",
        "role": connection.info.user,
        "error": "no header",
    }


def test_a_removal_that_was_given_up_is_a_dead_letter_and_its_retry_removes(
    connection: Connection, holder: Holder
) -> None:
    files.enqueue_file(connection, "file:///a", "TOOL01")
    [item] = claims.fetch_items(connection, holder)
    claim_ends.complete_item(connection, item.queue_id, holder)
    blacklist.blacklist_file(connection, "file:///a", "TOOL01", reason="wrong cell", by="ada")
    [removal] = claims.fetch_items(connection, holder)
    claim_ends.fail_item(connection, removal.queue_id, holder, error_message="gone", is_permanent=True)
    assert [dead.reason for dead in dead_letters.list_dead_letters(connection)] == ["remove"]
    dead_letters.retry_dead_letters(connection, ["file:///a"], **DECISION)
    [again] = claims.fetch_items(connection, holder)
    assert (again.reason, again.retry_count) == ("remove", 0)
    assert [file.status for file in files.list_files(connection)] == ["blacklisted"]


@pytest.mark.parametrize("reason", [Reason.FILE_NOTIFICATION, Reason.QUIET])
def test_a_discarded_one_stays_away_until_its_content_changes(
    connection: Connection, holder: Holder, reason: Reason
) -> None:
    give_up(connection, holder, "file:///a")
    dead_letters.discard_dead_letters(connection, ["file:///a"], **DECISION)
    assert listed(connection) == []
    assert status.queue_status(connection)["dead_letters"] == 0
    assert announce(connection, "v1", reason) is Verdict.UNCHANGED
    assert [file.status for file in files.list_files(connection)] == ["failed"]
    assert announce(connection, "v2", reason) is Verdict.ENQUEUED
    [item] = claims.fetch_items(connection, holder)
    claim_ends.fail_item(connection, item.queue_id, holder, error_message="no header", is_permanent=True)
    assert listed(connection) == ["file:///a"]


def test_a_request_by_name_revives_a_discarded_one(connection: Connection, holder: Holder) -> None:
    give_up(connection, holder, "file:///a")
    dead_letters.discard_dead_letters(connection, ["file:///a"], **DECISION)
    assert files.reingest_file(connection, "file:///a", **DECISION) is not None


def test_blacklisting_a_dead_letter_takes_it_off_the_list(connection: Connection, holder: Holder) -> None:
    give_up(connection, holder, "file:///a")
    blacklist.blacklist_file(connection, "file:///a", "TOOL01", reason="wrong cell", by="ada")
    assert listed(connection) == []


@pytest.mark.parametrize("decide", [dead_letters.retry_dead_letters, dead_letters.discard_dead_letters])
def test_a_decision_is_about_dead_letters_alone_and_all_or_none(
    connection: Connection, holder: Holder, decide: object
) -> None:
    assert callable(decide)
    give_up(connection, holder, "file:///a")
    files.enqueue_file(connection, "file:///b", "TOOL01")
    for uris in (["file:///a", "file:///b"], ["file:///a", "file:///unknown"]):
        with pytest.raises(NotDeadLetterError, match="dead-letters list"):
            decide(connection, uris, **DECISION)
    for wrong in ({"reason": " ", "by": "ada"}, {"reason": "x", "by": ""}):
        with pytest.raises(InvalidRequestError):
            decide(connection, ["file:///a"], **wrong)
    with pytest.raises(InvalidRequestError):
        decide(connection, [], **DECISION)
    assert listed(connection) == ["file:///a"]
