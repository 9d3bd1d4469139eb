"""Hooks are told of what happens, in the transaction in which it happens, and only of what they asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from disarray.control import connections, side_effects
from disarray.control.hooks import list_hooks
from disarray.errors import InvalidRequestError, NotDeadLetterError
from disarray.model.side_effect import HookCause
from disarray.queries.restatements import list_restatements
from tests.sinks.hook_plant import HookPlant, csv, report, webhook
from tests.sinks.receivers import answer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sinks.receivers import Receiver

DECISION = {"reason": "the receiver is back", "by": "ada"}


Make = Callable[[str], HookPlant]


def test_a_restatement_is_told_with_the_spans_of_the_ledger(make_plant: Make, receiver: Receiver) -> None:
    plant = make_plant(webhook(receiver.port))
    plant.first_file()
    assert plant.effects() == []
    plant.late_file()
    assert [sent.state for sent in plant.send()] == ["done"]
    [told] = receiver.received
    document = told.document
    assert (document["cause"], document["subject"], document["dataset"]) == ("restatement", "TOOL07", "press")
    assert (document["key"], document["is_test"]) == (told.key, False)
    with plant.pool.connection() as connection:
        ledger = list_restatements(connection).restatements
    spans = document["details"]["spans"]
    assert document["details"]["span_count"] == document["details"]["restated_spans"] == len(ledger) == 2
    for each in ledger:
        [span] = [one for one in spans if one["metric"] == each.metric]
        assert (span["old"], span["new"], span["delta"]) == (each.old, each.new, each.delta)
        assert (span["least"], span["greatest"]) == (each.least, each.greatest)
        assert datetime.fromisoformat(span["changed_from"]) == each.changed_from
        assert datetime.fromisoformat(span["changed_to"]) == each.changed_to
        assert span["source_uris"] == each.source_uris
    assert plant.send() == []
    assert len(receiver.received) == 1


@pytest.mark.parametrize(
    ("limit", "metrics"),
    [
        ("4.9", ["energy"]),
        ("5", []),
        ("{ energy = 100 }", ["parts"]),
        ('{ energy = 1, "*" = 7 }', ["energy"]),
        ("0.5", ["energy", "parts"]),
    ],
)
def test_spans_that_are_not_larger_than_the_limit_are_not_told(
    make_plant: Make, receiver: Receiver, limit: str, metrics: list[str]
) -> None:
    plant = make_plant(webhook(receiver.port, more=f"larger_than = {limit}"))
    plant.first_file()
    plant.late_file(watts=5.0)  # one part more as well
    found = [span["metric"] for each in plant.effects() for span in each.details["spans"]]
    assert sorted(found) == metrics


def test_only_subjects_and_datasets_that_match_are_told_of(make_plant: Make) -> None:
    plant = make_plant(report(more='subjects = ["TOOL0*"]\ndatasets = ["pr*"]'))
    for subject in ("TOOL07", "CELL1"):
        plant.first_file(subject=subject)
        plant.late_file(subject=subject)
    assert [each.subject_key for each in plant.effects()] == ["TOOL07"]


def test_a_commit_that_is_rolled_back_leaves_no_intent(make_plant: Make) -> None:
    plant = make_plant(report(on='["restatement", "dead_letter"]'))
    plant.first_file()
    plant.late_file()
    assert len(plant.effects()) == 1
    with plant.pool.connection() as connection:
        with connections.transaction(connection):
            noted = note(connection)
            assert noted == 1
            connection.execute("rollback; begin")
        assert len(plant.effects()) == 1
        with connections.transaction(connection):
            assert note(connection) == 1
        assert note(connection) == 0, "one occasion is one intent"
    assert len(plant.effects()) == 2


def note(connection: connections.Connection, occasion: str = "item 1") -> int:
    return side_effects.note_side_effects(
        connection,
        HookCause.DEAD_LETTER,
        subject_key="TOOL07",
        dataset="press",
        occasion=occasion,
        summary="it was given up",
        details={"why": "a test"},
    )


def test_a_commit_that_fails_after_its_restatement_leaves_neither(make_plant: Make) -> None:
    plant = make_plant(report())
    plant.first_file()
    with plant.pool.connection() as connection:
        # The last thing that a commit does fails.
        connection.execute(
            """
            create function disarray.refuse() returns trigger language plpgsql as
            $$ begin raise exception 'no' using errcode = 'DA001'; end $$;
            create trigger refuse before insert on disarray.side_effect execute function disarray.refuse();
            """
        )
    plant.late_file()
    assert plant.effects() == []
    assert plant.rows("select 1 from disarray.restatement") == []
    with plant.pool.connection() as connection:
        connection.execute("drop trigger refuse on disarray.side_effect")
    plant.advance(30)
    plant.drain()
    assert len(plant.effects()) == 1
    assert len(plant.rows("select 1 from disarray.restatement")) == 2


def test_what_is_parked_is_told_once_for_each_file(make_plant: Make) -> None:
    plant = make_plant(report(on='["quarantine"]'))
    plant.first_file()
    old = "time,watts,good\n2026-09-01T12:00:00Z,1,1\n"
    plant.ingest(plant.write("TOOL07/old.csv", old))
    [effect] = plant.effects()
    assert (effect.details["part"], effect.details["why"]) == ("readings", "beyond the horizon")
    assert effect.details["readings"] == 1
    # It grows: that it waits is known.
    plant.ingest(plant.write("TOOL07/old.csv", old + "2026-09-01T13:00:00Z,1,1\n"))
    assert len(plant.effects()) == 1
    # It is rewritten, and all that waited of it goes and comes anew.
    plant.ingest(plant.write("TOOL07/old.csv", old.replace(",1,1", ",2,1") + "2026-09-01T14:00:00Z,1,1\n"))
    assert plant.rows(
        """
        select count(*) from disarray.fragment
        where state = 'parked' and run_id = (select run_id from disarray.run order by committed_at desc limit 1)
        """
    ) == [(2,)]
    assert len(plant.effects()) == 1
    # A version that says less.
    plant.ingest(plant.write("TOOL07/first.csv", csv({0: 1.0})))
    assert [each.details["part"] for each in plant.effects()] == ["readings", "version"]


def test_a_dead_letter_is_told_with_its_error(make_plant: Make) -> None:
    plant = make_plant(report(on='["dead_letter"]'))
    path = plant.write("TOOL07/bad.csv", "a,b\n1,2\n")
    plant.ingest(path)
    [effect] = plant.effects()
    assert effect.details["source_uri"] == str(path)
    assert effect.details["error"]
    assert (effect.subject_key, effect.dataset) == ("TOOL07", "press")


def test_a_silent_subject_is_told_once_for_each_silence(make_plant: Make, dsn: str) -> None:
    plant = make_plant(report(on='["no_data_since"]', more='no_data_since = "2 h"'))
    now = plant.rows("select to_char(disarray.clock() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')")[
        0
    ][0]
    plant.first_file(subject="OLD")  # silent since long before anybody listened
    plant.ingest(plant.write("TOOL07/now.csv", f"time,watts,good\n{now},1,1\n"))
    look(plant)
    assert plant.effects() == []
    plant.advance(119)
    look(plant)
    assert plant.effects() == []
    plant.advance(2)
    look(plant)
    plant.advance(60)
    look(plant)
    [effect] = plant.effects()
    assert (effect.cause, effect.subject_key) == ("no_data_since", "TOOL07")
    later = plant.rows(
        "select to_char(disarray.clock() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
    )[0][0]
    plant.ingest(plant.write("TOOL07/later.csv", f"time,watts,good\n{later},1,1\n"))
    plant.advance(121)
    look(plant)
    assert len(plant.effects()) == 2


def test_a_subject_that_stays_stale_is_told_of_once(make_plant: Make) -> None:
    plant = make_plant(report(on='["stale_longer_than"]', more='stale_longer_than = "30 min"'))
    with plant.pool.connection() as connection:
        connection.execute(
            """
            insert into disarray.dirty_range (subject_key, dataset, range_start, range_end, reason, created_at)
            values ('TOOL07', 'press', '2026-10-01', 'infinity', 'a test', disarray.clock())
            """
        )
    look(plant)
    assert plant.effects() == []
    plant.advance(31)
    look(plant)
    plant.advance(31)
    look(plant)
    [effect] = plant.effects()
    assert effect.details["stale_from"].startswith("2026-10-01T00:00:00")


def look(plant: HookPlant) -> None:
    with plant.pool.connection() as connection:
        side_effects.note_conditions(connection, every_seconds=1)
    plant.advance(0.1)


def test_a_failure_is_tried_again_after_1_5_and_25_minutes_and_then_given_up(
    make_plant: Make, receiver: Receiver
) -> None:
    plant = make_plant(webhook(receiver.port))
    plant.first_file()
    plant.late_file()
    receiver.behave = answer(500, b"not today" * 1000)
    delays = []
    for _ in range(3):
        assert [sent.state for sent in plant.send()] == ["pending"]
        assert plant.send() == [], "its time has not come"
        [(delay,)] = plant.rows(
            "select extract(epoch from available_at - disarray.clock())::float8 / 60 from disarray.side_effect"
        )
        delays.append(float(str(delay)))
        plant.advance(delays[-1] + 0.01)
    for found, most in zip(delays, (1, 5, 25), strict=True):
        assert 0.7 * most < found <= most
    assert [sent.state for sent in plant.send()] == ["dead"]
    [effect] = plant.effects(state="dead")
    assert (effect.attempts, effect.answer_status) == (4, "500 Internal Server Error")
    assert len(effect.answer or "") == 1024
    assert len(receiver.keys) == 1
    assert len(receiver.received) == 4
    plant.advance(600)
    assert plant.send() == []
    receiver.behave = answer(204)
    with plant.pool.connection() as connection:
        assert side_effects.resend_side_effects(connection, [effect.effect_id], **DECISION) == 1
    assert [sent.state for sent in plant.send()] == ["done"]
    assert len(receiver.keys) == 1
    with plant.pool.connection() as connection, pytest.raises(NotDeadLetterError, match="it is done"):
        side_effects.resend_side_effects(connection, [effect.effect_id], **DECISION)
    [(metadata,)] = plant.rows(
        "select metadata from disarray.ingest_event where event_type = 'side_effect_resent'"
    )
    assert isinstance(metadata, dict)
    assert (metadata["by"], metadata["reason"]) == ("ada", "the receiver is back")


def test_a_hook_that_is_removed_ends_and_what_waited_can_be_sent_when_it_is_back(
    make_plant: Make, receiver: Receiver
) -> None:
    plant = make_plant(webhook(receiver.port))
    plant.first_file()
    plant.late_file()
    plant.configure("")
    plant.late_file("later", watts=6.0)
    [effect] = plant.effects()
    assert (effect.state, effect.reason) == ("dead", "the hook is no longer configured")
    with plant.pool.connection() as connection:
        assert list_hooks(connection)[0].ended_at is not None
        with pytest.raises(InvalidRequestError, match="no longer configured"):
            side_effects.resend_side_effects(connection, [effect.effect_id], **DECISION)
    plant.configure(webhook(receiver.port))
    with plant.pool.connection() as connection:
        side_effects.resend_side_effects(connection, [effect.effect_id], **DECISION)
    assert [sent.state for sent in plant.send()] == ["done"]


def test_a_worker_with_another_definition_sends_nothing(make_plant: Make, receiver: Receiver) -> None:
    plant = make_plant(webhook(receiver.port))
    plant.first_file()
    plant.late_file()
    old = plant.settings
    plant.configure(webhook(receiver.port, more='secret = { env = "NOWHERE" }'))
    plant.settings = old
    assert plant.send() == []
    assert plant.states() == ["pending"]


def test_what_was_sent_is_forgotten_after_a_while_and_a_silence_that_lasts_is_not(make_plant: Make) -> None:
    plant = make_plant(report(on='["dead_letter", "no_data_since"]', more='no_data_since = "2 h"'))
    now = plant.rows("select to_char(disarray.clock() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')")[
        0
    ][0]
    plant.ingest(plant.write("TOOL07/now.csv", f"time,watts,good\n{now},1,1\n"))
    with plant.pool.connection() as connection:
        note(connection)
    plant.advance(121)
    look(plant)
    assert [sent.state for sent in plant.send()] == ["done", "done"]
    plant.advance(60 * 24 * 91)
    plant.keep_house()
    look(plant)
    assert [each.cause for each in plant.effects()] == ["no_data_since"]


def test_a_report_is_a_file_with_the_message_below_its_folder(make_plant: Make, tmp_path: Path) -> None:
    plant = make_plant(report(on='["dead_letter"]'))
    with plant.pool.connection() as connection:
        side_effects.note_side_effects(
            connection,
            HookCause.DEAD_LETTER,
            subject_key="../../etc/passwd",
            dataset="press",
            occasion="x",
            summary="s",
            details={},
        )
    [sent] = plant.send()
    [path] = (tmp_path / "reports").rglob("*.json")
    assert str(path) == sent.outcome.answer
    assert json.loads(path.read_text())["subject"] == "../../etc/passwd"
    assert path.parent == tmp_path / "reports" / "press" / "_etc_passwd"
    assert [each.name for each in path.parent.iterdir()] == [path.name]
