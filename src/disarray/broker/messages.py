"""Messages between agent and worker: small JSON with a version, and nothing believed that was not checked.

Whoever can reach the broker can send anything, so size and depth are capped before parsing, and what PostgreSQL would
refuse is refused here: one bad notification would otherwise fail the whole batch that it came in.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NoReturn

from disarray.broker.transport import Announcement
from disarray.errors import BadMessageError
from disarray.model.notification import RESERVED_KEYS, Notification, Reason
from disarray.model.strict_json import TooDeepError, parts_of, read_strict
from disarray.model.uris import is_spelled_right

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VERSION = 1
MAX_MESSAGE_BYTES = 65_536
MAX_FILES = 100
MAX_DEPTH = 8
MAX_URI_BYTES = 2_048
MAX_SUBJECT_BYTES = 256
# jsonb writes numbers out (1e-15 becomes 17 characters); from this size they stay below the cap of the database.
MAX_METADATA_BYTES = 4_096
# Agents report what they see; what takes readings away or reads them again is an operator's to ask for.
ALLOWED_REASONS = (Reason.FILE_NOTIFICATION, Reason.QUIET)

_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# A text, ended or not, or a bracket. It never fails where it has begun to match, so no byte is looked at twice: a
# pattern that wants the closing quote starts over at each quote of a text that has none.
_TEXT_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.?)*+"?|[\[{\]}]', re.DOTALL)
_MESSAGE_KEYS = {"version", "files"}
_FILE_KEYS = {"id", "uri", "subject", "reason", "metadata"}


def encode_messages(
    announcements: Sequence[Announcement],
) -> Iterator[tuple[tuple[Announcement, ...], bytes]]:
    """Pack notifications of one subject, in order, into as few messages as the caps allow."""
    packed: list[Announcement] = []
    parts: list[str] = []
    room = MAX_MESSAGE_BYTES - len(_body([]))
    for announcement in announcements:
        part = _encode(announcement)
        size = len(part.encode()) + 1
        if packed and (size > room or len(packed) == MAX_FILES):
            yield tuple(packed), _body(parts)
            packed, parts, room = [], [], MAX_MESSAGE_BYTES - len(_body([]))
        packed.append(announcement)
        parts.append(part)
        room -= size
    if packed:
        yield tuple(packed), _body(parts)


def decode_message(body: bytes) -> tuple[Announcement, ...]:
    """The notifications of a message; `BadMessageError` says what is wrong with it."""
    if len(body) > MAX_MESSAGE_BYTES:
        _refuse(f"has {len(body)} bytes, at most {MAX_MESSAGE_BYTES} are taken")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        _refuse(f"is not UTF-8 at byte {error.start}")
    _check_depth(text)
    message = _parse(text)
    _check_keys(message, _MESSAGE_KEYS, "the message")
    # True equals 1 in Python, and so does 1.0.
    if type(message["version"]) is not int or message["version"] != VERSION:
        _refuse(f"is of version {str(message['version'])[:40]}; this program reads version {VERSION}")
    files = message["files"]
    if not isinstance(files, list) or not 1 <= len(files) <= MAX_FILES:
        _refuse(f"'files' must be a list of 1 to {MAX_FILES}")
    return tuple(_read_file(file, f"files[{index}]") for index, file in enumerate(files))


def check_notification(notification: Notification, *, where: str = "the notification") -> None:
    """Refuse what the queue would not take."""
    for name, value, limit in (
        ("uri", notification.source_uri, MAX_URI_BYTES),
        ("subject", notification.subject_key, MAX_SUBJECT_BYTES),
    ):
        if not 1 <= _byte_length(value, f"{where}.{name}") <= limit or _CONTROL.search(value):
            _refuse(f"{where}.{name} must have 1 to {limit} bytes and no control characters")
    if not is_spelled_right(notification.source_uri):
        _refuse(
            f"{where}.uri is not the one spelling of its path: file:// and the absolute path, nothing escaped in vain"
        )
    if notification.source_uri.startswith("subject:"):
        _refuse(f"{where}.uri must not begin with 'subject:'")
    if notification.reason not in ALLOWED_REASONS:
        _refuse(f"{where}.reason must be one of {', '.join(ALLOWED_REASONS)}")
    if reserved := sorted(RESERVED_KEYS & notification.metadata.keys()):
        _refuse(f"{where}.metadata must not have the key '{reserved[0]}': it is the server's")
    try:
        for text in parts_of(notification.metadata, most_levels=MAX_DEPTH):
            if isinstance(text, str) and _byte_length(text, f"{where}.metadata") and "\0" in text:
                _refuse(f"{where}.metadata contains a NUL character")
    except TooDeepError:
        _refuse(f"has metadata nested more than {MAX_DEPTH} levels deep")
    try:
        written = json.dumps(notification.metadata, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        _refuse(f"{where}.metadata is not plain JSON ({error})")
    if len(written.encode()) > MAX_METADATA_BYTES:
        _refuse(f"{where}.metadata has more than {MAX_METADATA_BYTES} bytes")


def _encode(announcement: Announcement) -> str:
    notification = announcement.notification
    check_notification(notification)
    return json.dumps(
        {
            "id": announcement.id,
            "uri": notification.source_uri,
            "subject": notification.subject_key,
            "reason": notification.reason,
            "metadata": notification.metadata,
        },
        allow_nan=False,
        ensure_ascii=False,
        separators=(",", ":"),
    )


def _body(parts: Sequence[str]) -> bytes:
    return f'{{"version":{VERSION},"files":[{",".join(parts)}]}}'.encode()


def _read_file(value: object, where: str) -> Announcement:
    file = _check_keys(value, _FILE_KEYS, where)
    for key in _FILE_KEYS - {"metadata"}:
        if not isinstance(file[key], str):
            _refuse(f"{where}.{key} must be a text")
    if not _ID.fullmatch(file["id"]):
        _refuse(f"{where}.id must have 1 to 64 letters, digits and _ . : -")
    if file["reason"] not in ALLOWED_REASONS:
        _refuse(f"{where}.reason must be one of {', '.join(ALLOWED_REASONS)}")
    if not isinstance(file["metadata"], dict):
        _refuse(f"{where}.metadata must be an object")
    notification = Notification(file["uri"], file["subject"], Reason(file["reason"]), file["metadata"])
    check_notification(notification, where=where)
    return Announcement(file["id"], notification)


def _check_keys(value: object, expected: set[str], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        _refuse(f"{where} must be an object")
    if value.keys() != expected:
        different = ", ".join(sorted(repr(key)[:40] for key in value.keys() ^ expected)[:5])
        _refuse(f"{where} must have exactly the keys {', '.join(sorted(expected))}; differing: {different}")
    return value


def _check_depth(text: str) -> None:
    """Count brackets outside of texts: the parser itself recurses as deep as the sender likes."""
    depth = 0
    for found in _TEXT_OR_BRACKET.finditer(text):
        sign = text[found.start()]
        if sign in "[{":
            depth += 1
        elif sign in "]}":
            depth -= 1
        if depth > MAX_DEPTH:
            _refuse(f"is nested more than {MAX_DEPTH} levels deep")


def _parse(text: str) -> Any:
    try:
        return read_strict(text, parse_int=_bounded_int, parse_float=_bounded_float)
    except ValueError as error:
        _refuse(f"is not JSON: {error}")


def _bounded_int(digits: str) -> int:
    if len(digits) > 20 or not -(1 << 63) <= (value := int(digits)) < 1 << 63:
        _refuse("contains an integer beyond 64 bits")
    return value


def _bounded_float(digits: str) -> float:
    value = float(digits)
    if value and not 1e-15 <= abs(value) < 1 << 63:
        _refuse("contains a number beyond 1e-15 … 9.2e18")
    return value


def _byte_length(text: str, where: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        _refuse(f"{where} contains a lone surrogate")


def _refuse(complaint: str) -> NoReturn:
    raise BadMessageError(f"{complaint}. Nothing of it was queued.")
