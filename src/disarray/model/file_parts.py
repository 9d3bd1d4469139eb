"""Files about several subjects: each is the parent of one part for each subject that a column of its lines names.

A part has no bytes of its own. It is its parent seen through that column, and its readings lie at the byte positions of
the parent. Its uri is that of the parent with the column and the subject behind it: among the parts of one subject,
uris are in the order of their parents.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from disarray.model.uris import file_path, file_uri

_PART = re.compile(r"(?P<parent>file://[^#]+)#(?P<column>[a-z][a-z0-9_]*)=(?P<subject>[^#]+)")
_SHOWN_NAME = 100
_MAX_URI_BYTES = 2048


@dataclass(frozen=True, slots=True)
class PartName:
    """What the uri of a part says."""

    parent_uri: str
    column: str
    subject_key: str


def part_uri(parent_uri: str, *, column: str, subject_key: str) -> str:
    """The uri of what a file says about one subject."""
    return f"{file_uri(file_path(parent_uri))}#{column}={quote(subject_key, safe='')}"


def is_part_too_long(uri: str) -> bool:
    """Whether the name of a part is longer than what a uri may be."""
    return len(uri.encode()) > _MAX_URI_BYTES


def part_name(source_uri: str) -> PartName | None:
    """What a uri is a part of; None where it is a file."""
    found = _PART.fullmatch(source_uri)
    return None if found is None else PartName(found["parent"], found["column"], unquote(found["subject"]))


def parent_subject(parent_uri: str, *, dataset: str, column: str) -> str:
    """The subject under whose lock a file is split: no readings are ever kept for it.

    One for each file name, so that files are split side by side. Files of one name in two folders share it, and then
    one waits for the other.
    """
    name = file_uri(file_path(parent_uri)).rpartition("/")[2]
    return f"{dataset}/{name[-_SHOWN_NAME:]}#{column}"
