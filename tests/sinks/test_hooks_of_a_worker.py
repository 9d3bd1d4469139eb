"""A real worker with hooks: it makes them known, tells them of what it commits, and ends in good order."""

from __future__ import annotations

import json
import signal
import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from disarray.control import instances, raw_events
from disarray.engine.verification.comparison import Difference
from disarray.engine.verification.sources import Unproven
from disarray.engine.verification.verification_report import NotCompared, VerificationReport
from disarray.sinks.hook_settings import register_all_hooks
from disarray.sinks.hook_verification import note_failed_verification
from tests.processes import Running, eventually
from tests.sinks.hook_plant import HookPlant, csv, report, webhook
from tests.sinks.receivers import hang, http_receiver

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sinks.receivers import Receiver

Make = Callable[[str], HookPlant]


def start(plant: HookPlant, dsn: str, hooks: str) -> Running:
    """A worker whose file has these hooks; the database hears of them when it starts."""
    plant.configure(hooks)
    settings = f'[database]\ndsn = "{dsn}"\n[worker]\nrunner = "in-process"\n'
    plant.description.write_text(settings + plant.description.read_text())
    with plant.pool.connection() as connection:
        register_all_hooks(connection, ())
    return Running("worker", "--name", "W1", project=plant.inbox.parent)


def test_a_worker_tells_of_what_it_commits_while_another_hook_hangs(
    make_plant: Make, receiver: Receiver, dsn: str
) -> None:
    plant = make_plant("")
    over = threading.Event()
    with http_receiver() as hanging:
        hanging.behave = hang(over)
        both = webhook(receiver.port) + webhook(hanging.port, name="hanging")
        worker = start(plant, dsn, both)
        try:
            # Whatever is committed from here on is told.
            eventually(
                lambda: plant.rows("select 1 from disarray.hook where ended_at is null and kind = 'webhook'")
            )
            for name, watts in (("first", {0: 1.0, 120: 1.0}), ("late", {30: 5.0}), ("later", {31: 5.0})):
                plant.notify(plant.write(f"TOOL07/{name}.csv", csv(watts)))
                eventually(lambda: not plant.rows("select 1 from disarray.ingest_queue"))
            eventually(lambda: len(receiver.received) == 2)
            eventually(lambda: len(hanging.received) == 1)
            over.set()
            assert worker.end(signal.SIGTERM) == 0
        finally:
            over.set()
            worker.kill()
    assert {each.document["cause"] for each in receiver.received} == {"restatement"}
    assert "hook quality: restatement" in worker.log


def test_a_worker_whose_hook_has_no_secret_says_so_and_does_not_start(
    make_plant: Make, receiver: Receiver, dsn: str
) -> None:
    plant = make_plant("")
    worker = start(plant, dsn, webhook(receiver.port, more='secret = { env = "NOT_SET" }'))
    try:
        assert worker.process.wait(timeout=240) == 1
    finally:
        worker.kill()
    assert "hook quality: there is no secret in the environment variable NOT_SET" in worker.log


def test_a_verification_that_failed_is_told_by_subject(make_plant: Make) -> None:
    plant = make_plant(
        report(on='["verification_failed"]')
        + report(name="one", on='["verification_failed"]', more='datasets = ["press"]')
    )
    differs = [
        Difference(
            dataset="press",
            subject_key="TOOL07",
            what="base",
            name="energy",
            channel="",
            segment_us=None,
            stored=1.0,
            recomputed=number,
        )
        for number in range(30)
    ]
    found = VerificationReport(
        differences=differs,
        unproven=[Unproven("TOOL08", "file:///a", 1, "gone")],
        not_compared=[NotCompared("press", "TOOL09", "stale")],
    )
    verification_id = uuid.uuid4()
    with plant.pool.connection() as connection:
        assert note_failed_verification(connection, found, verification_id=verification_id) == 3
        assert note_failed_verification(connection, found, verification_id=verification_id) == 0
        allowed = note_failed_verification(
            connection, found, verification_id=uuid.uuid4(), allow_vanished=True
        )
        assert allowed == 2
    told = [(each.hook_name, each.subject_key, each.details["finding_count"]) for each in plant.effects()]
    assert told[:3] == [("one", "TOOL07", 30), ("paper", "TOOL07", 30), ("paper", "TOOL08", 1)]
    assert len(plant.effects()[0].details["findings"]) == 20


def test_events_that_are_given_up_are_told_of_in_one_message_a_batch(make_plant: Make) -> None:
    plant = make_plant(report(on='["dead_letter"]'))
    with plant.pool.connection() as connection:
        definition = {"dataset": {"events": {"subject": "tool", "id": []}}, "formats": {}}
        connection.execute(
            "select disarray.register_dataset('hmi', 'p', 's', %s::json, '[]')", (json.dumps(definition),)
        )
        raw_events.record_events(connection, "hmi", ['{"n": 1}', '{"n": 2}', '{"n": 3}'])
        holder = instances.register_instance(connection, "Worker02")
        events = raw_events.claim_raw_events(
            connection, holder, ["hmi"], batch_no=7, limit=10, lease_seconds=60, max_attempts=1
        )
        raw_events.settle_raw_events(
            connection,
            holder,
            batch_no=7,
            events=3,
            refused={each.event_id: "bad_time" for each in events[:2]},
            max_attempts=1,
        )
    [effect] = plant.effects()
    assert (effect.dataset, effect.details["events"]) == ("hmi", 2)
    assert effect.details["event_ids"] == [each.event_id for each in events[:2]]


@pytest.mark.parametrize("name", ["first", "second"])
def test_two_plants_on_one_database_have_the_hooks_of_the_last_that_started(
    make_plant: Make, name: str, tmp_path: Path
) -> None:
    plant = make_plant(report(name="first"))
    if name == "second":
        plant.configure(report(name="second"))
    plant.first_file()
    plant.late_file()
    assert [each.hook_name for each in plant.effects()] == [name]
