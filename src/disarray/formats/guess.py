"""A first dataset description from a look at a file: which instrument, or else which columns and stamps."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from disarray.errors import ConfigError
from disarray.formats.infer import (
    clock_layouts,
    column_type,
    date_layouts,
    epoch_layout,
    filled,
    has_offset,
    name_and_unit,
    names_time,
    stamp_fits,
    time_layouts,
)
from disarray.formats.sniff import NULL_WORDS, Sniffed, decode_head, is_number, sniff, split_line
from disarray.model.description.format import ColumnType, FileKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from disarray.formats.loader import Description
    from disarray.model.description.format import Format

_SUBJECT_FIELDS = ("serial", "barcode", "battery", "device")
_MOST_LINES = 5_000
_MOST_MISSING = 2
_NAMED_COLUMNS = 5


@dataclass(slots=True)
class Guess:
    """Parts of a `[[dataset]]` table, and in words what they rest on and what a person should check."""

    format: str | dict[str, object]
    event_time: dict[str, object] = field(default_factory=dict)
    columns: dict[str, dict[str, object]] = field(default_factory=dict)
    subject_field: str = ""
    local_time: bool = True  # the stamps do not say their zone
    recognised: bool = False
    reasons: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)


def guess(head: bytes, known: Mapping[str, Description]) -> Guess:
    """The best description of a text file, given its first bytes; ConfigError where nothing fits."""
    _, lines = decode_head(head)
    if not any(line.strip() for line in lines):
        raise ConfigError("the file is empty, so nothing can be learnt from it; try one with readings")
    recognised = recognise(head, known)
    if recognised is not None:
        return recognised
    found = _guess_jsonl(lines) or _guess_delimited(head)
    found.checks = [*near_misses(lines, known), *found.checks]
    return found


def near_misses(lines: Sequence[str], known: Mapping[str, Description]) -> list[str]:
    """The descriptions that would fit but for a column or two: an instrument that was set up another way, perhaps."""
    misses: list[tuple[int, str]] = []
    for name, description in known.items():
        described = description.format
        if described.kind is not FileKind.DELIMITED or not described.columns or described.event_time is None:
            continue
        header = header_of(lines[:_MOST_LINES], described)
        if header is None:
            continue
        needed = [column for column in described.columns if column.origin == "cell" and column.required]
        missing = [
            f"the time {source}" for source in described.event_time.sources if source.locate(header) is None
        ]
        missing += [f"{column.source}" for column in needed if column.in_header(header) is None]
        if 0 < len(missing) <= _MOST_MISSING < len(needed) + len(described.event_time.sources):
            sentence = (
                f"this is '{name}' ({described.title}) but for {' and '.join(missing)}: if it is that instrument, "
                f"begin with its description (disarray formats show {name})"
            )
            misses.append((len(missing), sentence))
    return [sentence for _, sentence in sorted(misses)][:2]


def recognise(head: bytes, known: Mapping[str, Description]) -> Guess | None:
    """The description whose header and columns fit best, if one fits."""
    scored = [(score_of(head, description.format), name) for name, description in known.items()]
    best, name = max(scored, default=(0.0, ""))
    if best <= 0:
        return None
    described = known[name].format
    _, lines = decode_head(head)
    present = [each.name for each in described.preamble.fields if _first_match(each.pattern, lines)]
    event_time = described.event_time
    return Guess(
        format=name,
        subject_field=next((each for each in _SUBJECT_FIELDS if each in present), ""),
        local_time=event_time is not None and event_time.zone is None,
        recognised=True,
        reasons=[f"the header is that of '{name}' ({described.title}); {best:.0%} of its columns are there"],
    )


def score_of(head: bytes, described: Format) -> float:
    """How well a file fits a description: the share of its columns found, 0 where it cannot be read so."""
    if described.kind is not FileKind.DELIMITED or not described.columns or described.event_time is None:
        return 0.0
    _, lines = decode_head(head)
    header = header_of(lines[:_MOST_LINES], described)
    if header is None or any(source.locate(header) is None for source in described.event_time.sources):
        return 0.0
    cells = [column for column in described.columns if column.origin == "cell"]
    found = [column for column in cells if column.in_header(header) is not None]
    if any(column.required and column not in found for column in cells):
        return 0.0
    return len(found) / len(cells)


def header_of(lines: Sequence[str], described: Format) -> tuple[str, ...] | None:
    """The cells of the header line where the description expects it."""
    rule = described.header
    if rule.names:
        return rule.names if _fits_without_header(lines, described) else None
    if rule.pattern:
        candidates = [line for line in lines if re.search(rule.pattern, line)][:1]
    else:
        at = rule.line - 1 if rule.line else (described.preamble.lines or 0)
        candidates = list(lines[at : at + 1])
    return split_line(candidates[0], described.delimiter) if candidates else None


def _fits_without_header(lines: Sequence[str], described: Format) -> bool:
    """Whether the first row has as many cells as there are names, and a stamp where one belongs."""
    first = next((line for line in lines[described.preamble.lines or 0 :] if line), "")
    cells = split_line(first, described.delimiter)
    if len(cells) != len(described.header.names) or described.event_time is None:
        return False
    places = [source.locate(described.header.names) for source in described.event_time.sources]
    stamp = " ".join(cells[at] for at in places if at is not None)
    return any(stamp_fits(stamp, layout) for layout in described.event_time.layouts)


def _first_match(pattern: str, lines: Sequence[str]) -> bool:
    return any(re.search(pattern, line) for line in lines[:_MOST_LINES])


def _guess_jsonl(lines: Sequence[str]) -> Guess | None:
    rows: list[dict[str, str]] = []
    for line in [line for line in lines if line.strip()][:_MOST_LINES]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, dict):
            return None
        rows.append(dict(_flattened(value)))
    if not rows:
        return None
    keys = list(dict.fromkeys(key for row in rows for key in row))
    table = tuple(tuple(row.get(key, "") for key in keys) for row in rows)
    found = Guess(format="jsonl", reasons=["every line is a JSON object"])
    _fill(found, tuple(keys), table)
    return found


def _flattened(value: Mapping[str, object], prefix: str = "") -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for key, inner in value.items():
        if isinstance(inner, dict) and len(prefix) < 200:
            pairs.extend(_flattened(inner, f"{prefix}{key}."))
        elif not isinstance(inner, list | dict):
            text = inner if isinstance(inner, str) else json.dumps(inner)
            pairs.append((f"{prefix}{key}", "" if inner is None else text))
    return pairs


def _guess_delimited(head: bytes) -> Guess:
    sniffed = sniff(head)
    if sniffed is None or not sniffed.rows:
        raise ConfigError(
            "no delimiter makes a table of this text; describe it by hand (docs/adding-an-instrument.md)"
        )
    found = Guess(format=_format_of(sniffed))
    if sniffed.thousands:
        found.checks.append(
            f"digits are grouped by {sniffed.thousands!r}: 1{sniffed.thousands}234 is read as 1234 everywhere"
        )
    names = {"\t": "tabs", ";": "semicolons", ",": "commas", "|": "bars"}
    found.reasons.append(f"{names[sniffed.delimiter]} make {len(sniffed.header)} columns")
    if sniffed.header_line is None:
        found.checks.append("no line names the cells; give them names in format.header.names and columns")
    elif sniffed.header_line > 1:
        found.reasons.append(f"the header is line {sniffed.header_line}; the lines before it are a preamble")
    _fill(found, sniffed.header, sniffed.rows)
    return found


def _format_of(sniffed: Sniffed) -> str | dict[str, object]:
    base = "tsv" if sniffed.delimiter == "\t" else "csv"
    own: dict[str, object] = {"like": base}
    if sniffed.delimiter not in ("\t", ","):
        own["delimiter"] = sniffed.delimiter
    if sniffed.decimal != ".":
        own["decimal"] = sniffed.decimal
    if sniffed.thousands:
        own["thousands"] = sniffed.thousands
    if sniffed.encodings != ("utf-8",):
        own["encodings"] = list(sniffed.encodings)
    tokens = sorted({cell for row in sniffed.rows for cell in row} & NULL_WORDS)
    if tokens:
        own["null_tokens"] = tokens
    header: dict[str, object] = {}
    if sniffed.header_line is None:
        header["names"] = list(sniffed.header)
    elif sniffed.header_line > 1:
        header["line"] = sniffed.header_line
    if sniffed.units_row:
        header["units_row"] = True
    if header:
        own["header"] = header
    return own if len(own) > 1 else base


def _fill(found: Guess, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Event time and columns from the cells that were seen."""
    places = {name: header.index(name) for name in header if name}
    cells = {name: [row[at] for row in rows] for name, at in places.items()}
    times = _event_time(found, cells)
    repeated = sorted({name for name in header if name and header.count(name) > 1})
    if repeated:
        found.checks.append(
            f"several columns are headed {', '.join(repeated)}; only the first of each is read"
        )
    stamps: list[str] = []
    empty: list[str] = []
    odd: dict[str, list[str]] = {}
    for name in cells:
        if name in times:
            continue
        own_name, unit = name_and_unit(name, found.columns)
        layouts = time_layouts(cells[name])
        column: dict[str, object] = {"type": str(column_type(cells[name]))}
        if layouts:
            column = {"type": str(ColumnType.TIMESTAMP), "layouts": layouts[0]}
            stamps.append(name)
        if own_name != name:
            column = {"from": name, **column}
        if unit:
            column["unit"] = unit
        if misfits := _odd_cells(cells[name], column["type"]):
            odd[name] = misfits
        if not filled(cells[name]):
            empty.append(name)
        found.columns[own_name] = column
    if stamps:
        found.checks.append(which_stamp(stamps, times[0]))
    if odd:
        texts = list(dict.fromkeys(text for misfits in odd.values() for text in misfits))
        found.checks.append(
            f"{names_of(odd)} {'holds' if len(odd) == 1 else 'hold'} numbers but for {sum(map(len, odd.values()))} "
            f"in the sample, such as {names_of(texts[:3])}, whose rows are rejected; "
            "what means no value belongs into null_tokens of the format"
        )
    if empty:
        verb = "is empty in the sample and is" if len(empty) == 1 else "are empty in the sample and are"
        found.checks.append(f"{names_of(empty)} {verb} taken as text")


def names_of(names: Collection[str]) -> str:
    """Some names in one sentence, the first of many."""
    shown = ", ".join(f"'{name}'" for name in list(names)[:_NAMED_COLUMNS])
    rest = len(names) - _NAMED_COLUMNS
    return f"{shown} and {rest} more" if rest > 0 else shown


def which_stamp(others: Collection[str], chosen: str) -> str:
    """What to ask a person where a file has several stamps."""
    verb = "is a stamp too" if len(others) == 1 else "are stamps too"
    return f"{names_of(others)} {verb}; make sure that readings happened at '{chosen}'"


def _odd_cells(cells: Sequence[str], type_: object) -> list[str]:
    if type_ not in (ColumnType.INT64, ColumnType.FLOAT64):
        return []
    return [cell for cell in filled(cells) if not is_number(cell)]


def _is_constant(cells: Sequence[str]) -> bool:
    values = filled(cells)
    return len(values) > 1 and len(set(values)) == 1


def _event_time(found: Guess, cells: Mapping[str, list[str]]) -> tuple[str, ...]:
    """Note the event time rule; gives the headers it uses."""
    # A stamp that is the same in every row says when the run began, not when a reading was taken.
    by_promise = sorted(cells, key=lambda name: (_is_constant(cells[name]), not names_time(name)))
    for name in by_promise:
        layouts = time_layouts(cells[name])
        if layouts:
            _note(found, {"from": name}, layouts, cells[name])
            return (name,)
    for name in by_promise:
        layout = epoch_layout(name, cells[name])
        if layout:
            _note(found, {"from": name}, (layout,), cells[name])
            return (name,)
    dated = next((name for name in by_promise if date_layouts(cells[name])), None)
    clocked = next((name for name in by_promise if clock_layouts(cells[name])), None)
    if dated is not None and clocked is not None:
        pairs = product(date_layouts(cells[dated]), clock_layouts(cells[clocked]))
        _note(found, {"join": [dated, clocked]}, tuple(f"{date} {clock}" for date, clock in pairs), [])
        return (dated, clocked)
    if dated is not None:
        _note(found, {"from": dated}, date_layouts(cells[dated]), cells[dated])
        return (dated,)
    raise ConfigError(
        f"none of the columns {', '.join(list(cells)[:12])} looks like a date; "
        "say in a description how to tell the time (docs/adding-an-instrument.md)"
    )


def _note(found: Guess, where: dict[str, object], layouts: tuple[str, ...], cells: list[str]) -> None:
    chosen = layouts[0]
    found.event_time = {**where, "layouts": [chosen]}
    found.local_time = "%" in chosen or (chosen == "iso" and not has_offset(cells))
    [columns] = where.values()
    if isinstance(columns, list):
        columns_of_time = " and ".join(f"'{column}'" for column in columns) + " are the time"
    else:
        columns_of_time = f"'{columns}' is the time"
    found.reasons.append(f"{columns_of_time}, written as {chosen}")
    if len(layouts) > 1 and "%d" in layouts[1]:
        found.checks.append(f"days and months look alike: {chosen} was taken, {layouts[1]} fits too")
