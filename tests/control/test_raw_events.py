"""The inbox in SQL: what is kept, what is known already, what is refused, and who has it."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import instances, raw_events
from disarray.control.connections import transaction
from disarray.errors import (
    AccessDeniedError,
    InvalidRequestError,
    LeaseLostError,
    NoEventsTakenError,
    NotDeadLetterError,
    StaleIncarnationError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.control.connections import Connection
    from disarray.control.queue import Holder
    from disarray.control.raw_events import ClaimedEvent

pytestmark = pytest.mark.postgres

DECISION = {"reason": "a test", "by": "tester"}


def define(connection: Connection, dataset: str, *, id_fields: tuple[str, ...] = ()) -> None:
    """A dataset that takes events."""
    definition = {"dataset": {"events": {"subject": "tool", "id": list(id_fields)}}, "formats": {}}
    connection.execute(
        "select disarray.register_dataset(%s, 'p', 's', %s::json, '[]')", (dataset, json.dumps(definition))
    )


@pytest.fixture
def inbox(connection: Connection) -> Connection:
    """A database with two datasets that take events; those of `numbered` have an id."""
    define(connection, "hmi")
    define(connection, "numbered", id_fields=("head.id", "part"))
    return connection


@pytest.fixture
def holder(inbox: Connection) -> Holder:
    return instances.register_instance(inbox, "Worker01")


_batches = iter(range(1, 1_000_000))


def claim(
    connection: Connection,
    holder: Holder,
    *,
    limit: int = 1000,
    datasets: tuple[str, ...] = ("hmi", "numbered"),
) -> tuple[int, list[ClaimedEvent]]:
    """Claim for a batch of its own."""
    batch_no = next(_batches)
    found = raw_events.claim_raw_events(
        connection, holder, datasets, batch_no=batch_no, limit=limit, lease_seconds=300, max_attempts=3
    )
    return batch_no, found


def settle(
    connection: Connection, holder: Holder, batch_no: int, events: list[ClaimedEvent], *refused: ClaimedEvent
) -> raw_events.Settled:
    return raw_events.settle_raw_events(
        connection,
        holder,
        batch_no=batch_no,
        events=len(events),
        refused={each.event_id: "bad_time" for each in refused},
        max_attempts=3,
    )


def states(connection: Connection) -> list[str]:
    rows = connection.execute("select state::text from disarray.raw_event order by event_id").fetchall()
    return [state for (state,) in rows]


def test_the_same_event_is_new_once_however_it_is_written(inbox: Connection) -> None:
    first = raw_events.record_events(inbox, "hmi", ['{"tool": "T1", "n": 1}', '{"n":1,"tool":"T1"}'])
    again = raw_events.record_events(inbox, "hmi", ['{ "n": 1, "tool": "\\u0054\\u0031" }'])
    other = raw_events.record_events(inbox, "hmi", ['{"tool": "T1", "n": 2}'])
    assert [(each.seen, each.new, each.duplicate) for each in (first, again, other)] == [
        (2, 1, 1),
        (1, 0, 1),
        (1, 1, 0),
    ]


def test_two_events_with_the_same_id_fields_are_one(inbox: Connection) -> None:
    event = {"head": {"id": 7}, "part": "a", "n": 1}
    answer = raw_events.record_events(
        inbox,
        "numbered",
        [json.dumps(event), json.dumps(event | {"n": 2}), json.dumps(event | {"part": "b"})],
    )
    assert (answer.new, answer.duplicate, answer.rejected) == (2, 1, ())
    [(kept,)] = inbox.execute(
        "select payload ->> 'n' from disarray.raw_event where payload ->> 'part' = 'a'"
    ).fetchall()
    assert kept == "1"


REFUSED = {
    "NaN": ('{"n": NaN}', "not JSON that can be stored"),
    "Infinity": ('{"n": -Infinity}', "not JSON that can be stored"),
    "NUL": ('{"n": "\\u0000"}', "not JSON that can be stored"),
    "a lone surrogate": ('{"n": "\\ud800"}', "not JSON that can be stored"),
    "half an object": ('{"n": 1', "not JSON that can be stored"),
    "nothing": ("", "not JSON that can be stored"),
    "a number": ("12", "not a JSON object"),
    "an array": ("[]", "not a JSON object"),
    "deep": ('{"n":' + "[" * 32 + "]" * 32 + "}", "nested too deeply"),
    "a depth bomb": ('{"n":' + "[" * 30_000 + "]" * 30_000 + "}", "nested too deeply"),
    "a name twice": ('{"n": 1, "n": 2}', "a name twice"),
    "a name twice further down": ('{"n": [{"m": 1}, {"m": 1, "m": 1}]}', "a name twice"),
    "large": (json.dumps({"n": "x" * 70_000}), "bytes, at most 65536"),
    "a huge exponent": ('{"n": 1e100000}', "an exponent"),
    "an exponent beyond every number": ('{"n": 1e999999999999}', "not JSON that can be stored"),
    "many large numbers": ('{"n": [' + ",".join(["1e308"] * 1000) + "]}", "written out"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_kept_is_told_by_index_and_the_others_are_kept(inbox: Connection, name: str) -> None:
    event, reason = REFUSED[name]
    answer = raw_events.record_events(inbox, "hmi", ['{"n": 1}', event, '{"n": 2}'])
    assert (answer.seen, answer.new, answer.duplicate) == (3, 2, 0)
    [rejected] = answer.rejected
    assert rejected.index == 1
    assert reason in rejected.reason


def test_what_only_looks_like_a_bomb_is_kept(inbox: Connection) -> None:
    events = [
        '{"note": "1e100000 and {{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{"}',
        '{"a": {"n": 1}, "b": {"n": 1}, "n": 1}',
        '{"n": ' + "[" * 30 + "]" * 30 + "}",
        '{"n": 1e-320, "m": 1.5E+30}',
    ]
    answer = raw_events.record_events(inbox, "hmi", events)
    assert (answer.new, answer.rejected) == (4, ())


def test_an_event_without_its_id_is_refused(inbox: Connection) -> None:
    answer = raw_events.record_events(
        inbox, "numbered", ['{"head": {"id": null}, "part": "a"}', '{"part": "a"}']
    )
    assert [each.reason for each in answer.rejected] == ["it has no head.id, which tells events apart"] * 2


def test_a_call_that_is_too_large_or_for_nobody_stores_nothing(inbox: Connection) -> None:
    with pytest.raises(InvalidRequestError, match="at most 10000 events"):
        raw_events.record_events(inbox, "hmi", ["{}"] * 10_001)
    with pytest.raises(InvalidRequestError, match="5242880 bytes"):
        raw_events.record_events(inbox, "hmi", [json.dumps({"n": "x" * 60_000})] * 90)
    with pytest.raises(NoEventsTakenError, match="no dataset 'csv_files' that takes events"):
        raw_events.record_events(inbox, "csv_files", ["{}"])
    assert states(inbox) == []


def test_a_producer_may_add_and_not_read(inbox: Connection, connect_as: Callable[..., Connection]) -> None:
    producer = connect_as("disarray_producer")
    assert raw_events.record_events(producer, "hmi", ['{"n": 1}']).new == 1
    with pytest.raises(AccessDeniedError):
        raw_events.list_raw_events(producer, state="pending")
    [(by,)] = inbox.execute("select recorded_by from disarray.raw_event").fetchall()
    assert by.startswith("disarray_test_")


def test_two_producers_that_send_the_same_at_once_both_get_an_answer(
    inbox: Connection, connect: Callable[[], Connection]
) -> None:
    events = [json.dumps({"n": number}) for number in range(500)]
    answers: list[raw_events.Recorded] = []

    def send(connection: Connection, order: list[str]) -> None:
        answers.append(raw_events.record_events(connection, "hmi", order))

    threads = [
        threading.Thread(target=send, args=(connect(), order))
        for order in (events, events[::-1])
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(answers), sum(answer.new for answer in answers)) == (6, 500)


def test_events_are_claimed_in_the_order_in_which_they_were_sent(inbox: Connection, holder: Holder) -> None:
    sent = [json.dumps({"n": number}) for number in range(20)]
    raw_events.record_events(inbox, "hmi", sent[:15])
    raw_events.record_events(inbox, "hmi", sent[15:])
    found = [claim(inbox, holder, limit=8)[1] for _ in range(3)]
    assert [event.payload for part in found for event in part] == sent


def test_two_drainers_never_have_the_same_event(
    inbox: Connection, holder: Holder, connect: Callable[[], Connection]
) -> None:
    raw_events.record_events(inbox, "hmi", [json.dumps({"n": number}) for number in range(1000)])
    other = instances.register_instance(inbox, "Worker02")
    taken: dict[str, list[int]] = {"Worker01": [], "Worker02": []}

    def drain(connection: Connection, who: Holder) -> None:
        while True:
            batch_no, events = claim(connection, who, limit=17)
            if not events:
                return
            taken[who.instance_name] += [event.event_id for event in events]
            settle(connection, who, batch_no, events)

    threads = [threading.Thread(target=drain, args=(connect(), who)) for who in (holder, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken["Worker01"] + taken["Worker02"]) == sorted({*taken["Worker01"], *taken["Worker02"]})
    assert states(inbox) == ["done"] * 1000


def test_an_open_claim_is_passed_over_and_not_waited_for(
    inbox: Connection, holder: Holder, connect: Callable[[], Connection]
) -> None:
    raw_events.record_events(inbox, "hmi", ['{"n": 1}', '{"n": 2}'])
    other = instances.register_instance(inbox, "Worker02")
    second = connect()
    with transaction(inbox):
        [first] = claim(inbox, holder, limit=1)[1]
        [passed] = claim(second, other, limit=1)[1]
    assert first.event_id != passed.event_id


def test_a_batch_holds_events_of_one_dataset(inbox: Connection, holder: Holder) -> None:
    raw_events.record_events(inbox, "hmi", ['{"n": 1}'])
    raw_events.record_events(inbox, "numbered", ['{"head": {"id": 1}, "part": 1}'])
    raw_events.record_events(inbox, "hmi", ['{"n": 2}'])
    assert [[event.dataset for event in claim(inbox, holder)[1]] for _ in range(3)] == [
        ["hmi", "hmi"],
        ["numbered"],
        [],
    ]


def test_a_refused_event_is_tried_again_later_and_then_given_up(
    inbox: Connection, holder: Holder, advance_clock: Callable[[timedelta], None]
) -> None:
    raw_events.record_events(inbox, "hmi", ['{"n": 1}', '{"n": "bad"}'])
    batch_no, events = claim(inbox, holder)
    assert settle(inbox, holder, batch_no, events, events[1]) == raw_events.Settled(1, 1, 0)
    assert claim(inbox, holder)[1] == []
    for waited, expected in ((timedelta(minutes=2), (0, 1, 0)), (timedelta(minutes=6), (0, 0, 1))):
        advance_clock(waited)
        batch_no, events = claim(inbox, holder)
        assert settle(inbox, holder, batch_no, events, *events) == raw_events.Settled(*expected)
    [dead] = raw_events.list_raw_events(inbox)
    assert (dead.payload, dead.reason, dead.attempts, dead.crashes) == ('{"n": "bad"}', "bad_time", 3, 0)


def test_nothing_can_be_settled_after_the_lease_or_by_a_former_life(
    inbox: Connection, holder: Holder, advance_clock: Callable[[timedelta], None]
) -> None:
    raw_events.record_events(inbox, "hmi", ['{"n": 1}'])
    batch_no, events = claim(inbox, holder)
    advance_clock(timedelta(minutes=6))
    with pytest.raises(LeaseLostError, match="holds 0 of the 1 events"):
        settle(inbox, holder, batch_no, events)
    batch_no, events = claim(inbox, holder)
    successor = instances.register_instance(inbox, "Worker01")
    with pytest.raises(StaleIncarnationError):
        settle(inbox, holder, batch_no, events)
    # The successor need not wait for the lease.
    batch_no, events = claim(inbox, successor)
    assert [event.attempts for event in events] == [3]
    assert settle(inbox, successor, batch_no, events).done == 1


def test_an_event_that_ends_workers_is_found_among_the_others_and_given_up_alone(
    inbox: Connection, holder: Holder
) -> None:
    raw_events.record_events(inbox, "hmi", [json.dumps({"n": number}) for number in range(500)])
    crashes = 0
    while True:
        batch_no, events = claim(inbox, holder)
        if not events:
            break
        if any(event.payload == '{"n": 321}' for event in events):
            crashes += 1
            holder = instances.register_instance(inbox, "Worker01")
            continue
        settle(inbox, holder, batch_no, events)
    assert crashes == 3
    [dead] = raw_events.list_raw_events(inbox)
    assert (dead.payload, dead.crashes) == ('{"n": 321}', 3)
    assert "ended without an answer" in (dead.reason or "")
    assert sorted(states(inbox)) == sorted(["dead"] + ["done"] * 499)


def test_a_batch_that_is_given_back_costs_no_attempt(inbox: Connection, holder: Holder) -> None:
    raw_events.record_events(inbox, "hmi", ['{"n": 1}'])
    for _ in range(5):
        batch_no, events = claim(inbox, holder)
        assert [event.attempts for event in events] == [1]
        assert raw_events.release_raw_events(inbox, holder, batch_no=batch_no) == 1


def bury(connection: Connection, holder: Holder, dataset: str, event: str) -> int:
    """An event that was given up."""
    raw_events.record_events(connection, dataset, [event])
    batch_no, events = claim(connection, holder)
    raw_events.settle_raw_events(
        connection,
        holder,
        batch_no=batch_no,
        events=1,
        refused={events[0].event_id: "bad_time"},
        max_attempts=1,
    )
    return events[0].event_id


def test_a_dead_event_is_replayed_with_all_its_attempts(inbox: Connection, holder: Holder) -> None:
    event_id = bury(inbox, holder, "hmi", '{"n": 1}')
    assert raw_events.replay_raw_events(inbox, [event_id], **DECISION) == 1
    [event] = claim(inbox, holder)[1]
    assert (event.event_id, event.attempts) == (event_id, 1)
    with pytest.raises(NotDeadLetterError, match=f"event {event_id} is no dead letter"):
        raw_events.replay_raw_events(inbox, [event_id], **DECISION)
    [(noted,)] = inbox.execute(
        "select metadata from disarray.ingest_event where event_type = 'dead_letter_retried'"
    ).fetchall()
    assert (noted["event_id"], noted["by"], noted["error"]) == (event_id, "tester", "bad_time")


def test_a_corrected_event_leaves_both_known(inbox: Connection, holder: Holder) -> None:
    event_id = bury(inbox, holder, "hmi", '{"n": "one"}')
    new_id = raw_events.correct_raw_event(inbox, event_id, '{"n": 1}', **DECISION)
    assert new_id != event_id
    again = raw_events.record_events(inbox, "hmi", ['{"n": "one"}', '{"n": 1}'])
    assert (again.new, again.duplicate) == (0, 2)
    assert [event.payload for event in claim(inbox, holder)[1]] == ['{"n": 1}']
    assert states(inbox) == ["discarded", "claimed"]


def test_a_corrected_event_with_the_same_id_stays_the_same_event(inbox: Connection, holder: Holder) -> None:
    event_id = bury(inbox, holder, "numbered", '{"head": {"id": 1}, "part": 1, "n": "one"}')
    corrected = '{"n": 1, "head": {"id": 1}, "part": 1}'
    assert raw_events.correct_raw_event(inbox, event_id, corrected, **DECISION) == event_id
    [event] = claim(inbox, holder)[1]
    assert json.loads(event.payload) == json.loads(corrected)


def test_a_correction_that_cannot_be_kept_changes_nothing(inbox: Connection, holder: Holder) -> None:
    event_id = bury(inbox, holder, "hmi", '{"n": 1}')
    raw_events.record_events(inbox, "hmi", ['{"n": 2}'])
    for event, reason in (('{"n": NaN}', "not JSON"), ('{"n": 2}', "recorded already")):
        with pytest.raises(InvalidRequestError, match=reason):
            raw_events.correct_raw_event(inbox, event_id, event, **DECISION)
    assert states(inbox) == ["dead", "pending"]


def test_a_discarded_event_is_off_the_list_and_stays_known(inbox: Connection, holder: Holder) -> None:
    event_id = bury(inbox, holder, "hmi", '{"n": 1}')
    assert raw_events.discard_raw_events(inbox, [event_id], **DECISION) == 1
    assert raw_events.list_raw_events(inbox) == []
    assert raw_events.record_events(inbox, "hmi", ['{"n": 1}']).duplicate == 1


def test_what_is_over_is_forgotten_after_a_while_and_what_is_not_never(
    inbox: Connection, holder: Holder, advance_clock: Callable[[timedelta], None]
) -> None:
    bury(inbox, holder, "hmi", '{"n": 1}')
    raw_events.record_events(inbox, "hmi", ['{"n": 2}'])
    batch_no, events = claim(inbox, holder)
    settle(inbox, holder, batch_no, events)
    raw_events.record_events(inbox, "hmi", ['{"n": 3}'])
    assert raw_events.forget_raw_events(inbox, keep=timedelta(days=90)) == 0
    advance_clock(timedelta(days=91))
    assert raw_events.forget_raw_events(inbox, keep=timedelta(days=90), is_rehearsal=True) == 1
    assert raw_events.forget_raw_events(inbox, keep=timedelta(days=90)) == 1
    assert states(inbox) == ["dead", "pending"]
    [count] = raw_events.count_raw_events(inbox)
    assert (count.dataset, count.pending, count.claimed, count.dead) == ("hmi", 1, 0, 1)
