"""Versions of a dataset: a change that matters is always seen, one that does not never costs a rebuild."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass, replace
from datetime import time
from enum import Enum
from typing import TYPE_CHECKING

from disarray.model.description.conflict_rule import BY_PATH
from disarray.model.expression.canonical_text import canonical_text
from disarray.model.expression.tree import Binary, Call, Case, ColumnRef, IsNull, Literal, Negate, Not

if TYPE_CHECKING:
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.metrics import Metric
    from disarray.model.description.rollups import Rollup

# Raised when the code reads or folds the same description differently: stored readings are then made anew.
PARSE_RULES = 1
SCAN_RULES = 1

# For people, or about how a table holds a column: they change no bit of a reading or a result.
_CHANGE_NO_BIT = frozenset({"title", "unit", "description", "is_dimension"})
_EXPRESSIONS = (Literal, ColumnRef, Negate, Not, IsNull, Binary, Call, Case)


def with_versions(dataset: Dataset) -> Dataset:
    """The dataset with the hashes of what it says about parsing and about scanning."""
    return replace(dataset, parse_version=parse_version(dataset), scan_version=scan_version(dataset))


def parse_version(dataset: Dataset) -> str:
    """Changes exactly when files have to be read again."""
    return _digest({"rules": PARSE_RULES, **_parsing(dataset)})


def scan_version(dataset: Dataset) -> str:
    """Changes exactly when fragments have to be scanned again, beyond what reading again would bring."""
    return _digest(
        {
            "rules": SCAN_RULES,
            "key": _plain(dataset.key),
            # As it was before there were rules, so that datasets without one are not scanned again.
            "priority": 0,
            **({} if dataset.conflict == BY_PATH else {"conflict": _plain(dataset.conflict)}),
            "attribute_types": _plain(dataset.attribute_types),
            "attributes": _plain(dataset.attributes),
            "metrics": {metric.name: _plain(metric) for metric in dataset.metrics},
            "rollups": {rollup.name: _plain(rollup) for rollup in dataset.rollups},
        }
    )


def changed_parts(before: Dataset, after: Dataset) -> tuple[str, ...]:
    """What makes two definitions of a dataset different, in words."""
    changes = []
    if before.parse_version != after.parse_version:
        names = _differing_keys(_parsing(before), _parsing(after)) or ["the rules of the program"]
        changes += [f"parsing: {name} changed" for name in names]
    scanning = [
        *_named_changes("metric", before.metrics, after.metrics),
        *_named_changes("rollup", before.rollups, after.rollups),
        *(
            f"{name} changed"
            for name in ("key", "conflict", "attributes")
            if _plain(getattr(before, name)) != _plain(getattr(after, name))
        ),
    ]
    if before.scan_version != after.scan_version:
        changes += scanning or ["scanning: the rules of the program changed"]
    return tuple(changes)


def unchanged_names(before: tuple[Metric | Rollup, ...], after: tuple[Metric | Rollup, ...]) -> list[str]:
    """Metrics, or rollups, whose numbers mean the same under both definitions."""
    old = {each.name: _plain(each) for each in before}
    return [each.name for each in after if old.get(each.name) == _plain(each)]


def _named_changes(
    kind: str, before: tuple[Metric | Rollup, ...], after: tuple[Metric | Rollup, ...]
) -> list[str]:
    same = unchanged_names(before, after)
    old, new = [each.name for each in before], [each.name for each in after]
    return [
        *(f"{kind} {name} is new" for name in new if name not in old),
        *(f"{kind} {name} changed" for name in new if name in old and name not in same),
        *(f"{kind} {name} is gone" for name in old if name not in new),
    ]


def _parsing(dataset: Dataset) -> dict[str, object]:
    described = _plain(dataset.format)
    assert isinstance(described, dict)
    del described["name"], described["reread_whole"]
    return {
        "format": described,
        "subject": _plain(dataset.subject),
        "channel": dataset.channel,
        "order_by": list(dataset.order_by),  # fragments are stored in order
        "segment_us": dataset.segment_length_us,
        "future_tolerance_us": dataset.future_tolerance_us,
        "reject_limits": _plain(dataset.reject_limits),
    }


def _differing_keys(before: dict[str, object], after: dict[str, object]) -> list[str]:
    found = []
    for key, old in before.items():
        new = after.get(key)
        if isinstance(old, dict) and isinstance(new, dict) and key == "format":
            found += [part for part in sorted({*old, *new}) if old.get(part) != new.get(part)]
        elif old != new:
            found.append(key.removesuffix("_us").replace("_", " "))
    return found


def _plain(value: object) -> object:
    """JSON of a value; field by field, so that the order of keys in a TOML file leaves no trace."""
    if isinstance(value, _EXPRESSIONS):
        return canonical_text(value)
    if is_dataclass(value):
        own = {field.name: getattr(value, field.name) for field in fields(value)}
        return {key: _plain(part) for key, part in own.items() if key not in _CHANGE_NO_BIT}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, time):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        parts = [_plain(part) for part in value]
        named = all(isinstance(part, dict) and "name" in part for part in parts)
        return sorted(parts, key=lambda part: json.dumps(part, sort_keys=True)) if named else parts
    assert value is None or isinstance(value, str | int | float)
    return value


def _digest(parts: dict[str, object]) -> str:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]
