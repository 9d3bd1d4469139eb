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
    known_uri,
    print_json,
    shown_instant,
    use_zone,
)
from disarray.cli.support.text_tables import Table, print_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.queries.conflicts import FileConflict


def conflicts(
    context: typer.Context,
    subject: Annotated[str | None, typer.Argument(help="Only of this one.")] = None,
    *,
    file: Annotated[str | None, typer.Option(help="Only of this file: a path or a uri.")] = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List readings on which files disagree under one key: the key, the instant, both values, and whose counts."""
    from disarray.queries.conflicts import list_conflicts

    use_zone(context)
    with control_session(configuration(context)) as connection:
        uri = None if file is None else known_uri(connection, file)[0]
        found = list_conflicts(connection, subject_key=subject, source_uri=uri, limit=limit)
    shown = found.conflicts
    if as_json:
        print_json(shown)
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
    if found.more:
        typer.echo(f"There are more than {limit} pairs of files and segments; --limit shows them.", err=True)


def conflicts_line(conflicts: dict[str, int]) -> str:
    """How far files disagree, and where to look."""
    return (
        "Files disagree: what another says under the same key counts instead of "
        f"{counted(conflicts['readings'], 'reading')} ({counted(conflicts['pairs_of_files'], 'pair')} of files). "
        "See: disarray conflicts"
    )


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
