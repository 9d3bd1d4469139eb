"""Lists in pages: each begins behind the last entry of the one before, whatever was added or taken away between."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar
from uuid import UUID

from disarray.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Row = TypeVar("Row")
Row_co = TypeVar("Row_co", covariant=True)

_LARGEST = 2**63 - 1


class _Read(Protocol[Row_co]):
    def __call__(self, *, after: Sequence[str] | None, limit: int) -> Sequence[Row_co]: ...


@dataclass(frozen=True)
class Order:
    """The order of a list: by which attributes of its records, and what type each has.

    Together they tell any two entries apart. An entry that stays as it is while pages are read is in exactly one of
    them; one that gets another place in the order may be in two.
    """

    name: str
    keys: dict[str, type[str | int | datetime | UUID]]

    def page(self, read: _Read[Row], *, after: str | None, limit: int) -> tuple[list[Row], str | None]:
        """The entries behind a cursor, at most `limit` of them, and the cursor of the next page; None at the end."""
        found = read(after=None if after is None else self._decode(after), limit=limit + 1)
        shown = list(found[:limit])
        return shown, self._encode(shown[-1]) if len(found) > limit else None

    def page_of(self, rows: Sequence[Row], *, after: str | None, limit: int) -> tuple[list[Row], str | None]:
        """The same of a short list that is there as a whole; its keys are texts."""

        def read(*, after: Sequence[str] | None, limit: int) -> Sequence[Row]:
            ordered = sorted(rows, key=self._key)
            return [row for row in ordered if after is None or self._key(row) > list(after)][:limit]

        return self.page(read, after=after, limit=limit)

    def _key(self, row: object) -> list[str]:
        return [_text(getattr(row, name)) for name in self.keys]

    def _encode(self, row: object) -> str:
        written = json.dumps([self.name, *self._key(row)], ensure_ascii=False, separators=(",", ":"))
        return base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")

    def _decode(self, cursor: str) -> list[str]:
        try:
            written = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
            name, *key = written
            if name != self.name:
                self._refuse(cursor)
            return [_READ[kind](text) for text, kind in zip(key, self.keys.values(), strict=True)]
        except (ValueError, TypeError, RecursionError):
            self._refuse(cursor)

    def _refuse(self, cursor: str) -> NoReturn:
        raise InvalidRequestError(
            f"after: {cursor[:100]!r} is no place in the list of {self.name}. Nothing was read; take it from "
            "'next' of the page before, or leave it out for the first page"
        ) from None


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _read_text(text: Any) -> str:
    if not isinstance(text, str) or "\0" in text:
        raise TypeError
    text.encode()  # half of a surrogate pair is no text
    return text


def _read_integer(text: Any) -> str:
    number = int(_read_text(text)[:20])
    if abs(number) > _LARGEST:
        raise ValueError
    return str(number)


def _read_instant(text: Any) -> str:
    instant = datetime.fromisoformat(_read_text(text))
    if instant.tzinfo is None:
        raise ValueError
    return instant.isoformat()


# Nobody but the server makes cursors, and anybody can send one: what reaches the database has the type of its column.
_READ: dict[type, Callable[[Any], str]] = {
    str: _read_text,
    int: _read_integer,
    datetime: _read_instant,
    UUID: lambda text: str(UUID(_read_text(text))),
}
