"""Options and arguments that several commands take, each declared once."""

from __future__ import annotations

import getpass
import os
from typing import Annotated

import typer

BY_HAND = "asked for by hand"


def _operating_user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container may run under a number that no name belongs to.
        return f"user {os.getuid()}"


After = Annotated[
    str | None, typer.Option("--after", metavar="CURSOR", help="Go on where a list was cut off; it says how.")
]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]
At = Annotated[
    str | None, typer.Option("--at", help="An ISO time, in UTC if it names no zone; now if not given.")
]
By = Annotated[
    str,
    typer.Option(
        "--by",
        help="Who decides; written down.",
        default_factory=_operating_user,
        show_default="your user name",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and change nothing.")]
File = Annotated[str, typer.Argument(help="A path or a uri.")]
InDataset = Annotated[str | None, typer.Option("--dataset", help="Where a subject has several.")]
InZone = Annotated[
    str | None,
    typer.Option("--zone", help="Show instants in this zone, such as Europe/Berlin; JSON stays in UTC."),
]
JobId = Annotated[int, typer.Argument(help="The number of the job, as list shows it.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="At most so many.")]
OfChannel = Annotated[str | None, typer.Option("--channel", help="One series of many; all if not given.")]
OfDataset = Annotated[str | None, typer.Option("--dataset", help="Only this dataset.")]
OfFile = Annotated[str | None, typer.Option("--file", help="Only this file: a path or a uri.")]
OfSubject = Annotated[str | None, typer.Option("--subject", help="Only this subject.")]
OfSubjectArgument = Annotated[str | None, typer.Argument(help="Only this subject.")]
Port = Annotated[
    int | None,
    typer.Option("--port", min=0, max=65_535, help="Of the REST API; 8321 if not given, 0: a free one."),
]
Reason = Annotated[str, typer.Option("--reason", help="Why; written down.")]
