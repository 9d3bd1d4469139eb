"""Claims, one behaviour at a time; every order of them is in test_queue_model.py and test_interleavings.py."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import files, instances, queue
from disarray.control.files import Notification, Reason
from disarray.control.queue import FetchPolicy
from disarray.errors import LeaseLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres


def test_a_notification_during_processing_leaves_a_new_available_row(connection: Connection) -> None:
    files.enqueue_file(connection, "file:///a", "TOOL01")
    holder = instances.register_instance(connection, "Worker01")
    [item] = queue.fetch_items(connection, holder)
    second = files.enqueue_file(connection, "file:///a", "TOOL01")
    assert second != item.queue_id
    assert queue.fetch_items(connection, holder) == []
    queue.complete_item(connection, item.queue_id, holder)
    assert [again.queue_id for again in queue.fetch_items(connection, holder)] == [second]


def test_a_worker_restarted_under_its_name_takes_over_at_once_and_its_former_life_is_fenced(
    connection: Connection,
) -> None:
    files.enqueue_file(connection, "file:///a", "TOOL01")
    former = instances.register_instance(connection, "Worker01")
    [lost] = queue.fetch_items(connection, former)
    present = instances.register_instance(connection, "Worker01")
    [again] = queue.fetch_items(connection, present)
    assert (again.queue_id, again.retry_count) == (lost.queue_id, 1)
    assert again.fence > lost.fence
    with pytest.raises(LeaseLostError):
        queue.complete_item(connection, lost.queue_id, former)


def test_an_expired_lease_goes_to_another_worker_with_one_more_attempt(
    connection: Connection, advance_clock: Callable[[timedelta], None]
) -> None:
    files.enqueue_file(connection, "file:///a", "TOOL01")
    first, second = (instances.register_instance(connection, name) for name in ("Worker01", "Worker02"))
    queue.fetch_items(connection, first, FetchPolicy(lease_seconds=30))
    assert queue.fetch_items(connection, second) == []
    advance_clock(timedelta(seconds=31))
    assert [item.retry_count for item in queue.fetch_items(connection, second)] == [1]


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
        [item] = queue.fetch_items(connection, holder, policy)
        served.append(item.subject_key)
        queue.complete_item(connection, item.queue_id, holder)
    assert served == ["BUSY", "BUSY", "BUSY", "PATIENT", "BUSY"]
