"""`disarray conflicts`: which files disagree under one key, and whose reading counts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disarray.cli.support.context import configuration
from disarray.cli.support.database_session import control_session
from disarray.cli.support.rendering import (
    AsJson,
    Limit,
    counted,
    json_instant,
    known_uri,
    print_json,
    shown_instant,
    use_zone,
)
from disarray.cli.support.text_tables import Table, print_parts

if TYPE_CHECKING:
    from disarray.control.conflicts import FileConflict


def conflicts(
    context: typer.Context,
    subject: Annotated[str | None, typer.Argument(help="Only of this one.")] = None,
    *,
    file: Annotated[str | None, typer.Option(help="Only of this file: a path or a uri.")] = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List readings on which files disagree under one key: the key, the instant, both values, and whose counts."""
    from disarray.control.conflicts import list_conflicts

    use_zone(context)
    with control_session(configuration(context)) as connection:
        uri = None if file is None else known_uri(connection, file)[0]
        found = list_conflicts(connection, subject_key=subject, source_uri=uri, limit=limit + 1)
    shown = found[:limit]
    if as_json:
        print_json([_document(each) for each in shown])
        return
    if not shown:
        typer.echo("No files disagree under one key.")
        return
    print_parts(
        [
            Table(
                ["subject", "at", "key", "counts", "does not", "file that counts", "file that does not"],
                [row for each in shown for row in _rows(each)],
            )
        ]
    )
    total = sum(each.conflicts for each in shown)
    listed = sum(len(each.examples) for each in shown)
    if total > listed:
        typer.echo(f"In all {counted(total, 'reading')}; of each segment the earliest are listed.")
    if len(found) > limit:
        typer.echo(f"There are more than {limit} pairs of files and segments; --limit shows them.", err=True)


def conflicts_line(conflicts: dict[str, int]) -> str:
    """How far files disagree, and where to look."""
    return (
        "Files disagree: what another says under the same key counts instead of "
        f"{counted(conflicts['readings'], 'reading')} ({counted(conflicts['pairs_of_files'], 'pair')} of files). "
        "See: disarray conflicts"
    )


def _rows(found: FileConflict) -> list[list[str]]:
    return [
        [
            f"{found.subject_key}/{each['channel']}" if each["channel"] else found.subject_key,
            shown_instant(each["event_us"]),
            each["key_values"] or "-",
            _values(each["differences"], 0),
            _values(each["differences"], 1),
            found.winner_uri,
            found.loser_uri,
        ]
        for each in found.examples
    ]


def _values(differences: dict[str, list[Any]], side: int) -> str:
    return ", ".join(f"{name} {json.dumps(values[side])}" for name, values in differences.items())


def _document(found: FileConflict) -> dict[str, Any]:
    return {
        "dataset": found.dataset,
        "subject": found.subject_key,
        "segment": json_instant(found.segment_us),
        "winner": found.winner_uri,
        "loser": found.loser_uri,
        "conflicts": found.conflicts,
        "examples": [each | {"at": json_instant(each["event_us"])} for each in found.examples],
    }
