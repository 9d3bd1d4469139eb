"""Claims, one behaviour at a time; every order of them is in test_queue_model.py and test_interleavings.py."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import blacklist, claim_ends, claims, files, instances, queue
from disarray.control.claims import FetchPolicy
from disarray.control.files import Notification, Reason
from disarray.errors import LeaseLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres


def test_a_notification_during_processing_leaves_a_new_available_row(connection: Connection) -> None:
    files.enqueue_file(connection, "file:///a", "TOOL01")
    holder = instances.register_instance(connection, "Worker01")
    [item] = claims.fetch_items(connection, holder)
    second = files.enqueue_file(connection, "file:///a", "TOOL01")
    assert second != item.queue_id
    assert claims.fetch_items(connection, holder) == []
    claim_ends.complete_item(connection, item.queue_id, holder)
    assert [again.queue_id for again in claims.fetch_items(connection, holder)] == [second]


def test_a_worker_restarted_under_its_name_takes_over_at_once_and_its_former_life_is_fenced(
    connection: Connection,
) -> None:
    files.enqueue_file(connection, "file:///a", "TOOL01")
    former = instances.register_instance(connection, "Worker01")
    [lost] = claims.fetch_items(connection, former)
    present = instances.register_instance(connection, "Worker01")
    [again] = claims.fetch_items(connection, present)
    assert (again.queue_id, again.retry_count) == (lost.queue_id, 1)
    assert again.fence > lost.fence
    with pytest.raises(LeaseLostError):
        claim_ends.complete_item(connection, lost.queue_id, former)


def test_an_expired_lease_goes_to_another_worker_with_one_more_attempt(
    connection: Connection, advance_clock: Callable[[timedelta], None]
) -> None:
    files.enqueue_file(connection, "file:///a", "TOOL01")
    first, second = (instances.register_instance(connection, name) for name in ("Worker01", "Worker02"))
    claims.fetch_items(connection, first, FetchPolicy(lease_seconds=30))
    assert claims.fetch_items(connection, second) == []
    advance_clock(timedelta(seconds=31))
    assert [item.retry_count for item in claims.fetch_items(connection, second)] == [1]


@pytest.mark.parametrize("strong", [Reason.QUIET, Reason.REINGEST, Reason.RELEASE])
def test_a_plain_notification_never_absorbs_a_stronger_reason(connection: Connection, strong: Reason) -> None:
    files.enqueue_file(connection, "file:///a", "TOOL01", reason=strong)
    files.enqueue_file(connection, "file:///a", "TOOL01")
    files.enqueue_file(connection, "file:///b", "TOOL01")
    files.enqueue_file(connection, "file:///b", "TOOL01", reason=strong)
    assert {entry.reason for entry in queue.list_queue(connection)} == {strong.value}


def test_a_busy_subject_gives_way_to_one_that_waits(connection: Connection) -> None:
    files.enqueue_files(connection, [Notification(f"file:///busy/{number}", "BUSY") for number in range(50)])
    files.enqueue_file(connection, "file:///patient", "PATIENT")
    holder = instances.register_instance(connection, "Worker01")
    policy = FetchPolicy(limit=1, give_way_batches=3)
    served = []
    for _ in range(5):
        [item] = claims.fetch_items(connection, holder, policy)
        served.append(item.subject_key)
        claim_ends.complete_item(connection, item.queue_id, holder)
    assert served == ["BUSY", "BUSY", "BUSY", "PATIENT", "BUSY"]


def test_a_request_on_purpose_keeps_its_attempts_and_its_time_when_the_running_claim_fails(
    connection: Connection,
) -> None:
    files.enqueue_file(connection, "file:///a", "TOOL01")
    holder = instances.register_instance(connection, "Worker01")
    for _ in range(4):
        [item] = claims.fetch_items(connection, holder)
        claim_ends.fail_item(
            connection, item.queue_id, holder, error_message="unreadable", retry_delay_seconds=0
        )
    [last] = claims.fetch_items(connection, holder)
    again = files.enqueue_file(connection, "file:///a", "TOOL01", reason=Reason.REINGEST)
    claim_ends.fail_item(
        connection, last.queue_id, holder, error_message="unreadable", retry_delay_seconds=3600
    )
    assert [(item.queue_id, item.retry_count) for item in claims.fetch_items(connection, holder)] == [
        (again, 1)
    ]


def test_a_request_on_purpose_outlives_a_permanent_failure_with_a_full_set_of_attempts(
    connection: Connection,
) -> None:
    files.enqueue_file(connection, "file:///a", "TOOL01")
    holder = instances.register_instance(connection, "Worker01")
    [item] = claims.fetch_items(connection, holder)
    files.enqueue_file(connection, "file:///a", "TOOL01", reason=Reason.REINGEST)
    claim_ends.fail_item(connection, item.queue_id, holder, error_message="unreadable", is_permanent=True)
    [again] = claims.fetch_items(connection, holder)
    claim_ends.fail_item(
        connection, again.queue_id, holder, error_message="unreadable", retry_delay_seconds=0
    )
    assert [item.retry_count for item in claims.fetch_items(connection, holder)] == [1]


def test_attempts_end_when_the_version_is_processed_even_for_a_row_that_waits_already(
    connection: Connection,
) -> None:
    files.enqueue_file(connection, "file:///a", "TOOL01")
    holder = instances.register_instance(connection, "Worker01")
    for _ in range(4):
        [item] = claims.fetch_items(connection, holder)
        claim_ends.fail_item(
            connection, item.queue_id, holder, error_message="unreadable", retry_delay_seconds=0
        )
    [item] = claims.fetch_items(connection, holder)
    files.enqueue_file(connection, "file:///a", "TOOL01")
    claim_ends.complete_item(connection, item.queue_id, holder)
    [again] = claims.fetch_items(connection, holder)
    claim_ends.fail_item(
        connection, again.queue_id, holder, error_message="unreadable", retry_delay_seconds=0
    )
    assert [record.status for record in files.list_files(connection)] == ["pending"]


def test_a_removal_that_fails_never_takes_out_a_file_that_was_allowed_and_released_since(
    connection: Connection,
) -> None:
    files.enqueue_file(connection, "file:///a", "TOOL01")
    holder = instances.register_instance(connection, "Worker01")
    [item] = claims.fetch_items(connection, holder)
    claim_ends.complete_item(connection, item.queue_id, holder)
    blacklist.blacklist_file(connection, "file:///a", "TOOL01", reason="wrong cell", by="operator")
    [removal] = claims.fetch_items(connection, holder)
    blacklist.allow_file(connection, "file:///a", reason="right cell after all", by="operator")
    files.enqueue_file(connection, "file:///a", "TOOL01", reason=Reason.RELEASE)
    claim_ends.fail_item(connection, removal.queue_id, holder, error_message="timeout", retry_delay_seconds=0)
    assert [entry.reason for entry in queue.list_queue(connection)] == ["release"]


def test_a_returned_claim_and_a_waiting_row_keep_all_the_reasons_of_both(connection: Connection) -> None:
    files.enqueue_file(connection, "file:///a", "TOOL01", reason=Reason.BACKFILL)
    holder = instances.register_instance(connection, "Worker01")
    [item] = claims.fetch_items(connection, holder)
    for reason in (Reason.QUIET, Reason.REINGEST):
        files.enqueue_file(connection, "file:///a", "TOOL01", reason=reason)
    claim_ends.release_subject(connection, item.subject_key, holder)
    [merged] = claims.fetch_items(connection, holder)
    assert merged.reason == Reason.REINGEST
    assert set(merged.metadata["reasons"]) == {Reason.BACKFILL, Reason.QUIET, Reason.REINGEST}


def test_an_instance_that_is_bound_elsewhere_leaves_the_subject_that_it_held(connection: Connection) -> None:
    files.enqueue_files(connection, [Notification(f"file:///{number}", "TOOL01") for number in range(3)])
    holder = instances.register_instance(connection, "Worker01")
    [item] = claims.fetch_items(connection, holder, FetchPolicy(limit=1))
    instances.bind_instance(connection, "Worker01", ["CELL*"], by="operator")
    assert claims.fetch_items(connection, holder) == []
    claim_ends.complete_item(connection, item.queue_id, holder)
    assert claims.fetch_items(connection, holder) == []
    successor = instances.register_instance(connection, "Worker02", subject_patterns=["TOOL*"])
    assert len(claims.fetch_items(connection, successor)) == 2


def test_a_subject_that_waits_alone_gets_the_whole_limit(connection: Connection) -> None:
    files.enqueue_files(connection, [Notification(f"file:///{number}", "ALONE") for number in range(50)])
    holder = instances.register_instance(connection, "Worker01")
    assert len(claims.fetch_items(connection, holder, FetchPolicy(limit=40, max_subjects=20))) == 40


def complete(connection: Connection, queue_ids: list[queue.QueueId], holder: queue.Holder) -> None:
    claim_ends.complete_items(connection, queue_ids, holder)


def fail(connection: Connection, queue_ids: list[queue.QueueId], holder: queue.Holder) -> None:
    claim_ends.fail_items(
        connection, [claim_ends.Failure(queue_id, "it broke") for queue_id in queue_ids], holder
    )


@pytest.mark.parametrize("end", [complete, fail])
def test_what_waits_on_a_held_subject_is_nobodys_to_end_and_the_whole_batch_is_refused(
    connection: Connection, end: Callable[[Connection, list[queue.QueueId], queue.Holder], None]
) -> None:
    files.enqueue_files(connection, [Notification(f"file:///{name}", "TOOL01") for name in "ab"])
    holder = instances.register_instance(connection, "Worker01")
    [own] = claims.fetch_items(connection, holder, FetchPolicy(limit=1))
    [waiting] = queue.list_queue(connection, status="available")
    with pytest.raises(LeaseLostError, match=f"item {waiting.queue_id} is not claimed by 'Worker01'"):
        end(connection, [own.queue_id, waiting.queue_id], holder)
    assert {(item.queue_id, item.status) for item in queue.list_queue(connection)} == {
        (own.queue_id, "claimed"),
        (waiting.queue_id, "available"),
    }
