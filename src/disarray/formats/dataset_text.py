"""A `[[dataset]]` block as a person would write it, from what was guessed and surveyed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from disarray.formats.infer import name_and_unit
from disarray.model.duration import format_duration
from disarray.model.printable import visible_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import PurePath

    from disarray.formats.guess import Guess
    from disarray.formats.survey import Survey

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def dataset_table(
    found: Guess, path: PurePath, *, zone: str | None, seen: Survey | None
) -> dict[str, object]:
    """The block as a table: what TOML would give back. `seen` is None before anything was parsed."""
    stem = path.name.split(".")[0]
    suffix = path.name[len(stem) :]
    table: dict[str, object] = {
        "name": found.format if found.recognised else name_and_unit(stem, ())[0],
        "roots": [str(path.parent)],
        "files": [f"**/*{suffix}"],
        "format": found.format,
        "subject": _subject(found, suffix, seen),
        "zone": zone or "UTC",
    }
    if seen is not None:
        if seen.channel:
            table["channel"] = seen.channel
        if seen.key is not None:
            table["key"] = list(seen.key)
        table["segment"] = format_duration(seen.segment_us)
    if found.event_time:
        table["event_time"] = found.event_time
    if found.columns:
        table["columns"] = found.columns
    return table


def dataset_block(table: Mapping[str, object]) -> str:
    """The table as TOML text that loads without change."""
    lines = ["[[dataset]]"]
    tables = []
    for key, value in table.items():
        if isinstance(value, dict) and (key == "columns" or len(_inline(value)) > 90):
            tables.append((key, value))
        else:
            lines.append(f"{key} = {_inline(value)}")
    for key, value in tables:
        lines.extend(["", f"[dataset.{key}]"])
        lines.extend(f"{_key(inner)} = {_inline(part)}" for inner, part in value.items())
    return "\n".join(lines) + "\n"


def _subject(found: Guess, suffix: str, seen: Survey | None) -> dict[str, object]:
    if seen is not None and seen.subject is not None:
        return {"column": seen.subject}
    if found.subject_field:
        return {"preamble": found.subject_field}
    return {"file_name": f"^(?P<subject>[^.]+){re.escape(suffix)}$"}


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else json.dumps(key)


def _inline(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            # A regular expression reads better without doubled backslashes.
            literal = "\\" in value and "'" not in value and value.isprintable()
            return f"'{value}'" if literal else _quoted(value)
        case list() | tuple():
            return f"[{', '.join(map(_inline, value))}]"
        case dict():
            return "{ " + ", ".join(f"{_key(key)} = {_inline(part)}" for key, part in value.items()) + " }"
        case _:
            return repr(value)


def _quoted(text: str) -> str:
    """A basic TOML string; JSON's escapes are TOML's, but for pairs of surrogates and DEL."""
    return visible_json(json.dumps(text, ensure_ascii=False))
