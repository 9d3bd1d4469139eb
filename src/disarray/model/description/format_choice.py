"""Which format a dataset has: a known one by name, with what the dataset says differently laid over it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from disarray.model.description.format import EventTime
from disarray.model.description.format_columns import read_columns
from disarray.model.description.format_reader import read_format
from disarray.model.description.format_times import needs_zone, read_event_time
from disarray.model.description.spec_expressions import column_name
from disarray.model.description.spec_table import MisfitError, Table, near_miss
from disarray.model.description.spec_values import several, zone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.model.description.format import Column, Format, PreambleField

Written = dict[str, object]


def read_described(
    table: Table, descriptions: Mapping[str, Mapping[str, object]]
) -> tuple[Format, EventTime]:
    """The dataset's format with its own columns and event time, and that event time once more, never None."""
    like, written = _written_format(table, descriptions)
    own_columns = table.table("columns", "").values
    columns = overlay(_spelled_out(written.pop("columns", {})), _spelled_out(own_columns))
    event_time_written = _event_time_written(
        written.pop("event_time", {}), table.values.get("event_time", {})
    )
    format_table = Table(written, path=table.path_of("format"), kind="format", problems=table.problems)
    described = read_format(like, format_table)
    merged = Table(
        {"columns": columns, "event_time": event_time_written},
        path=table.path,
        kind="dataset",
        problems=table.problems,
    )
    fields = described.preamble.fields
    event_time = _read_event_time(merged, table, fields)
    kept = _kept(table, read_columns(merged, fields=fields))
    _check_zone(table, event_time, kept)
    return replace(described, columns=kept, event_time=event_time), event_time


def named_format(table: Table) -> str:
    """The name of the known format that a dataset starts from; empty where it describes its own."""
    written = table.values.get("format")
    name = written.get("like", "") if isinstance(written, dict) else written
    return name if isinstance(name, str) else ""


def overlay(below: Mapping[str, object], above: Mapping[str, object]) -> Written:
    """Tables merge key by key, everything else is replaced; neither argument is changed."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = overlay(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return merged


def _written_format(table: Table, descriptions: Mapping[str, Mapping[str, object]]) -> tuple[str, Written]:
    nothing: Written = {"like": ""}
    written = table.required("format", _name_or_table, nothing)
    like = written.pop("like", None)
    if like is None:
        return "inline", written
    if isinstance(like, str) and like in descriptions:
        return like, overlay(descriptions[like], written)
    if like != "":
        hint = near_miss(str(like), list(descriptions))
        table.refuse("format", f"expected the name of a format or a table, found {like!r}; {hint}")
    return "unknown", written


def _name_or_table(value: object) -> Written:
    if isinstance(value, str) and value:
        return {"like": value}
    if isinstance(value, dict):
        return dict(value)
    raise MisfitError("the name of a format, or a table that describes one")


def _spelled_out(columns: object) -> Written:
    """Columns with the shorthand `amps = "float64"` written as a table, so that the two sides merge."""
    if not isinstance(columns, dict):
        return {}
    return {each: {"type": value} if isinstance(value, str) else value for each, value in columns.items()}


def _event_time_written(below: object, above: object) -> object:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above or below
    # A dataset that says both where and how has its own rule: a start stamp of the format must not linger.
    if "layouts" in above and above.keys() & {"from", "match", "join"}:
        return above
    return overlay(below, above)


def _read_event_time(merged: Table, table: Table, fields: tuple[PreambleField, ...]) -> EventTime:
    zone_name = table.optional("zone", zone, None)
    event_time = read_event_time(merged.table("event_time", "event_time"), fields=fields, zone_name=zone_name)
    if event_time is None:
        table.refuse(
            "event_time", "expected the time column and its layouts, found nothing; the format has none"
        )
        return EventTime(sources=(), layouts=())
    return event_time


def _check_zone(table: Table, event_time: EventTime, columns: tuple[Column, ...]) -> None:
    local = needs_zone(event_time) or any(
        layout.needs_zone for column in columns for layout in column.layouts
    )
    if local and event_time.zone is None and "zone" not in table.values:
        table.refuse(
            "zone", "expected a time zone such as Europe/Berlin, found nothing; the stamps are local time"
        )


def _kept(table: Table, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    types = {column.name: column.type for column in columns}
    kept = table.optional("only_columns", several(column_name(types), at_least=1), tuple(types))
    if not columns:
        table.refuse("columns", "expected at least one column, found nothing; the format has none of its own")
    return tuple(column for column in columns if column.name in kept)
