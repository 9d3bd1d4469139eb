"""What becomes of a notification: enqueued, merged, unchanged, superseded, refused, allowed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.control import blacklist, claim_ends, claims, files, instances, queue
from disarray.control.files import Notification, Reason, Verdict
from disarray.errors import NotBlacklistedError

if TYPE_CHECKING:
    from disarray.control.connections import Connection
    from disarray.control.metadata import Metadata
    from disarray.control.queue import Holder, QueueItem

pytestmark = pytest.mark.postgres

URI = "file:///a"


@pytest.fixture
def holder(connection: Connection) -> Holder:
    return instances.register_instance(connection, "Worker01")


def notify(
    connection: Connection, content_hash: str | None = None, *, reason: Reason = Reason.FILE_NOTIFICATION
) -> Verdict:
    metadata: Metadata = {} if content_hash is None else {"content_hash": content_hash}
    [answer] = files.enqueue_files(connection, [Notification(URI, "TOOL01", reason, metadata)])
    assert (answer.queue_id is None) == (answer.verdict in {Verdict.UNCHANGED, Verdict.REFUSED_BLACKLISTED})
    return answer.verdict


def process(connection: Connection, holder: Holder, *, outcome: str = "processed") -> QueueItem:
    [item] = claims.fetch_items(connection, holder)
    claim_ends.complete_item(connection, item.queue_id, holder, metadata={"outcome": outcome})
    return item


def record(connection: Connection) -> files.FileRecord:
    [found] = files.list_files(connection)
    return found


def event_types(connection: Connection) -> list[str]:
    rows = connection.execute(
        "select event_type::text from disarray.ingest_event where source_uri = %s order by event_id", (URI,)
    )
    return [event_type for (event_type,) in rows]


def test_a_known_content_is_unchanged_and_only_seen_again(connection: Connection, holder: Holder) -> None:
    notify(connection, "v1")
    process(connection, holder)
    before = record(connection)
    assert notify(connection, "v1") is Verdict.UNCHANGED
    after = record(connection)
    assert (after.status, after.content_hash, after.process_count) == ("processed", "v1", 1)
    assert after.last_seen_at > before.last_seen_at
    assert queue.list_queue(connection) == []
    assert event_types(connection) == ["enqueued", "completed", "unchanged"]


def test_a_changed_content_is_queued_again(connection: Connection, holder: Holder) -> None:
    notify(connection, "v1")
    process(connection, holder)
    assert notify(connection, "v2") is Verdict.ENQUEUED
    assert record(connection).status == "pending"
    assert process(connection, holder).content_hash == "v2"
    assert record(connection).content_hash == "v2"


def test_a_notification_without_a_hash_is_never_taken_for_unchanged(
    connection: Connection, holder: Holder
) -> None:
    notify(connection)
    process(connection, holder)
    assert notify(connection) is Verdict.ENQUEUED


def test_a_new_parse_version_makes_known_content_new(connection: Connection, holder: Holder) -> None:
    notify(connection, "v1")
    process(connection, holder)
    changed = Notification(URI, "TOOL01", metadata={"content_hash": "v1", "parse_version": "2"})
    [answer] = files.enqueue_files(connection, [changed])
    assert answer.verdict is Verdict.ENQUEUED


def test_a_second_notification_merges_and_supersedes_the_version_that_waited(connection: Connection) -> None:
    first = files.enqueue_file(connection, URI, "TOOL01", metadata={"content_hash": "v1", "size": 1})
    second = files.enqueue_file(connection, URI, "TOOL01", metadata={"content_hash": "v2", "mtime": 2})
    assert second == first
    [item] = claims.fetch_items(connection, instances.register_instance(connection, "Worker01"))
    assert (item.content_hash, item.metadata) == ("v2", {"content_hash": "v2", "size": 1, "mtime": 2})
    assert event_types(connection) == ["enqueued", "merged", "superseded"]


def test_a_file_that_went_quiet_is_processed_though_its_content_is_known(
    connection: Connection, holder: Holder
) -> None:
    notify(connection, "v1")
    process(connection, holder)
    assert notify(connection, "v1", reason=Reason.QUIET) is Verdict.ENQUEUED
    process(connection, holder)
    assert notify(connection, "v1", reason=Reason.QUIET) is Verdict.UNCHANGED


@pytest.mark.parametrize("reason", [Reason.REINGEST, Reason.BACKFILL, Reason.RELEASE, Reason.REBUILD])
def test_whoever_asks_on_purpose_is_never_told_unchanged(
    connection: Connection, holder: Holder, reason: Reason
) -> None:
    notify(connection, "v1")
    process(connection, holder)
    assert notify(connection, "v1", reason=reason) is Verdict.ENQUEUED


def test_a_failed_file_is_not_retried_by_a_rescan_but_by_new_content_or_on_purpose(
    connection: Connection, holder: Holder
) -> None:
    notify(connection, "v1")
    [item] = claims.fetch_items(connection, holder)
    claim_ends.fail_item(connection, item.queue_id, holder, error_message="unreadable", is_permanent=True)
    assert (record(connection).status, record(connection).last_error) == ("failed", "unreadable")
    assert notify(connection, "v1") is Verdict.UNCHANGED
    assert record(connection).status == "failed"
    assert notify(connection, "v2") is Verdict.ENQUEUED
    assert queue.list_queue(connection)[0].retry_count == 0


def test_a_parked_file_waits_for_an_operator(connection: Connection, holder: Holder) -> None:
    notify(connection, "v1")
    process(connection, holder, outcome="parked")
    assert record(connection).status == "parked"
    assert notify(connection, "v1") is Verdict.UNCHANGED
    assert notify(connection, "v1", reason=Reason.RELEASE) is Verdict.ENQUEUED


def test_a_blacklisted_file_is_refused_until_it_is_allowed(connection: Connection, holder: Holder) -> None:
    notify(connection, "v1")
    process(connection, holder)
    removal = blacklist.blacklist_file(connection, URI, "TOOL01", reason="wrong probe", by="alice")
    assert [(entry.queue_id, entry.reason) for entry in queue.list_queue(connection)] == [(removal, "remove")]
    assert notify(connection, "v2") is Verdict.REFUSED_BLACKLISTED
    process(connection, holder)
    assert record(connection).status == "blacklisted"
    assert notify(connection, "v2", reason=Reason.REINGEST) is Verdict.REFUSED_BLACKLISTED

    allowed = blacklist.allow_file(connection, URI, reason="probe was right", by="bob")
    assert [(entry.queue_id, entry.reason) for entry in queue.list_queue(connection)] == [(allowed, "allow")]
    process(connection, holder)
    assert record(connection).status == "processed"
    assert {"blacklisted", "refused_blacklisted", "allowed"} <= set(event_types(connection))


def test_a_file_can_be_blacklisted_before_anybody_saw_it(connection: Connection) -> None:
    assert blacklist.blacklist_file(connection, URI, "TOOL01", reason="test run", by="alice") is None
    assert notify(connection, "v1") is Verdict.REFUSED_BLACKLISTED
    assert queue.list_queue(connection) == []


def test_blacklisting_a_file_that_waits_takes_it_out_of_the_queue(connection: Connection) -> None:
    notify(connection, "v1")
    assert blacklist.blacklist_file(connection, URI, "TOOL01", reason="test run", by="alice") is None
    assert queue.list_queue(connection) == []
    assert record(connection).status == "blacklisted"


def test_blacklisting_a_file_that_is_being_processed_removes_it_afterwards(
    connection: Connection, holder: Holder
) -> None:
    notify(connection, "v1")
    [item] = claims.fetch_items(connection, holder)
    removal = blacklist.blacklist_file(connection, URI, "TOOL01", reason="test run", by="alice")
    claim_ends.complete_item(connection, item.queue_id, holder)
    assert record(connection).status == "blacklisted"
    assert [later.queue_id for later in claims.fetch_items(connection, holder)] == [removal]


def test_allowing_a_removal_that_still_waits_turns_it_round(connection: Connection, holder: Holder) -> None:
    notify(connection, "v1")
    process(connection, holder)
    blacklist.blacklist_file(connection, URI, "TOOL01", reason="wrong probe", by="alice")
    blacklist.allow_file(connection, URI, reason="probe was right", by="alice")
    assert [entry.reason for entry in queue.list_queue(connection)] == ["allow"]


def test_allowing_what_is_not_blacklisted_is_refused(connection: Connection) -> None:
    notify(connection, "v1")
    with pytest.raises(NotBlacklistedError, match="Nothing was changed"):
        blacklist.allow_file(connection, URI, reason="no reason", by="alice")
    assert event_types(connection) == ["enqueued"]


def test_a_batch_that_names_a_file_twice_is_one_request_of_the_later_content_and_the_stronger_reason(
    connection: Connection,
) -> None:
    answers = files.enqueue_files(
        connection,
        [
            Notification(URI, "TOOL01", Reason.QUIET, {"content_hash": "v1", "size": 1}),
            Notification("file:///b", "TOOL01"),
            Notification(URI, "TOOL02", Reason.FILE_NOTIFICATION, {"content_hash": "v2"}),
        ],
    )
    assert [(answer.source_uri, answer.verdict) for answer in answers] == [
        (URI, Verdict.ENQUEUED),
        ("file:///b", Verdict.ENQUEUED),
    ]
    [item] = queue.list_queue(connection, subject_key="TOOL02")
    assert (item.source_uri, item.reason) == (URI, "quiet")
    assert event_types(connection) == ["enqueued"]


def test_an_empty_batch_is_no_work(connection: Connection) -> None:
    assert files.enqueue_files(connection, []) == []


def test_files_are_listed_by_status_and_subject(connection: Connection, holder: Holder) -> None:
    files.enqueue_files(connection, [Notification(f"file:///{name}", name) for name in ("x", "y", "z")])
    [item] = claims.fetch_items(connection, holder)
    claim_ends.complete_item(connection, item.queue_id, holder)
    assert [found.subject_key for found in files.list_files(connection, status="processed")] == ["x"]
    assert [found.subject_key for found in files.list_files(connection, subject_key="y")] == ["y"]
    assert len(files.list_files(connection, limit=2)) == 2
