"""Events become readings: once each, whoever drains, whatever is wrong with some of them."""

from __future__ import annotations

import json
import os
import random
import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control import instances, raw_events
from disarray.errors import ConfigError, LandingWriteError, SpecError
from disarray.queries.restatements import list_restatements
from disarray.sources.inbox import Inbox, refuse_unreadable_inboxes
from disarray.sources.landing import Landing
from disarray.worker.upkeep.housekeeping import keep_house
from tests.sources.inbox_plant import DATASET, SETTINGS, InboxPlant, event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from disarray.control.deliveries import Batch, DeliveredFile

DECISION = {"reason": "a test", "by": "tester"}


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[InboxPlant]:
    """A plant whose presses report events."""
    built = InboxPlant(tmp_path, dsn)
    yield built
    built.pool.close()


def test_events_are_readings_once_they_are_drained(plant: InboxPlant) -> None:
    plant.record([*map(event, range(10)), event(10, tool="TOOL/8 ü"), event(11, tool=9)])
    plant.deliver()
    assert plant.states() == {"done": 12}
    assert (plant.total(), plant.total("TOOL/8 ü"), plant.total("9")) == (9, 1, 2)
    counts = plant.rows(
        "select sum(rows_seen), sum(rows_taken), sum(rows_rejected) from disarray.delivery_batch"
    )
    assert [tuple(map(int, map(str, row))) for row in counts] == [(12, 12, 0)]
    assert plant.rows("select distinct source_name from disarray.delivery_batch") == [("inbox-press",)]
    assert plant.rows("select 1 from disarray.raw_event where payload is not null") == []


def test_nothing_new_makes_no_delivery_no_order_and_no_reading(plant: InboxPlant) -> None:
    plant.record(map(event, range(10)))
    plant.deliver()
    before = plant.derived(), plant.rows("select count(*) from disarray.delivery")
    answer = plant.record(map(event, range(10)))
    assert (answer.new, answer.duplicate) == (0, 10)
    plant.deliver()
    assert (plant.derived(), plant.rows("select count(*) from disarray.delivery")) == before


@pytest.mark.parametrize("seed", range(4))
def test_numbers_do_not_depend_on_how_events_were_sent_and_drained(
    tmp_path: Path, dsn: str, seed: int
) -> None:
    generator = random.Random(seed)
    events = [
        event(number, minutes=generator.randrange(600), tool=generator.choice(["A", "B"]))
        for number in range(40)
    ]
    plant = InboxPlant(tmp_path, dsn)
    plant.record(events)
    plant.deliver()
    expected = plant.derived()
    plant.forget_everything()
    with plant.pool.connection() as connection:
        connection.execute("truncate disarray.raw_event")
    generator.shuffle(events)
    while events:
        size = generator.randrange(1, 9)
        plant.record([*events[:size], *events[: generator.randrange(size)]])
        del events[:size]
        plant.place = replace(
            plant.place, inbox_settings=replace(SETTINGS, batch_events=generator.randrange(1, 10))
        )
        if generator.random() < 0.6:
            plant.deliver()
    plant.deliver()
    assert plant.derived() == expected
    plant.pool.close()


def test_an_event_three_weeks_late_repairs_and_is_in_the_ledger(plant: InboxPlant) -> None:
    weeks = 3 * 7 * 24 * 60
    plant.record([event(number, minutes=weeks + number) for number in range(1, 6)])
    plant.record([event(9, minutes=0)])
    plant.deliver()
    before = plant.total()
    plant.record([event(2_000, minutes=30)])
    plant.deliver()
    assert plant.total() == before + 2_000 % 3
    # What it changed is in the ledger, with the delivery that brought it as its cause.
    [(uri,)] = plant.rows("select source_uri from disarray.delivery order by batch_no desc limit 1")
    with plant.pool.connection() as connection:
        found = list_restatements(connection, subject_key="TOOL07").restatements
    [restated] = [each for each in found if each.metric == "parts_total" and uri in each.source_uris]
    assert (restated.source_uris, restated.delta) == ([uri], 2)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"at": "yesterday"}, "bad_time"),
        ({"at": None}, "missing_time"),
        ({"at": "2199-01-01T00:00:00Z"}, "in_future"),
        ({"force": "strong"}, "bad_number: force"),
        ({"count": {"parts": 2**63}}, "integer_overflow: parts"),
        ({"tool": None}, "no subject"),
        ({"tool": {"name": "TOOL07"}}, "no subject"),
        ({"tool": "x" * 300}, "no subject"),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value)[:40],
)
def test_a_poison_event_becomes_a_dead_letter_and_holds_nobody_up(
    plant: InboxPlant, advance_clock: Callable[[timedelta], None], more: dict[str, object], reason: str
) -> None:
    plant.record([event(1), event(2) | more, event(4)])
    plant.deliver()
    assert (plant.states(), plant.total()) == ({"done": 2, "pending": 1}, 2)
    for _ in range(2):
        advance_clock(timedelta(minutes=6))
        plant.deliver()
    assert plant.states() == {"done": 2, "dead": 1}
    with plant.pool.connection() as connection:
        [dead] = raw_events.list_raw_events(connection)
        assert (dead.attempts, json.loads(dead.payload or "")) == (3, event(2) | more)
        assert reason in (dead.reason or "")
        raw_events.correct_raw_event(connection, dead.event_id, json.dumps(event(2)), **DECISION)
    plant.deliver()
    assert (plant.states(), plant.total()) == ({"done": 3}, 4)


def test_a_dead_letter_is_replayed_once_the_dataset_is_described_otherwise(
    plant: InboxPlant, advance_clock: Callable[[timedelta], None]
) -> None:
    plant.place = replace(plant.place, inbox_settings=replace(SETTINGS, max_attempts=1))
    plant.record([event(1) | {"at": "02.03.2026 12:01:00"}])
    plant.deliver()
    assert plant.states() == {"dead": 1}
    plant.redefine(DATASET.replace('layouts = ["iso"]', 'layouts = ["iso", "%d.%m.%Y %H:%M:%S"]'))
    with plant.pool.connection() as connection:
        [dead] = raw_events.list_raw_events(connection)
        raw_events.replay_raw_events(connection, [dead.event_id], **DECISION)
    plant.deliver()
    assert (plant.states(), plant.total()) == ({"done": 1}, 1)


def test_two_drainers_at_once_deliver_every_event_once(plant: InboxPlant) -> None:
    plant.record(map(event, range(200)))
    inbox = plant.place.inbox
    assert inbox is not None
    with plant.pool.connection() as connection:
        other = instances.register_instance(connection, "Worker02")
    rivals = [inbox, replace(inbox, holder=other)]
    errors: list[BaseException] = []

    def run(rival: Inbox) -> None:
        try:
            for _ in rival.drain():
                pass
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(rival,)) for rival in rivals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    plant.drain()
    assert errors == []
    assert plant.states() == {"done": 200}
    assert plant.total() == sum(number % 3 for number in range(200))
    [(rows,)] = plant.rows("select sum(rows) from disarray.delivery")
    assert rows == 200


def test_a_landing_folder_that_takes_nothing_costs_no_attempt(plant: InboxPlant, tmp_path: Path) -> None:
    plant.record([event(1)])
    inbox = plant.place.inbox
    assert inbox is not None
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder should be")
    broken = Landing(blocked / "landing")
    description = DATASET.replace("landing/inbox-press", "blocked/landing/inbox-press")
    plant.redefine(description)
    with pytest.raises(LandingWriteError):
        replace(inbox, landing=broken, datasets=tuple(plant.datasets.values())).drain_batch()
    assert plant.rows("select state::text, attempts from disarray.raw_event") == [("pending", 0)]


def test_a_drainer_whose_lease_ran_out_delivers_nothing(
    plant: InboxPlant, advance_clock: Callable[[timedelta], None]
) -> None:
    class SlowDisk(Landing):
        def write_lines(self, lines: Sequence[str], batch: Batch, *, subject_key: str) -> DeliveredFile:
            advance_clock(timedelta(hours=1))
            return super().write_lines(lines, batch, subject_key=subject_key)

    plant.record([event(1)])
    inbox = plant.place.inbox
    assert inbox is not None
    assert replace(inbox, landing=SlowDisk(inbox.landing.root)).drain_batch() is None
    assert plant.rows("select count(*) from disarray.delivery") == [(0,)]
    plant.deliver()
    assert (plant.states(), plant.total()) == ({"done": 1}, 1)


def test_housekeeping_forgets_events_that_are_done_and_sweeps_orphans(
    plant: InboxPlant, advance_clock: Callable[[timedelta], None], tmp_path: Path
) -> None:
    plant.record([event(1)])
    plant.deliver()
    orphan = tmp_path / "landing" / "inbox-press" / "TOOL07" / f"{7:012d}-{'0' * 32}.jsonl"
    orphan.write_text("{}\n")
    os.utime(orphan, (0, 0))
    advance_clock(timedelta(days=91))
    report = keep_house(plant.place)
    assert report is not None
    assert report.inbox_events == 1
    assert not orphan.exists()
    assert plant.states() == {}


def test_a_dataset_whose_events_nobody_would_read_is_refused(plant: InboxPlant, tmp_path: Path) -> None:
    plant.redefine(DATASET.replace("landing/inbox-press", "landing/elsewhere"))
    with pytest.raises(ConfigError, match=r"dataset press takes events.*inbox-press"):
        refuse_unreadable_inboxes(Landing(tmp_path / "landing"), tuple(plant.datasets.values()))


@pytest.mark.parametrize(
    ("former", "new", "problem"),
    [
        ('format = "jsonl"', 'format = "csv"', 'give format = "jsonl"'),
        ('{ delivery = "folders" }', '{ constant = "T" }', "a folder for each subject"),
        ('key = ["id"]\n', "", "give a key"),
        ('subject = "tool", ', "", "events.subject"),
        ('subject = "tool"', 'subject = "a..b"', "names with dots"),
        ('id = ["id"]', 'ident = ["id"]', "unknown key"),
    ],
)
def test_an_events_table_that_cannot_work_is_refused(
    plant: InboxPlant, former: str, new: str, problem: str
) -> None:
    assert former in DATASET
    with pytest.raises(SpecError, match=problem):
        plant.redefine(DATASET.replace(former, new))


def test_an_event_whose_subject_the_database_does_not_take_is_refused_alone(plant: InboxPlant) -> None:
    plant.record([*map(event, range(3)), event(3, tool="器" * 100)])
    plant.deliver()
    assert plant.states() == {"done": 3, "pending": 1}
    assert plant.rows("select reason from disarray.raw_event where state = 'pending'") == [
        ("no subject: expected a subject of 1 to 200 printable characters and at most 256 bytes in tool",)
    ]
