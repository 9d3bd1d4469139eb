"""`disarray conflicts`: which files disagree under one key, and whose reading counts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from disarray.cli.support.options import After, AsJson, Limit, OfFile, OfSubjectArgument
from disarray.cli.support.printing import print_following, print_json
from disarray.cli.support.project import control_session, known_uri
from disarray.cli.support.rendering import counted, shown_instant, use_zone
from disarray.cli.support.text_tables import Table, print_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.queries.conflicts import FileConflict


def conflicts(
    context: typer.Context,
    subject: OfSubjectArgument = None,
    *,
    file: OfFile = None,
    limit: Limit = 100,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """List readings on which files disagree under one key: the key, the instant, both values, and whose counts."""
    from disarray.queries.conflicts import list_conflicts

    use_zone(context)
    with control_session(context) as connection:
        uri = None if file is None else known_uri(connection, file)
        found = list_conflicts(connection, subject_key=subject, source_uri=uri, limit=limit, after=after)
    shown = found.conflicts
    if as_json:
        print_json(shown)
    elif shown:
        headings = ["subject", "at", "key", "counts", "does not", "file that counts", "file that does not"]
        print_parts([Table(headings, [row for each in shown for row in _rows(each)])])
        total = sum(each.conflicts for each in shown)
        if total > sum(len(each.examples) for each in shown):
            typer.echo(f"In all {counted(total, 'reading')}; of each segment the earliest are listed.")
    else:
        typer.echo("No files disagree under one key.")
    print_following(found.next, limit)


def _rows(found: FileConflict) -> list[list[str]]:
    examples: Sequence[dict[str, Any]] = found.examples
    return [
        [
            f"{found.subject_key}/{each['channel']}" if each["channel"] else found.subject_key,
            shown_instant(each["event_us"]),
            each["key_values"] or "-",
            _values(each["differences"], 0),
            _values(each["differences"], 1),
            found.winner,
            found.loser,
        ]
        for each in examples
    ]


def _values(differences: dict[str, list[Any]], side: int) -> str:
    return ", ".join(f"{name} {json.dumps(values[side])}" for name, values in differences.items())
