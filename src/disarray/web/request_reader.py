"""What a client sends, read strictly by the declared type: nothing is guessed, nothing unknown is passed over."""

from __future__ import annotations

import math
import re
from dataclasses import is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from disarray.errors import InvalidRequestError
from disarray.model.documents import public_name
from disarray.model.strict_json import read_strict
from disarray.web.problems import Misfit, Problem
from disarray.web.schema import About, members_of, undecorated, without_none

if TYPE_CHECKING:
    from collections.abc import Sequence

Asked = TypeVar("Asked")

# RFC 3339 with a zone: an instant that everybody reads alike. In a query a date is its midnight in UTC, as on the
# command line.
_INSTANT = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,6})?\d*([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_INTEGER = re.compile(r"-?(0|[1-9]\d{0,18})", re.ASCII)


ValuePath = tuple[str | int, ...]  # the way to a value: names and, in lists, numbers


class _MisfitError(Exception):
    def __init__(self, path: ValuePath, expected: str) -> None:
        super().__init__(path, expected)
        self.path = path
        self.expected = expected


def read_query(kind: type[Asked], given: Sequence[tuple[str, str]]) -> Asked:
    """The query parameters of a request as the dataclass that its route declares."""
    lists = {member.name for member in members_of(kind) if _is_list(member.type)}
    document: dict[str, Any] = {}
    for name, value in given:
        if name in lists:
            document.setdefault(name, []).append(value)
        elif name in document:
            raise _refusal(f"{name} is given twice")
        else:
            document[name] = value
    return _refusing(kind, document, from_text=True)


def _is_list(hint: Any) -> bool:
    plain, _ = undecorated(without_none(hint)[0])
    return get_origin(plain) is list


def read_body(kind: type[Asked], body: bytes) -> Asked:
    """The JSON body of a request as the dataclass that its route declares."""
    try:
        document = read_strict(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _refusal(f"the body is not JSON ({error})") from None
    return _refusing(kind, document, from_text=False)


def _refusal(what: str, *misfits: Misfit) -> Problem:
    detail = f"{what}. Nothing was done. See /api/v1/openapi.json."
    return Problem(400, "not as documented", detail, misfits=misfits)


def _refusing(kind: type[Asked], document: Any, *, from_text: bool) -> Asked:
    try:
        read: Asked = _read_members(kind, document, path=(), from_text=from_text)
    except _MisfitError as misfit:
        expected = f"expected {misfit.expected}"
        where = (
            Misfit(parameter=str(misfit.path[0]), detail=expected)
            if from_text
            else Misfit(pointer=_pointer(misfit.path), detail=expected)
        )
        raise _refusal(f"{_spelled(misfit.path) or 'the request'}: {expected}", where) from None
    return read


def _spelled(path: ValuePath) -> str:
    """A path as a person writes it: `source_uris[3]`."""
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).removeprefix(".")


def _pointer(path: ValuePath) -> str:
    return "#" + "".join("/" + str(each).replace("~", "~0").replace("/", "~1") for each in path)


def _read_members(kind: type[Any], document: Any, *, path: ValuePath, from_text: bool) -> Any:
    if not isinstance(document, dict):
        raise _MisfitError(path, "an object")
    members = {member.name: member for member in members_of(kind)}
    for name in document:
        if name not in members:
            raise _MisfitError((*path, name[:100]), f"no such name; there are {', '.join(members) or 'none'}")
    values = {}
    for field_name, member in zip(kind.__dataclass_fields__, members.values(), strict=True):
        inside = (*path, member.name)
        if member.name in document:
            values[field_name] = _read(member.type, document[member.name], member.about, inside, from_text)
        elif member.is_required:
            raise _MisfitError(inside, "a value; it is required")
        assert public_name(field_name) == member.name
    return kind(**values)


def _read(hint: Any, value: Any, about: About, path: ValuePath, from_text: bool) -> Any:
    plain, is_nullable = without_none(hint)
    plain, inner = undecorated(plain)
    about = about if inner == About() else inner
    if value is None and is_nullable and not from_text:
        return None
    if isinstance(plain, type) and is_dataclass(plain):
        return _read_members(plain, value, path=path, from_text=from_text)
    if get_origin(plain) is list:
        if not isinstance(value, list):
            raise _MisfitError(path, "a list")
        item, item_about = undecorated(get_args(plain)[0])
        _check_size(len(value), about, path, "entries")
        return [
            _read(item, each, item_about, (*path, number), from_text) for number, each in enumerate(value)
        ]
    return _read_simple(plain, value, about, path, from_text)


def _read_simple(plain: Any, value: Any, about: About, path: ValuePath, from_text: bool) -> Any:
    if plain is int:
        return _read_integer(value, about, path, from_text)
    if plain is bool:
        if from_text and value in ("true", "false"):
            return value == "true"
        if not isinstance(value, bool):
            raise _MisfitError(path, "true or false")
        return value
    if plain is float and not from_text:
        return _read_number(value, about, path)
    if not isinstance(value, str):
        raise _MisfitError(path, "a text")
    if plain is str:
        return _read_text(value, about, path)
    if plain is datetime:
        return _read_instant(value, path, takes_date=from_text)
    if isinstance(plain, type) and issubclass(plain, Enum):
        try:
            return plain(value)
        except ValueError:
            raise _MisfitError(path, f"one of {', '.join(each.value for each in plain)}") from None
    raise TypeError(f"{plain!r} cannot be read from a request")


def _read_integer(value: Any, about: About, path: ValuePath, from_text: bool) -> int:
    if from_text:
        if not _INTEGER.fullmatch(value):
            raise _MisfitError(path, "a whole number")
        value = int(value)
    elif isinstance(value, float) and value.is_integer():
        value = int(value)  # to JSON Schema 1.0 is an integer
    if isinstance(value, bool) or not isinstance(value, int):
        raise _MisfitError(path, "a whole number")
    if (about.minimum is not None and value < about.minimum) or (
        about.maximum is not None and value > about.maximum
    ):
        raise _MisfitError(path, f"{about.minimum} to {about.maximum}")
    return value


def _read_number(value: Any, about: About, path: ValuePath) -> float:
    # An integer may have more digits than a float has room for.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        raise _MisfitError(path, "a number")
    if (about.minimum is not None and value < about.minimum) or (
        about.maximum is not None and value > about.maximum
    ):
        raise _MisfitError(path, f"{about.minimum} to {about.maximum}")
    return float(value)


def _read_text(value: str, about: About, path: ValuePath) -> str:
    _check_size(len(value), about, path, "characters")
    if about.pattern is not None and re.search(about.pattern.replace("$", r"\Z"), value) is None:
        raise _MisfitError(path, f"a text like {about.pattern}")
    if any("\ud800" <= character <= "\udfff" or character == "\0" for character in value):
        raise _MisfitError(path, "valid Unicode without NUL")
    return value


def _check_size(size: int, about: About, path: ValuePath, what: str) -> None:
    if (about.min_length is not None and size < about.min_length) or (
        about.max_length is not None and size > about.max_length
    ):
        raise _MisfitError(path, f"{about.min_length or 0} to {about.max_length} {what}")


def _read_instant(value: str, path: ValuePath, *, takes_date: bool) -> datetime:
    is_date = takes_date and _DATE.fullmatch(value) is not None
    try:
        if not is_date and not _INSTANT.fullmatch(value):
            raise ValueError
        instant = datetime.fromisoformat(value.upper())
        return instant.replace(tzinfo=UTC) if is_date else instant.astimezone(UTC)
    except OverflowError:
        # The first hours of the year 1 and the last of the year 9999 can lie outside of them in UTC.
        raise InvalidRequestError(
            f"{_spelled(path)}: {value} is not within the years 1 to 9999 in UTC. Nothing was done."
        ) from None
    except ValueError:
        expected = "an instant such as 2026-10-02T08:00:00Z" + (" or 2026-10-02" if takes_date else "")
        raise _MisfitError(path, expected) from None
