"""Topics mean for the broker what globs mean for the control database."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disarray.broker.routing import MAX_KEY_BYTES, OVERLONG, binding_keys, routing_key
from disarray.broker.topology import declare_worker_queue

if TYPE_CHECKING:
    from disarray.broker.topology import Names

characters = st.sampled_from("AB01.#%-µ")
subjects = st.text(characters, min_size=1, max_size=8) | st.text(characters, min_size=60, max_size=250)
globs = st.text(characters | st.sampled_from("*?"), min_size=1, max_size=12) | st.text(
    characters | st.sampled_from("*?"), min_size=100, max_size=250
)


def topic_matches(binding: str, key: str) -> bool:
    """RabbitMQ's rule, written as a regular expression over words that each end in a dot."""
    parts = {"*": r"[^.]*\.", "#": r"(?:[^.]*\.)*"}
    pattern = "".join(parts.get(word) or re.escape(f"{word}.") for word in binding.split("."))
    return re.fullmatch(pattern, f"{key}.") is not None


def glob_matches(glob: str, subject: str) -> bool:
    parts = {"*": ".*", "?": "."}
    return (
        re.fullmatch("".join(parts.get(each) or re.escape(each) for each in glob), subject, re.DOTALL)
        is not None
    )


def test_a_subject_is_routed_character_by_character() -> None:
    assert routing_key("TOOL07") == "T.O.O.L.0.7"
    assert routing_key("a.b*#%") == "a.%2e.b.%2a.%23.%25"
    assert binding_keys(("TOOL0*", "CELL-??")) == (OVERLONG, "T.O.O.L.0.#", "C.E.L.L.-.*.*")


@given(globs, subjects)
def test_what_a_glob_takes_its_binding_takes(glob: str, subject: str) -> None:
    key = routing_key(subject)
    taken = any(topic_matches(binding, key) for binding in binding_keys((glob,)))
    assert taken or not glob_matches(glob, subject)
    assert all(len(binding.encode()) <= MAX_KEY_BYTES for binding in (key, *binding_keys((glob,))))


@given(
    st.text(characters | st.sampled_from("*?"), min_size=1, max_size=12),
    st.text(characters, min_size=1, max_size=8),
)
def test_of_ordinary_length_nothing_more_is_taken(glob: str, subject: str) -> None:
    [_, binding] = binding_keys((glob,))
    assert topic_matches(binding, routing_key(subject)) == glob_matches(glob, subject)


@pytest.mark.parametrize(
    ("glob", "subject", "expected"),
    [
        ("TOOL0*", "TOOL07", True),
        ("TOOL0*", "TOOL0", True),
        ("TOOL0*", "TOOL17", False),
        ("*7", "TOOL07", True),
        ("T*L*7", "TOOL07", True),
        ("CELL-??", "CELL-12", True),
        ("CELL-??", "CELL-123", False),
        ("a.b", "a.b", True),
        ("a.b", "axb", False),
        ("a#", "a#", True),
        ("a#", "ab", False),
        ("Z*", "x" * 200, True),
    ],
)
def test_the_broker_agrees(channel: Any, names: Names, glob: str, subject: str, expected: bool) -> None:
    queue = declare_worker_queue(channel, names, "Worker01", subject_patterns=(glob,))
    channel.confirm_delivery()
    channel.basic_publish(names.exchange, routing_key(subject), b"x")
    method, _, _ = channel.basic_get(queue, auto_ack=True)
    assert (method is not None) is expected


def test_former_patterns_are_unbound(channel: Any, names: Names) -> None:
    declare_worker_queue(channel, names, "Worker01", subject_patterns=("TOOL0*",))
    queue = declare_worker_queue(
        channel, names, "Worker01", subject_patterns=("TOOL1*",), former_patterns=("TOOL0*",)
    )
    channel.confirm_delivery()
    for subject in ("TOOL01", "TOOL11"):
        channel.basic_publish(names.exchange, routing_key(subject), subject.encode())
    assert channel.basic_get(queue, auto_ack=True)[2] == b"TOOL11"
    assert channel.basic_get(queue, auto_ack=True)[0] is None
