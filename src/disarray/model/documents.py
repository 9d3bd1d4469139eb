"""Answers as JSON knows them: what the command line prints with --json and what REST sends are the same document."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar

Document = TypeVar("Document")


def public_name(name: str) -> str:
    """The name in JSON of a field: `from_` is `from`."""
    return name.removesuffix("_")


def plain(value: Any) -> Any:
    """A value made of what JSON knows: dataclasses are objects, instants are texts in UTC."""
    if is_dataclass(value) and not isinstance(value, type):
        return {public_name(each.name): plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def document_of(kind: type[Document], record: object, **others: object) -> Document:
    """A document made of the fields of a record that have its names, and of what is given beside it."""
    names = [each.name for each in fields(kind) if each.name not in others]  # type: ignore[arg-type]
    return kind(**{name: getattr(record, name) for name in names}, **others)
