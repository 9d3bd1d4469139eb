"""What goes over the wire, and all that is turned away before it is believed."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disarray.broker.messages import (
    MAX_FILES,
    MAX_MESSAGE_BYTES,
    check_notification,
    decode_message,
    encode_messages,
)
from disarray.broker.transport import Announcement
from disarray.errors import BadMessageError
from disarray.model.notification import RESERVED_KEYS, Notification, Reason

FILE: dict[str, Any] = {
    "id": "a:1",
    "uri": "file:///data/a.csv",
    "subject": "TOOL07",
    "reason": "file_notification",
    "metadata": {"content_hash": "00ff", "size": 12},
}

printable = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=40)
metadata = st.dictionaries(
    printable.filter(lambda key: key not in RESERVED_KEYS),
    printable | st.integers(-(2**63), 2**63 - 1) | st.booleans(),
    max_size=4,
)
notifications = st.builds(
    Notification,
    source_uri=printable.map("share:".__add__),
    subject_key=printable,
    reason=st.sampled_from([Reason.FILE_NOTIFICATION, Reason.QUIET]),
    metadata=metadata,
)


def message(**changes: Any) -> bytes:
    return json.dumps({"version": 1, "files": [FILE | changes]}).encode()


@given(st.lists(notifications, max_size=250))
def test_what_is_packed_comes_out_again_in_order_and_within_the_caps(several: list[Notification]) -> None:
    announcements = [Announcement(f"a:{number}", each) for number, each in enumerate(several)]
    packed = list(encode_messages(announcements))
    assert [each for group, _ in packed for each in group] == announcements
    assert [each for _, body in packed for each in decode_message(body)] == announcements
    assert all(len(body) <= MAX_MESSAGE_BYTES and len(group) <= MAX_FILES for group, body in packed)


def test_large_notifications_are_spread_over_several_messages() -> None:
    large = Notification("file:///" + "u" * 2_000, "TOOL07", metadata={"note": "n" * 3_900})
    packed = list(encode_messages([Announcement(f"a:{number}", large) for number in range(30)]))
    assert len(packed) == 3
    assert sum(len(decode_message(body)) for _, body in packed) == 30


BAD_MESSAGES = [
    pytest.param(b"x" * (MAX_MESSAGE_BYTES + 1), "65537 bytes", id="too large"),
    pytest.param(b"\xff{}", "not UTF-8 at byte 0", id="not UTF-8"),
    pytest.param(b"[" * 60_000, "nested more than 8", id="60,000 levels"),
    pytest.param(message(metadata={"a": [[[[[1]]]]]}), "nested more than 8", id="nine levels"),
    pytest.param(b"", "not JSON", id="empty"),
    pytest.param(b"[]", "must be an object", id="a list"),
    pytest.param(message()[:-1], "not JSON", id="cut off"),
    pytest.param(message() + b"{}", "not JSON", id="something behind it"),
    pytest.param(message(metadata={"x": float("nan")}), "NaN is no JSON", id="NaN"),
    pytest.param(message(metadata={"x": float("inf")}), "Infinity is no JSON", id="Infinity"),
    pytest.param(message().replace(b"12", b"1e999"), "a number beyond", id="1e999"),
    pytest.param(message().replace(b"12", b"1e-300"), "a number beyond", id="300 digits once written out"),
    pytest.param(message().replace(b"12", b"9" * 5_000), "beyond 64 bits", id="5,000 digits"),
    pytest.param(message().replace(b"12", str(2**63).encode()), "beyond 64 bits", id="2**63"),
    pytest.param(message().replace(b'"size"', b'"content_hash"'), "a key twice", id="duplicate key"),
    pytest.param(message(metadata={"x": "\ud800"}), "lone surrogate", id="lone surrogate"),
    pytest.param(message(metadata={"\udc00": 1}), "lone surrogate", id="lone surrogate in a key"),
    pytest.param(message(uri="file:///\udfff"), "lone surrogate", id="lone surrogate in the uri"),
    pytest.param(message(metadata={"x": "a\0b"}), "NUL", id="NUL in metadata"),
    pytest.param(message(uri="file:///a\0b"), "control characters", id="NUL in the uri"),
    pytest.param(message(subject="TOOL\n07"), "control characters", id="newline in the subject"),
    pytest.param(message(subject=""), "1 to 256 bytes", id="empty subject"),
    pytest.param(message(subject="µ" * 129), "1 to 256 bytes", id="long subject"),
    pytest.param(message(uri="u" * 2_049), "1 to 2048 bytes", id="long uri"),
    pytest.param(message(uri="subject:TOOL07"), "'subject:'", id="a subject for a file"),
    pytest.param(message(reason="remove"), "reason must be one of", id="a reason not for agents"),
    pytest.param(message(reason=None), "reason must be a text", id="reason null"),
    pytest.param(message(id="a b"), "id must have", id="bad id"),
    pytest.param(message(metadata=[]), "metadata must be an object", id="metadata a list"),
    pytest.param(message(metadata={"x": "y" * 4_096}), "more than 4096 bytes", id="large metadata"),
    pytest.param(message(extra=1), "exactly the keys", id="unknown key"),
    pytest.param(b'{"version":1,"files":[]}', "1 to 100", id="no files"),
    pytest.param(b'{"version":2,"files":[]}', "version 2", id="another version"),
    pytest.param(b'{"version":true,"files":[]}', "version True", id="true is not 1"),
    pytest.param(b'{"version":1.0,"files":[]}', "version 1.0", id="1.0 is not 1"),
    pytest.param(b'{"version":1,"files":["a"]}', "files[0] must be an object", id="a text for a file"),
    pytest.param(b'{"version":1}', "exactly the keys", id="no files at all"),
    *(
        pytest.param(
            message(metadata={key: ["release"]}), f"'{key}': it is the server's", id=f"metadata.{key}"
        )
        for key in sorted(RESERVED_KEYS)
    ),
]


@pytest.mark.parametrize(("body", "complaint"), BAD_MESSAGES)
def test_a_bad_message_is_refused_with_its_reason(body: bytes, complaint: str) -> None:
    with pytest.raises(BadMessageError) as refused:
        decode_message(body)
    assert complaint in str(refused.value)
    assert len(str(refused.value)) < 500


@given(
    st.binary(max_size=300)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_are_a_message_or_are_refused(body: bytes) -> None:
    with contextlib.suppress(BadMessageError):
        assert decode_message(body)


def test_a_sender_is_told_before_anything_is_sent() -> None:
    with pytest.raises(BadMessageError, match="not plain JSON"):
        check_notification(Notification("file:///a", "TOOL07", metadata={"x": float("nan")}))
