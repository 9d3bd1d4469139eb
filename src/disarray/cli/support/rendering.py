"""Instants, lengths, numbers and events as people write and read them."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, overload

import typer

from disarray.errors import DisarrayError
from disarray.model.segments import datetime_of, microseconds_of
from disarray.queries.instants import read_instant, read_length

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.queries.events import FileEvent

# The zone of the person who reads what is printed.
_VIEWER: ContextVar[tzinfo] = ContextVar("viewer", default=UTC)


def use_zone(context: typer.Context, given: str | None = None) -> None:
    """Show instants in a zone from now on, that of the flag or of the configuration, and read them in it."""
    from disarray.cli.support.project import configuration

    name = configuration(context, {"--zone": given}).text("output.zone")
    if name == "UTC":
        return
    from disarray.kernels.parsing.zones import pinned_zone

    _VIEWER.set(pinned_zone(name))


@overload
def parse_instant(text: str) -> int: ...
@overload
def parse_instant(text: None) -> None: ...
@overload
def parse_instant(text: str | None) -> int | None: ...
def parse_instant(text: str | None) -> int | None:
    """Microseconds of an ISO time, if one is given; where it names no zone, that of the viewer holds."""
    if text is None:
        return None
    try:
        return read_instant(text, zone=_VIEWER.get())
    except DisarrayError as error:
        raise typer.BadParameter(str(error)) from None


def parse_length(text: str) -> int:
    """Microseconds of a duration of at least one."""
    try:
        return read_length(text)
    except DisarrayError as error:
        raise typer.BadParameter(str(error)) from None


def shown_instant(us: int | None) -> str:
    """An ISO time in the zone of the viewer, as short as it can be exact."""
    return "-" if us is None else _iso(datetime_of(us), _VIEWER.get())


def shown_at(instant: datetime | None) -> str:
    """The same of an instant of an answer."""
    return "-" if instant is None else shown_instant(microseconds_of(instant))


def json_instant(us: int | None) -> str | None:
    """An ISO time in UTC, for programs."""
    return None if us is None else _iso(datetime_of(us), UTC)


def _iso(instant: datetime, zone: tzinfo) -> str:
    try:
        local = instant.astimezone(zone)
    except OverflowError:  # in the last hours of the calendar
        local = instant
    return local.isoformat().replace("+00:00", "Z") if zone is UTC else local.isoformat()


def shown_number(number: float | None, unit: str = "") -> str:
    """A number to be read, not to be computed with: JSON has every bit."""
    if number is None:
        return "nothing"
    text = f"{number:,}" if isinstance(number, int) else f"{number:,.12g}"
    return f"{text} {unit}".rstrip()


def signed(difference: float) -> str:
    """By how much a number changes, with its sign."""
    return f"{difference:+,}" if isinstance(difference, int) else f"{difference:+,.12g}"


def counted(number: int, noun: str, *, verb: str = "") -> str:
    """A number of things, and what they do: 1 segment, 2,000 segments, 1 file waits, 2 files wait."""
    if number == 1:
        return f"1 {noun} {verb}s" if verb else f"1 {noun}"
    return f"{number:,} {noun}s {verb}".rstrip()


def shown_moment(moment: datetime) -> str:
    """When something happened, to the second."""
    return _iso(moment.replace(microsecond=0), _VIEWER.get()).replace("T", " ", 1)


def shown_minute(moment: datetime) -> str:
    """The same to the minute, as one word."""
    text = _iso(moment.replace(second=0, microsecond=0), _VIEWER.get())
    return f"{text[:16]}{text[19:]}"


def event_actor(event: FileEvent) -> str:
    """Who did it: the person who asked, else the worker."""
    return str(event.metadata.get("by") or event.instance_name or "-")


def event_details(event: FileEvent) -> str:
    """The reason, the outcome and the error that were written down with an event."""
    keys = ("reason", "outcome", "change", "error", "message")
    return ", ".join(str(event.metadata[key]) for key in keys if event.metadata.get(key))


def conflicts_line(conflicts: Mapping[str, int]) -> str:
    """How far files disagree, and where to look."""
    return (
        "Files disagree: what another says under the same key counts instead of "
        f"{counted(conflicts['readings'], 'reading')} ({counted(conflicts['pairs_of_files'], 'pair')} of files). "
        "See: disarray conflicts"
    )
