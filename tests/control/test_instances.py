"""Which instance serves which subject, and what is reported of those that nobody serves."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from disarray.control import (
    blacklist,
    claim_ends,
    claims,
    events,
    files,
    housekeeping,
    instances,
    queue,
    status,
)
from disarray.control.files import Notification
from disarray.control.instances import InstanceState
from disarray.errors import InvalidRequestError, StaleIncarnationError, UnknownInstanceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres


def enqueue_one_of_each(connection: Connection, *subjects: str) -> None:
    files.enqueue_files(
        connection, [Notification(f"file:///{number}", subject) for number, subject in enumerate(subjects)]
    )


def served_by(connection: Connection, holder: queue.Holder) -> set[str]:
    policy = claims.FetchPolicy(limit=100, max_subjects=100)
    return {item.subject_key for item in claims.fetch_items(connection, holder, policy)}


def test_an_instance_is_served_only_what_its_patterns_match(connection: Connection) -> None:
    enqueue_one_of_each(connection, "TOOL01", "TOOL12", "TOOL123", "CELL-1", "tool01")
    first = instances.register_instance(connection, "Worker01", subject_patterns=["TOOL??"])
    second = instances.register_instance(connection, "Worker02", subject_patterns=["CELL-*", "TOOL123"])
    assert served_by(connection, first) == {"TOOL01", "TOOL12"}
    assert served_by(connection, second) == {"CELL-1", "TOOL123"}


def test_without_patterns_an_instance_serves_every_subject_and_a_restart_keeps_its_patterns(
    connection: Connection,
) -> None:
    instances.register_instance(connection, "Worker01")
    [known] = instances.list_instances(connection)
    assert known.subject_patterns == ["*"]
    instances.bind_instance(connection, "Worker01", ["TOOL*"], by="alice")
    instances.register_instance(connection, "Worker01")
    [known] = instances.list_instances(connection)
    assert known.subject_patterns == ["TOOL*"]


def test_a_new_binding_holds_from_the_next_claim_on(connection: Connection) -> None:
    enqueue_one_of_each(connection, "TOOL01", "CELL-1")
    holder = instances.register_instance(connection, "Worker01", subject_patterns=["TOOL01"])
    assert served_by(connection, holder) == {"TOOL01"}
    instances.bind_instance(connection, "Worker01", ["CELL-1"], by="alice")
    assert served_by(connection, holder) == {"CELL-1"}


def test_binding_an_instance_that_never_registered_is_refused(connection: Connection) -> None:
    with pytest.raises(UnknownInstanceError, match="disarray status"):
        instances.bind_instance(connection, "Nobody", ["*"], by="alice")


@pytest.mark.parametrize("patterns", [[], [""], ["x" * 257], ["*"] * 1001])
def test_unusable_patterns_are_refused(connection: Connection, patterns: list[str]) -> None:
    with pytest.raises(InvalidRequestError):
        instances.register_instance(connection, "Worker01", subject_patterns=patterns)
    assert instances.list_instances(connection) == []


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("100%", {"100%"}),
        ("A_B", {"A_B"}),
        ("A\\B", {"A\\B"}),
        ("A?B", {"A_B", "AxB", "A\\B"}),
        ("100*", {"100%", "1000"}),
        ("[A]*", set()),
    ],
)
def test_wildcards_of_like_are_ordinary_characters_of_a_name(
    connection: Connection, pattern: str, matched: set[str]
) -> None:
    enqueue_one_of_each(connection, "100%", "1000", "A_B", "AxB", "A\\B")
    holder = instances.register_instance(connection, "Worker01", subject_patterns=[pattern])
    assert served_by(connection, holder) == matched


names = st.text(alphabet="aB%_\\*?.[]^$é漢 ", min_size=1, max_size=8)


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(subject=names, patterns=st.lists(names, min_size=1, max_size=3))
@example(subject="a\\", patterns=["a\\*"])
def test_a_pattern_matches_as_a_glob_of_stars_and_question_marks_does(
    connection: Connection, subject: str, patterns: list[str]
) -> None:
    row = connection.execute(
        "select disarray.matches_pattern(%s, %s::text[])", (subject, patterns)
    ).fetchone()
    assert row == (any(_glob(pattern).fullmatch(subject) for pattern in patterns),)


def _glob(pattern: str) -> re.Pattern[str]:
    parts = {"*": ".*", "?": "."}
    return re.compile("".join(parts.get(character, re.escape(character)) for character in pattern), re.DOTALL)


def test_a_subject_that_matches_nobody_is_reported_and_waits(connection: Connection) -> None:
    enqueue_one_of_each(connection, "TOOL01", "LOST-1", "LOST-2")
    holder = instances.register_instance(connection, "Worker01", subject_patterns=["TOOL*"])
    assert served_by(connection, holder) == {"TOOL01"}
    assert status.queue_status(connection)["unserved_subjects"] == ["LOST-1", "LOST-2"]
    second = instances.register_instance(connection, "Worker02", subject_patterns=["LOST-1"])
    assert status.queue_status(connection)["unserved_subjects"] == ["LOST-2"]
    assert served_by(connection, second) == {"LOST-1"}


def test_a_command_is_no_worker_and_serves_nothing(connection: Connection) -> None:
    """It ends, and must not look like a worker that fell silent, or like one that serves what nobody does."""
    instances.register_instance(connection, "Worker01", subject_patterns=["TOOL*"])
    enqueue_one_of_each(connection, "LOST-1")
    instances.register_command(connection, "backfill job 1")
    assert [each.instance_name for each in instances.list_instances(connection)] == ["Worker01"]
    assert status.queue_status(connection)["unserved_subjects"] == ["LOST-1"]
    connection.execute("update disarray.instance set last_seen_at = last_seen_at - interval '90 days'")
    housekeeping.forget_history(connection, keep=timedelta(days=30), keep_fragments=timedelta(days=30))
    left = connection.execute("select instance_name from disarray.instance").fetchall()
    assert left == [("Worker01",)]


def test_a_subject_whose_only_item_was_taken_away_is_no_longer_reported(connection: Connection) -> None:
    files.enqueue_file(connection, "file:///a", "LOST")
    assert status.queue_status(connection)["unserved_subjects"] == ["LOST"]
    blacklist.blacklist_file(connection, "file:///a", "LOST", reason="broken", by="alice")
    assert status.queue_status(connection)["unserved_subjects"] == []


def test_a_first_claim_by_name_alone_registers_the_instance(connection: Connection) -> None:
    files.enqueue_file(connection, "file:///a", "TOOL01")
    rows = connection.execute("select source_uri from disarray.fetch_items('Worker01')").fetchall()
    assert rows == [("file:///a",)]
    [known] = instances.list_instances(connection)
    assert (known.instance_name, known.held_subjects, known.claimed_items) == ("Worker01", 1, 1)


def test_a_former_life_can_claim_and_renew_nothing(connection: Connection) -> None:
    former = instances.register_instance(connection, "Worker01")
    instances.register_instance(connection, "Worker01")
    attempts: list[Callable[[], object]] = [
        lambda: claims.fetch_items(connection, former),
        lambda: claim_ends.renew_subjects(connection, ["TOOL01"], former, lease_seconds=60),
        lambda: claim_ends.return_unknown_claims(connection, [], former),
    ]
    for attempt in attempts:
        with pytest.raises(StaleIncarnationError, match="Stop this process"):
            attempt()


DECISION = {"reason": "the share is moved", "by": "alice"}


def test_a_paused_instance_claims_nothing_also_after_a_restart_until_it_is_resumed(
    connection: Connection,
) -> None:
    enqueue_one_of_each(connection, "TOOL01", "TOOL02")
    holder = instances.register_instance(connection, "Worker01")
    instances.pause_instance(connection, "Worker01", **DECISION)
    assert served_by(connection, holder) == set()
    assert instances.instance_state(connection, "Worker01") is InstanceState.PAUSED
    again = instances.register_instance(connection, "Worker01")
    assert served_by(connection, again) == set()
    instances.resume_instance(connection, "Worker01", **DECISION)
    assert instances.instance_state(connection, "Worker01") is InstanceState.ACTIVE
    assert served_by(connection, again) == {"TOOL01", "TOOL02"}


def test_a_draining_instance_finishes_what_it_holds_and_its_next_life_claims_again(
    connection: Connection,
) -> None:
    enqueue_one_of_each(connection, "TOOL01", "TOOL02")
    holder = instances.register_instance(connection, "Worker01")
    [item] = claims.fetch_items(connection, holder, claims.FetchPolicy(limit=1))
    instances.drain_instance(connection, "Worker01", **DECISION)
    assert served_by(connection, holder) == set()
    assert claim_ends.renew_subjects(connection, [item.subject_key], holder, lease_seconds=60) == [
        item.subject_key
    ]
    [known] = instances.list_instances(connection)
    assert (known.state, known.claimed_items) == (InstanceState.DRAINING, 1)
    claim_ends.complete_item(connection, item.queue_id, holder)
    assert served_by(connection, holder) == set()
    # Nothing of it runs any more: the subject is free for others at once, not when the lease ends.
    assert [known.held_subjects for known in instances.list_instances(connection)] == [0]
    again = instances.register_instance(connection, "Worker01")
    assert instances.instance_state(connection, "Worker01") is InstanceState.ACTIVE
    assert len(served_by(connection, again)) == 1


def test_others_serve_what_a_paused_instance_leaves(connection: Connection) -> None:
    enqueue_one_of_each(connection, "TOOL01", "TOOL01")
    holder = instances.register_instance(connection, "Worker01")
    [item] = claims.fetch_items(connection, holder, claims.FetchPolicy(limit=1))
    instances.pause_instance(connection, "Worker01", **DECISION)
    other = instances.register_instance(connection, "Worker02")
    assert served_by(connection, other) == set()
    claim_ends.complete_item(connection, item.queue_id, holder)
    assert served_by(connection, holder) == set()
    assert served_by(connection, other) == {"TOOL01"}


def test_who_paused_an_instance_and_why_is_written_down(connection: Connection) -> None:
    instances.register_instance(connection, "Worker01")
    instances.pause_instance(connection, "Worker01", **DECISION)
    instances.drain_instance(connection, "Worker01", **DECISION)
    instances.resume_instance(connection, "Worker01", **DECISION)
    noted = events.list_events(connection, since=datetime.now(UTC) - timedelta(hours=1))
    told = [(event.event_type, event.metadata) for event in noted if event.metadata.get("by")]
    decided = DECISION | {"role": connection.info.user}
    assert told == [(kind, decided) for kind in ("instance_resumed", "instance_draining", "instance_paused")]


@pytest.mark.parametrize(
    "change", [instances.pause_instance, instances.drain_instance, instances.resume_instance]
)
def test_only_a_known_instance_is_paused_and_only_with_a_reason(
    connection: Connection, change: Callable[..., None]
) -> None:
    with pytest.raises(UnknownInstanceError, match="disarray workers list"):
        change(connection, "Nobody", **DECISION)
    instances.register_instance(connection, "Worker01")
    with pytest.raises(InvalidRequestError):
        change(connection, "Worker01", reason=" ", by="alice")
    assert instances.instance_state(connection, "Nobody") is None
