"""Consuming from the real broker: nothing is acknowledged too early, nothing is taken in twice."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from disarray.broker.consumer import REASON_HEADER, SIZE_HEADER, Consumer, Subscription
from disarray.broker.messages import MAX_MESSAGE_BYTES
from disarray.broker.publisher import RabbitTransport
from disarray.broker.routing import routing_key
from disarray.broker.topology import declare_worker_queue
from disarray.broker.transport import Announcement
from disarray.model.notification import Notification

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disarray.broker.topology import Names
    from tests.broker.conftest import Door


def announce(number: int) -> Announcement:
    return Announcement(f"agent:{number}", Notification(f"file:///{number}", f"TOOL{number % 3}"))


@pytest.fixture
def send(broker_url: str, channel: Any, names: Names) -> Iterator[Callable[..., None]]:
    """Publishes announcements by number to a queue that exists already."""
    declare_worker_queue(channel, names, "Worker01", subject_patterns=("*",), delivery_limit=3)
    transport = RabbitTransport(broker_url, names=names)

    def send_numbers(*numbers: int) -> None:
        for number in numbers:
            transport.publish([announce(number)])

    yield send_numbers
    transport.close()


def consumer(url: str, names: Names) -> Consumer:
    return Consumer(url, Subscription(instance_name="Worker01", names=names, delivery_limit=3))


def waiting(channel: Any, queue: str) -> int:
    """Messages that nobody holds. Quorum queues settle in the background, so the count is given a moment."""
    counts = []
    for _ in range(20):
        counts.append(channel.queue_declare(queue, passive=True).method.message_count)
        if counts[-1]:
            break
        time.sleep(0.05)
    return int(counts[-1])


def dead_letters(channel: Any, names: Names, count: int) -> list[tuple[dict[str, Any], bytes]]:
    found: list[tuple[dict[str, Any], bytes]] = []
    deadline = time.monotonic() + 10
    while len(found) < count and time.monotonic() < deadline:
        method, properties, body = channel.basic_get(names.dead_queue, auto_ack=True)
        if method is None:
            time.sleep(0.05)
        else:
            found.append((properties.headers, body))
    return found


def test_a_batch_is_bounded_and_gone_once_it_is_acknowledged(
    broker_url: str, names: Names, channel: Any, send: Callable[..., None]
) -> None:
    send(*range(5))
    reader = consumer(broker_url, names)
    uris: list[str] = []
    for batch in reader.consume(batch_size=2):
        assert len(batch.notifications) <= 2
        uris += [notification.source_uri for notification in batch.notifications]
        batch.ack()
        if len(uris) == 5:
            break
    assert uris == [f"file:///{number}" for number in range(5)]
    assert waiting(channel, names.worker_queue("Worker01")) == 0


def test_what_was_not_acknowledged_comes_again(
    broker_url: str, names: Names, send: Callable[..., None]
) -> None:
    send(1, 2)
    first = next(consumer(broker_url, names).consume(linger_s=0.5))
    again = next(consumer(broker_url, names).consume(linger_s=0.5))
    assert sorted(n.source_uri for n in again.notifications) == sorted(
        n.source_uri for n in first.notifications
    )


def test_copies_are_absorbed_and_counted(broker_url: str, names: Names, send: Callable[..., None]) -> None:
    send(1, 2, 1)
    reader = consumer(broker_url, names)
    batches = reader.consume(linger_s=0.5)
    batch = next(batches)
    assert [notification.source_uri for notification in batch.notifications] == ["file:///1", "file:///2"]
    batch.ack()
    send(2, 3, 1)
    batch = next(batches)
    assert [notification.source_uri for notification in batch.notifications] == ["file:///3"]
    assert reader.counts.duplicates == 3
    batches.close()


def test_a_copy_of_what_was_never_acknowledged_is_no_copy(
    broker_url: str, names: Names, send: Callable[..., None]
) -> None:
    send(1)
    batches = consumer(broker_url, names).consume(linger_s=0.3)
    first = next(batches)
    again = next(batches)  # not acknowledged: it goes back, and comes again
    assert again.notifications == first.notifications
    batches.close()


def test_a_bad_message_goes_to_the_dead_letters_with_the_reason_and_the_good_ones_go_on(
    broker_url: str, names: Names, channel: Any, send: Callable[..., None]
) -> None:
    for body in (b"[" * 100_000, b'{"version":7,"files":[]}', json.dumps({"version": 1}).encode()):
        channel.basic_publish(names.exchange, routing_key("TOOL01"), body)
    send(1)
    reader = consumer(broker_url, names)
    batches = reader.consume(linger_s=0.5)
    batch = next(batches)
    assert [notification.source_uri for notification in batch.notifications] == ["file:///1"]
    batch.ack()
    batches.close()
    buried = dead_letters(channel, names, 3)
    assert "100000 bytes" in buried[0][0][REASON_HEADER]
    assert buried[0][0][SIZE_HEADER] == 100_000
    assert len(buried[0][1]) == MAX_MESSAGE_BYTES
    assert "version 7" in buried[1][0][REASON_HEADER]
    assert "exactly the keys" in buried[2][0][REASON_HEADER]
    assert reader.counts.dead_letters == 3


def test_a_message_that_nobody_survives_ends_as_a_dead_letter(
    broker_url: str, names: Names, channel: Any, send: Callable[..., None]
) -> None:
    send(1)
    batches = consumer(broker_url, names).consume(linger_s=0.05)
    for _ in range(4):  # the first delivery and three more
        next(batches)
    batches.close()
    [(headers, _)] = dead_letters(channel, names, 1)
    assert headers["x-death"][0]["reason"] == "delivery_limit"


def test_after_a_cut_connection_it_goes_on_and_nothing_is_lost_or_taken_twice(
    door: Door, names: Names, send: Callable[..., None]
) -> None:
    send(*range(10))
    reader = consumer(door.url, names)
    taken: list[str] = []
    batches = reader.consume(batch_size=4, linger_s=0.2)
    for turn, batch in enumerate(batches):
        taken += [notification.source_uri for notification in batch.notifications]
        if turn == 0:
            door.shut()  # the batch is committed, its acknowledgement never arrives
            door.reopen()
        batch.ack()
        if len(taken) >= 10:
            break
    batches.close()
    assert sorted(taken) == [f"file:///{number}" for number in range(10)]
    assert reader.counts.connections == 2
    assert reader.counts.duplicates >= 4


def test_a_worker_that_waits_for_its_database_keeps_its_batch(
    broker_url: str, names: Names, channel: Any, send: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("disarray.broker.connection.HEARTBEAT_SECONDS", 1)
    send(1)
    reader = consumer(broker_url, names)
    batches = reader.consume()
    batch = next(batches)
    reader.wait(4)  # without an answer to heartbeats the broker would have hung up after two seconds
    batch.ack()
    batches.close()
    assert reader.counts.connections == 1
    assert waiting(channel, names.worker_queue("Worker01")) == 0


def test_a_connection_closed_by_the_broker_is_opened_again(
    broker_url: str, names: Names, send: Callable[..., None]
) -> None:
    control = shutil.which("rabbitmqctl")
    if control is None:
        pytest.skip("rabbitmqctl is not installed here")
    send(1)
    reader = Consumer(broker_url, Subscription(instance_name="Worker01", names=names, delivery_limit=3))
    batches = reader.consume(linger_s=0.1)
    next(batches).ack()
    listed = subprocess.run(
        [control, "-q", "list_consumers", "queue_name", "channel_pid"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip(f"rabbitmqctl may not talk to this broker: {listed.stderr.strip()[:200]}")
    connections = subprocess.run(
        [control, "-q", "list_channels", "pid", "connection"], capture_output=True, text=True, check=True
    )
    pid = next(line.split("\t")[1] for line in listed.stdout.splitlines() if line.startswith(names.prefix))
    connection = next(line.split("\t")[1] for line in connections.stdout.splitlines() if line.startswith(pid))
    subprocess.run([control, "-q", "close_connection", connection, "a test"], check=True, timeout=240)
    send(2)
    batch = next(batches)
    assert [notification.source_uri for notification in batch.notifications] == ["file:///2"]
    batch.ack()
    batches.close()
    assert reader.counts.connections == 2


def test_a_stopped_consumer_ends(broker_url: str, names: Names, channel: Any) -> None:
    declare_worker_queue(channel, names, "Worker01", subject_patterns=("*",), delivery_limit=3)
    reader = consumer(broker_url, names)
    threading.Timer(0.5, reader.stop.set).start()
    assert list(reader.consume()) == []


def test_whoever_guesses_the_id_of_another_suppresses_nothing(
    broker_url: str, names: Names, channel: Any, send: Callable[..., None]
) -> None:
    guessed = Announcement("agent:1", Notification("file:///invented", "TOOL1"))
    transport = RabbitTransport(broker_url, names=names)
    transport.publish([guessed])
    send(1)
    transport.publish([guessed])
    transport.close()
    reader = consumer(broker_url, names)
    uris: list[str] = []
    for batch in reader.consume():
        uris += [each.source_uri for each in batch.notifications]
        batch.ack()
        if reader.counts.messages == 3:
            break
    assert sorted(uris) == ["file:///1", "file:///invented"]
    assert reader.counts.duplicates == 1
