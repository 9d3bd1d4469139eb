"""Instants, numbers and files as people write and read them."""

from __future__ import annotations

import getpass
import json
import os
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disarray.errors import DisarrayError
from disarray.model.documents import plain
from disarray.model.printable import visible_json
from disarray.model.segments import datetime_of, microseconds_of
from disarray.queries.instants import read_instant, read_length

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.control.connections import Connection
    from disarray.control.metadata import Metadata
    from disarray.queries.names import SubjectOf

AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]
InDataset = Annotated[str | None, typer.Option("--dataset", help="Where a subject has several.")]
OfChannel = Annotated[str | None, typer.Option("--channel", help="One series of many; all if not given.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; written down.")]
By = Annotated[
    str,
    typer.Option(
        "--by",
        help="Who decides; written down.",
        default_factory=lambda: operating_user(),
        show_default="your user name",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and change nothing.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="At most so many.")]
InZone = Annotated[
    str | None,
    typer.Option("--zone", help="Show instants in this zone, such as Europe/Berlin; JSON stays in UTC."),
]
# Whoever looks at what is printed.
_VIEWER: ContextVar[tzinfo] = ContextVar("viewer", default=UTC)
BY_HAND = "asked for by hand"


def operating_user() -> str:
    """Who is at the keyboard, as the operating system knows them."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container may run under a number that no name belongs to.
        return f"user {os.getuid()}"


def use_zone(context: typer.Context, given: str | None = None) -> None:
    """Show instants in a zone from now on, that of the flag or of the configuration, and read them in it."""
    from disarray.cli.support.context import configuration

    name = configuration(context, {"--zone": given}).text("output.zone")
    if name == "UTC":
        return
    from disarray.kernels.parsing.zones import pinned_zone

    _VIEWER.set(pinned_zone(name))


def parse_instant(text: str) -> int:
    """Microseconds of an ISO time; one that names no zone is in the zone of the viewer, UTC unless told otherwise."""
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


def shown_at(instant: datetime) -> str:
    """The same of an instant of an answer."""
    return shown_instant(microseconds_of(instant))


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


def shown_difference(old: float | None, new: float | None) -> str:
    """By how much a number changes, with its sign."""
    difference = (new or 0) - (old or 0)
    return f"{difference:+,}" if isinstance(difference, int) else f"{difference:+,.12g}"


def counted(number: int, noun: str) -> str:
    """A number of things: 1 segment, 2,000 segments."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def tell_rebuild(subjects: Sequence[SubjectOf], *, err: bool = False) -> None:
    """Say whose numbers are still those of a former definition."""
    waiting = [each for each in subjects if each.rebuilt is not None]
    for name in sorted({each.dataset.name for each in waiting}):
        of_dataset = [each for each in waiting if each.dataset.name == name]
        done, count = of_dataset[0].rebuilt or (0, 0)
        shown = ", ".join(each.subject_key for each in of_dataset[:5]) + (" …" if len(of_dataset) > 5 else "")
        typer.echo(
            f"Dataset '{name}' was defined anew, and numbers of {shown} are still as defined before: a rebuild is "
            f"pending ({done} of {count} subjects rebuilt).",
            err=err,
        )


def shown_moment(moment: datetime | None) -> str:
    """When something happened, to the second."""
    if moment is None:
        return "-"
    return _iso(moment.replace(microsecond=0), _VIEWER.get()).replace("T", " ", 1)


def shown_minute(moment: datetime) -> str:
    """The same to the minute, as one word."""
    text = _iso(moment.replace(second=0, microsecond=0), _VIEWER.get())
    return f"{text[:16]}{text[19:]}"


def shown_event(event_type: str, instance_name: str | None, told: Metadata) -> list[str]:
    """What happened, who did it, and what was said about it."""
    details = [str(told[key]) for key in ("reason", "outcome", "change", "error", "message") if told.get(key)]
    return [event_type, told.get("by") or instance_name or "-", ", ".join(details)]


def tell_dry_run(is_dry: bool) -> None:
    """Say that what was just told did not happen."""
    if is_dry:
        typer.echo("This was a dry run: nothing was changed.")


def tell_more(is_cut: bool, limit: int) -> None:
    """Say that a list was cut off."""
    if is_cut:
        typer.echo(f"There are more than {limit}; --limit shows them.", err=True)


def print_json(document: Any, *, err: bool = False) -> None:
    """One JSON document, floats with every bit, instants in UTC."""
    written = json.dumps(plain(document), indent=2, default=str, ensure_ascii=False)
    typer.echo(visible_json(written), err=err)


def known_uri(connection: Connection, file: str) -> tuple[str, Metadata]:
    """The uri under which a file is known, and what is known of it; a path or a uri may be given."""
    from disarray.queries.files import find_file

    known = find_file(connection, file)
    return known["source_uri"], known
