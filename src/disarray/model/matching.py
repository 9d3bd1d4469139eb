"""Which dataset and subject a file belongs to, from its path alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, assert_never

from disarray.errors import DatasetOverlapError, SubjectMissingError
from disarray.model.delivery_paths import subject_in
from disarray.model.description.dataset import SubjectKind
from disarray.model.description.spec_table import MisfitError
from disarray.model.description.spec_values import subject_key
from disarray.model.file_parts import parent_subject, part_name
from disarray.model.uris import file_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.model.description.dataset import Dataset

_GLOB_PART = re.compile(r"(\*\*/|\*\*|\*|\?|\[!?[^\]/]+\])")
_GLOB_MEANING = {"**/": r"(?:[^/]+/)*", "**": r".+", "*": r"[^/]*", "?": r"[^/]"}


@dataclass(frozen=True, slots=True)
class Match:
    """A file's dataset, and its subject; None where only the preamble can tell (`subject_from_preamble`)."""

    dataset: Dataset
    subject: str | None


def match_file(uri: str, datasets: Sequence[Dataset]) -> Match | None:
    """The one dataset whose roots and globs take the file, or None; two that do are an error.

    A part belongs to the dataset of its parent, and names its subject itself.
    """
    found: list[tuple[Dataset, str]] = []
    path = _path_of(uri)
    for dataset in datasets:
        relative = _below_roots(path, dataset.roots)
        if relative is not None and any(_glob(pattern).fullmatch(relative) for pattern in dataset.files):
            found.append((dataset, relative))
    if not found:
        return None
    if len(found) > 1:
        names = " and ".join(f"'{dataset.name}'" for dataset, _ in found)
        raise DatasetOverlapError(
            f"{uri} matches the datasets {names}, so it was given to none; narrow 'files' or 'roots' of one"
        )
    dataset, relative = found[0]
    part = part_name(uri)
    if part is not None:
        return Match(dataset, part.subject_key)
    return Match(dataset, _subject(uri, dataset, relative))


def matches_glob(uri: str, roots: Sequence[str], glob: str) -> bool:
    """Whether one pattern of a dataset takes a file below its roots."""
    relative = _below_roots(_path_of(uri), roots)
    return relative is not None and _glob(glob).fullmatch(relative) is not None


def subject_of(uri: str, match: Match, fields: Mapping[str, str | None]) -> str:
    """The subject that a file is about: from its path, or from what its preamble says."""
    return match.subject or subject_from_preamble(uri, match.dataset, fields)


def subject_from_preamble(uri: str, dataset: Dataset, fields: Mapping[str, str | None]) -> str:
    """The subject named in the file's own preamble."""
    return _checked(uri, dataset, (fields.get(dataset.subject.text) or "").strip())


def _subject(uri: str, dataset: Dataset, relative: str) -> str | None:
    rule = dataset.subject
    match rule.kind:
        case SubjectKind.CONSTANT:
            return rule.text
        case SubjectKind.PREAMBLE:
            return None
        case SubjectKind.PATH:
            searched = re.search(rule.text, relative)
        case SubjectKind.DELIVERY:
            return _checked(uri, dataset, subject_in(relative))
        case SubjectKind.COLUMN:
            return parent_subject(uri, dataset=dataset.name, column=rule.text)
        case SubjectKind.FILE_NAME:
            searched = re.search(rule.text, relative.rpartition("/")[2])
        case _:
            assert_never(rule.kind)
    return _checked(uri, dataset, (searched["subject"] if searched else None) or "")


def _checked(uri: str, dataset: Dataset, subject: str) -> str:
    try:
        return subject_key(subject)
    except MisfitError as misfit:
        rule = dataset.subject
        raise SubjectMissingError(
            f"{uri} belongs to dataset '{dataset.name}', but its {rule.kind} rule {rule.text!r} gives "
            f"{subject[:60]!r} instead of {misfit.expected}; nothing was read. Mend the rule or the name"
        ) from None


def _path_of(uri: str) -> PurePath:
    return PurePath(file_path(uri))


def _below_roots(path: PurePath, roots: Sequence[str]) -> str | None:
    """The path below the first root that holds it, by name alone: links are looked at when the file is opened."""
    if ".." in path.parts or "\0" in str(path):
        return None
    for root in roots:
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return None


@lru_cache(maxsize=1024)
def _glob(pattern: str) -> re.Pattern[str]:
    """`*` and `?` stay inside a folder, `**` does not, `[a-z]` is one character."""
    parts = []
    for part in _GLOB_PART.split(pattern):
        if part in _GLOB_MEANING:
            parts.append(_GLOB_MEANING[part])
        elif part.startswith("[") and part.endswith("]") and len(part) > 2:
            inside = part[1:-1].replace("\\", r"\\").replace("^", r"\^")
            parts.append(f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]")
        else:
            parts.append(re.escape(part))
    return re.compile("".join(parts), re.DOTALL)
