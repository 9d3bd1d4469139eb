"""Publishing to the real broker, and what a sender learns when it fails."""

from __future__ import annotations

import shutil
import subprocess
import threading
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from disarray.broker import publisher
from disarray.broker.messages import decode_message
from disarray.broker.publisher import RabbitTransport
from disarray.broker.routing import routing_key
from disarray.broker.topology import declare_worker_queue
from disarray.broker.transport import Announcement
from disarray.errors import ConfigError, TransportUnavailableError
from disarray.model.notification import Notification, Reason
from tests.processes import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.broker.topology import Names
    from tests.broker.conftest import Door


def announce(number: int, subject: str = "TOOL01") -> Announcement:
    return Announcement(f"agent:{number}", Notification(f"file:///data/{number}.csv", subject))


def received(channel: Any, queue: str) -> list[str]:
    ids = []
    while (message := channel.basic_get(queue, auto_ack=True))[0] is not None:
        ids += [announcement.id for announcement in decode_message(message[2])]
    return ids


@pytest.fixture
def queue(channel: Any, names: Names) -> str:
    """The queue of a worker that serves TOOL0*."""
    return declare_worker_queue(channel, names, "Worker01", subject_patterns=("TOOL0*",))


@pytest.fixture
def transport(broker_url: str, names: Names) -> Iterator[RabbitTransport]:
    transport = RabbitTransport(broker_url, names=names)
    yield transport
    transport.close()


def test_confirmed_notifications_are_in_the_queue_in_order_and_persistent(
    transport: RabbitTransport, channel: Any, queue: str
) -> None:
    announcements = [announce(number, f"TOOL0{number % 2}") for number in range(300)]
    receipt = transport.publish(announcements)
    assert receipt.delivered == {announcement.id for announcement in announcements}
    _, properties, body = channel.basic_get(queue)
    assert properties.delivery_mode == 2
    first = [announcement.id for announcement in decode_message(body)]
    ids = first + received(channel, queue)
    even = [f"agent:{number}" for number in range(0, 300, 2)]
    assert [id_ for id_ in ids if id_ in even] == even


def test_what_no_queue_takes_is_told_and_stops_only_its_own_subject(
    transport: RabbitTransport, channel: Any, queue: str
) -> None:
    receipt = transport.publish([announce(1, "OVEN"), announce(2), announce(3, "OVEN")])
    assert receipt.delivered == {"agent:2"}
    assert receipt.unroutable_subjects == {"OVEN"}
    assert received(channel, queue) == ["agent:2"]


def test_what_can_never_be_sent_is_refused_and_the_rest_goes(
    transport: RabbitTransport, channel: Any, queue: str
) -> None:
    bad = Announcement("agent:1", Notification("file:///a", "TOOL01", Reason.REMOVE))
    receipt = transport.publish([bad, announce(2)])
    assert receipt.delivered == {"agent:2"}
    assert "reason must be one of" in receipt.refused["agent:1"]
    assert received(channel, queue) == ["agent:2"]


def test_a_lost_connection_is_an_error_and_the_next_publication_connects_again(
    door: Door, names: Names, channel: Any, queue: str
) -> None:
    transport = RabbitTransport(door.url, names=names)
    transport.publish([announce(1)])
    door.shut()
    with pytest.raises(TransportUnavailableError, match="kept and sent again"):
        transport.publish([announce(2)])
    with pytest.raises(TransportUnavailableError):
        transport.publish([announce(2)])
    door.reopen()
    assert transport.publish([announce(2)]).delivered == {"agent:2"}
    assert received(channel, queue) == ["agent:1", "agent:2"]
    transport.close()


def test_what_was_confirmed_before_the_connection_broke_is_not_sent_again(
    door: Door, names: Names, channel: Any, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = RabbitTransport(door.url, names=names)

    def breaks_at_the_second(subject: str) -> str:
        if subject == "TOOL02":
            door.shut()
        return routing_key(subject)

    monkeypatch.setattr(publisher, "routing_key", breaks_at_the_second)
    receipt = transport.publish([announce(1, "TOOL01"), announce(2, "TOOL02"), announce(3, "TOOL03")])
    assert receipt.delivered == {"agent:1"}
    assert receipt.unroutable_subjects == frozenset()
    assert received(channel, queue) == ["agent:1"]


def test_a_queue_that_refuses_a_message_holds_up_its_own_subjects_alone(
    transport: RabbitTransport, channel: Any, names: Names, queue: str
) -> None:
    full = {"x-queue-type": "quorum", "x-max-length": 1, "x-overflow": "reject-publish"}
    channel.exchange_declare(names.exchange, exchange_type="topic", durable=True)
    channel.queue_declare(names.worker_queue("Worker02"), durable=True, arguments=full)
    channel.queue_bind(names.worker_queue("Worker02"), names.exchange, routing_key=routing_key("OVEN"))
    eventually(lambda: "OVEN" in transport.publish([announce(1, "OVEN")]).unroutable_subjects)
    receipt = transport.publish([announce(2, "OVEN"), announce(3, "TOOL01")])
    assert receipt.delivered == {"agent:3"}
    assert receipt.unroutable_subjects == {"OVEN"}
    assert received(channel, queue) == ["agent:3"]


def test_a_lost_confirmation_leads_to_a_copy_with_the_same_id(
    door: Door, names: Names, channel: Any, queue: str
) -> None:
    transport = RabbitTransport(door.url, names=names)
    transport.publish([announce(1)])
    door.swallow_answers = True
    threading.Timer(0.5, door.shut).start()
    with pytest.raises(TransportUnavailableError):
        transport.publish([announce(2)])
    door.reopen()
    transport.publish([announce(2)])
    assert received(channel, queue) == ["agent:1", "agent:2", "agent:2"]
    transport.close()


def test_an_idle_transport_notices_a_loss_and_says_nothing(door: Door, names: Names, queue: str) -> None:
    transport = RabbitTransport(door.url, names=names)
    transport.idle()
    transport.publish([announce(1)])
    door.shut()
    transport.idle()
    transport.idle()
    door.reopen()
    assert transport.publish([announce(2)]).delivered == {"agent:2"}
    transport.close()


def test_no_broker_is_an_error_that_hides_the_password(names: Names) -> None:
    with pytest.raises(TransportUnavailableError) as failed:
        RabbitTransport("amqp://alice:s3cret@127.0.0.1:1/%2F", names=names).publish([announce(1)])
    assert "s3cret" not in str(failed.value)
    assert "Connection refused" in str(failed.value)


def test_a_wrong_address_is_a_matter_of_configuration(names: Names) -> None:
    with pytest.raises(ConfigError, match="is no address of a broker"):
        RabbitTransport("amqp://alice:s3cret@host:port", names=names).publish([announce(1)])


def test_an_account_that_may_write_and_nothing_else_is_enough_for_an_agent(
    broker_url: str, names: Names, channel: Any
) -> None:
    control = shutil.which("rabbitmqctl")
    if control is None:
        pytest.skip("rabbitmqctl is not installed here")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([control, *arguments], capture_output=True, text=True, check=False, timeout=240)

    account = f"agent-{uuid.uuid4().hex[:8]}"
    made = run("add_user", account, "secret")
    if made.returncode:
        pytest.skip(f"rabbitmqctl may not talk to this broker: {made.stderr.strip()[:200]}")
    try:
        assert run("set_permissions", account, "^$", f"^{names.exchange}$", "^$").returncode == 0
        declare_worker_queue(channel, names, "Worker01", subject_patterns=("*",), delivery_limit=3)
        transport = RabbitTransport(broker_url.replace("guest:guest", f"{account}:secret"), names=names)
        receipt = transport.publish([Announcement("agent:1", Notification("file:///1", "TOOL1"))])
        transport.close()
        assert receipt.delivered == {"agent:1"}
    finally:
        run("delete_user", account)
