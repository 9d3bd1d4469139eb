"""Events over HTTP: what is stored, what is known already, and what a client is told about the rest."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from disarray.web.route import Scope
from tests.control.test_raw_events import REFUSED, define
from tests.web.conftest import Client, add_token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.applications import Starlette

    from disarray.control.connections import Pool

pytestmark = pytest.mark.postgres

LINES = "application/x-ndjson"


class Sender:
    """A program that may send events and nothing else."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def send(
        self,
        content: str | bytes,
        *,
        kind: str = "application/json",
        expect: int = 200,
        key: str | None = None,
    ) -> Any:
        headers = {"Content-Type": kind} | ({} if key is None else {"Idempotency-Key": key})
        response = self.client.http.post("/api/v1/events/hmi", content=content, headers=headers)
        assert response.status_code == expect, response.text
        return response.json()


@pytest.fixture
def sender(empty_app: Starlette, shared_pool: Pool) -> Iterator[Sender]:
    with shared_pool.connection() as connection:
        define(connection, "hmi")
        yield Sender(Client(empty_app, token=add_token(shared_pool, uuid.uuid4().hex, Scope.PRODUCE)))
        connection.execute("truncate disarray.raw_event")


def stored(pool: Pool) -> list[Any]:
    with pool.connection() as connection:
        rows = connection.execute("select payload from disarray.raw_event order by event_id").fetchall()
    return [payload for (payload,) in rows]


def test_an_array_and_lines_say_the_same(sender: Sender, shared_pool: Pool) -> None:
    events = [{"tool": "T1", "n": number, "note": "a\u2028b"} for number in range(3)]
    first = sender.send(json.dumps(events))
    assert first == {"seen": 3, "new": 3, "duplicate": 0, "rejected": []}
    lines = "\r\n\n".join(json.dumps(event, ensure_ascii=False) for event in events)
    again = sender.send(lines.encode(), kind=LINES)
    assert again == {"seen": 3, "new": 0, "duplicate": 3, "rejected": []}
    assert stored(shared_pool) == events


def test_a_post_that_is_sent_twice_brings_duplicates_only_and_with_a_key_the_same_answer(
    sender: Sender,
) -> None:
    body = json.dumps([{"n": 1}, {"n": 2}])
    assert sender.send(body, key="k1")["new"] == 2
    assert sender.send(body, key="k1")["new"] == 2
    assert sender.send(body) == {"seen": 2, "new": 0, "duplicate": 2, "rejected": []}
    sender.send(json.dumps([{"n": 3}]), key="k1", expect=422)


# Python's own reader gives up on it before its end is known.
WHOLE_REFUSED = {"half an object", "nothing", "a depth bomb"}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_kept_is_told_by_index(sender: Sender, name: str) -> None:
    event, reason = REFUSED[name]
    if name != "nothing":
        lines = sender.send("\n".join(['{"n": 1}', event, '{"n": 2}']), kind=LINES)
        assert (lines["seen"], lines["new"]) == (3, 2)
        assert [each["index"] for each in lines["rejected"]] == [1]
        assert reason in lines["rejected"][0]["reason"]
    array = f'[{{"n": 1}}, {event}, {{"n": 2}}]'
    if name in WHOLE_REFUSED:
        assert "index 1" in sender.send(array, expect=400)["detail"]
    else:
        assert [each["index"] for each in sender.send(array)["rejected"]] == [1]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{}", 400),
        (b"[{}", 400),
        (b"[{},]", 400),
        (b"[{}] x", 400),
        (b"[" * 100_000, 400),
        (b'[{"n": "\xff"}]', 400),
        (b"[" + b"{}," * 10_000 + b"{}]", 413),
        (b" " * (5 * 1024 * 1024 + 1), 413),
    ],
    ids=["empty", "object", "open", "comma", "rest", "deep", "no text", "many", "large"],
)
def test_a_body_that_is_no_list_of_events_stores_nothing(
    sender: Sender, shared_pool: Pool, body: bytes, status: int
) -> None:
    assert "Nothing was" in sender.send(body, expect=status)["detail"]
    assert stored(shared_pool) == []


def test_five_megabytes_and_ten_thousand_events_are_taken(sender: Sender) -> None:
    events = [{"n": number, "x": "x" * 495} for number in range(10_000)]
    body = json.dumps(events, separators=(",", ":"))
    assert 5_000_000 < len(body) < 5 * 1024 * 1024
    assert sender.send(body)["new"] == 10_000


def test_a_dataset_that_takes_no_events_is_not_found(sender: Sender) -> None:
    response = sender.client.http.post("/api/v1/events/other", json=[{"n": 1}])
    assert response.status_code == 404
    assert "no dataset 'other' that takes events" in response.json()["detail"]


def test_a_page_of_another_site_cannot_send_events(sender: Sender) -> None:
    sender.send("[]", kind="text/plain", expect=415)


def test_a_producer_can_do_nothing_else(sender: Sender) -> None:
    for path in ("status", "files", "subjects"):
        sender.client.get(path, expect=403)
