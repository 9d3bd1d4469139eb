"""Which instance serves which subject, and what is reported of those that nobody serves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from disarray.control import files, instances, queue, status
from disarray.control.files import Notification
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
    policy = queue.FetchPolicy(limit=100, max_subjects=100)
    return {item.subject_key for item in queue.fetch_items(connection, holder, policy)}


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


def test_a_subject_whose_only_item_was_taken_away_is_no_longer_reported(connection: Connection) -> None:
    files.enqueue_file(connection, "file:///a", "LOST")
    assert status.queue_status(connection)["unserved_subjects"] == ["LOST"]
    files.blacklist_file(connection, "file:///a", "LOST", reason="broken", by="alice")
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
        lambda: queue.fetch_items(connection, former),
        lambda: queue.renew_subjects(connection, ["TOOL01"], former, lease_seconds=60),
        lambda: queue.return_unknown_claims(connection, [], former),
    ]
    for attempt in attempts:
        with pytest.raises(StaleIncarnationError, match="Stop this process"):
            attempt()
