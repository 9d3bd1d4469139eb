"""Reading the time rules of a description: layouts, their zone, and where relative stamps start."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import permutations
from typing import TYPE_CHECKING

from disarray.model.description.format import EventTime, LayoutKind, Source, StartStamp, TimeLayout, TimeUnit
from disarray.model.description.spec_table import MisfitError, near_miss
from disarray.model.description.spec_values import regex, several, text, zone

if TYPE_CHECKING:
    from disarray.model.description.format import PreambleField
    from disarray.model.description.spec_table import Table

_ISO_ONLY: tuple[TimeLayout, ...] = (TimeLayout(LayoutKind.ISO),)
_ISO_PATTERN = "%Y-%m-%d %H:%M:%S"
_EPOCH_UNITS = (TimeUnit.SECONDS, TimeUnit.MILLISECONDS, TimeUnit.MICROSECONDS)
_WORDS = {
    "iso": TimeLayout(LayoutKind.ISO),
    **{f"epoch {unit}": TimeLayout(LayoutKind.EPOCH, unit=unit) for unit in _EPOCH_UNITS},
    **{f"relative {unit}": TimeLayout(LayoutKind.RELATIVE, unit=unit) for unit in TimeUnit},
}
_DIRECTIVES = frozenset("YymdbBHIMSfpzj%")
_DATES = (frozenset("md"), frozenset("bd"), frozenset("Bd"), frozenset("j"))
# Every part differs, so that a layout which takes the day for the month gives another instant.
_PROBE = datetime(2003, 2, 1, 16, 5, 6, 789000)  # noqa: DTZ001  the layouts decide about the zone


def layout(value: object) -> TimeLayout:
    """`iso`, `epoch s|ms|us`, `relative s|ms|us|min|h`, or a strptime pattern such as `%d.%m.%Y %H:%M`."""
    expected = "a strptime pattern such as '%Y-%m-%d %H:%M:%S', 'iso', 'epoch ms' or 'relative s'"
    if not isinstance(value, str):
        raise MisfitError(expected)
    if value in _WORDS:
        return _WORDS[value]
    directives = re.findall(r"%(.)", value)
    if not directives:
        hint = near_miss(value, list(_WORDS))
        raise MisfitError(expected, hint=hint if hint.startswith("did") else "")
    unknown = [directive for directive in directives if directive not in _DIRECTIVES]
    if unknown:
        raise MisfitError(
            expected, hint=f"%{unknown[0]} is not supported; use %Y %m %d %H %I %M %S %f %p %b %j %z"
        )
    given = frozenset(directives)
    if ("I" in given) != ("p" in given):
        raise MisfitError(expected, hint="%I and %p belong together, or noon and midnight are the same")
    if not given & {"Y", "y"} or not any(date <= given for date in _DATES):
        raise MisfitError(expected, hint="the pattern needs year, month and day")
    if len(given - {"%"}) < len([directive for directive in directives if directive != "%"]):
        raise MisfitError(expected, hint="a part of the stamp stands in the pattern twice")
    return TimeLayout(LayoutKind.STRPTIME, pattern=value)


def layouts(value: object) -> tuple[TimeLayout, ...]:
    """One or more layouts of which no two read the same text as different instants."""
    found = several(layout, at_least=1)(value)
    dated = [each.pattern or _ISO_PATTERN for each in found if not each.is_numeric]
    for left, right in permutations(dated, 2):
        written = _PROBE.strftime(left)
        try:
            same = datetime.strptime(written, right) == datetime.strptime(written, left)  # noqa: DTZ007
        except (ValueError, TypeError):
            continue
        if not same:
            raise MisfitError(
                "layouts that cannot be mistaken for one another",
                hint=f"{written!r} fits both {left!r} and {right!r}, with different meaning",
            )
    if len(found) > 1 and any(each.is_numeric for each in found):
        raise MisfitError(
            "a numeric layout alone", hint="a number does not say whether it is an epoch or relative"
        )
    return found


def read_source(table: Table, *, default: str = "") -> Source:
    """Where a value stands: key `from` (header names) and key `match` (a pattern over a whole header)."""
    pattern = table.optional("match", regex(), "")
    names = table.optional("from", several(text, at_least=1), (default,) if default and not pattern else ())
    return Source(names=names, pattern=pattern)


def read_event_time(
    table: Table, *, fields: tuple[PreambleField, ...], zone_name: str | None = None
) -> EventTime | None:
    """The event time rule, None where nothing is written; the dataset's `zone_name` wins."""
    if not table.values:
        return None
    joined = table.optional("join", several(text, at_least=2), ())
    source = read_source(table)
    sources = tuple(Source(names=(column,)) for column in joined) if joined else (source,)
    if bool(joined) == bool(source.names or source.pattern):
        table.refuse(
            "from", "expected the time column's header in 'from' or 'match', or two and more in 'join'"
        )
    found = table.required("layouts", layouts, _ISO_ONLY)
    start_table = table.table("start", "start")
    start = _read_start(start_table, fields) if start_table.values else None
    own_zone = table.optional("zone", zone, None)
    relative = any(each.kind is LayoutKind.RELATIVE for each in found)
    if relative != (start is not None):
        table.refuse("start", "expected a start stamp exactly where a layout is 'relative …'")
    table.close()
    return EventTime(sources=sources, layouts=found, start=start, zone=zone_name or own_zone)


def needs_zone(event_time: EventTime) -> bool:
    """Whether some stamp of the file can be local time."""
    start = event_time.start.layouts if event_time.start else ()
    return any(each.needs_zone for each in (*event_time.layouts, *start))


def _read_start(table: Table, fields: tuple[PreambleField, ...]) -> StartStamp:
    names = [field.name for field in fields]
    field = table.required("preamble", text, "")
    if field and field not in names:
        table.refuse("preamble", f"there is no preamble field '{field}'; {near_miss(field, names)}")
    found = table.required("layouts", layouts, _ISO_ONLY)
    if any(each.kind is LayoutKind.RELATIVE for each in found):
        table.refuse("layouts", "expected a date or an epoch: a start cannot be relative itself")
    table.close()
    return StartStamp(field=field, layouts=found)
