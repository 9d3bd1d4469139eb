"""`disarray dead-letters`: what was given up, why, and what to do about it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.context import configuration
from disarray.cli.support.database_session import control_session, decision
from disarray.cli.support.rendering import (
    BY_HAND,
    AsJson,
    By,
    DryRun,
    Limit,
    Reason,
    counted,
    known_uri,
    parse_length,
    print_json,
    shown_moment,
    tell_dry_run,
    tell_more,
    use_zone,
)
from disarray.cli.support.text_tables import Table, print_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.control.connections import Connection

app = typer.Typer(
    no_args_is_help=True, help="Files whose last request was given up: look, try again, put aside."
)

Files = Annotated[list[str] | None, typer.Argument(help="Paths or uris.")]
OfSubject = Annotated[str | None, typer.Option("--subject", help="Only of this one.")]
# What the database takes in one decision; it holds their rows until all is done.
MOST_AT_ONCE = 10_000
SHOWN_ERROR = 200


@app.command("list")
def list_given_up(
    context: typer.Context, *, subject: OfSubject = None, limit: Limit = 100, as_json: AsJson = False
) -> None:
    """List what was given up, oldest first, with the error of the last attempt."""
    from disarray.queries.dead_letters import list_dead_letters

    use_zone(context)
    with control_session(configuration(context)) as connection:
        found = list_dead_letters(connection, subject_key=subject, limit=limit)
    if as_json:
        print_json(found.dead_letters)
    elif found.dead_letters:
        rows = [
            [
                shown_moment(dead.failed_at),
                dead.subject_key,
                dead.reason,
                str(dead.attempts),
                dead.source_uri,
                (dead.last_error or "-")[:SHOWN_ERROR],
            ]
            for dead in found.dead_letters
        ]
        print_parts([Table(["since", "subject", "asked for", "attempts", "file", "error"], rows)])
    else:
        typer.echo("No dead letters.")
    tell_more(found.more, limit)


@app.command()
def retry(
    context: typer.Context,
    files: Files = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All of them, or all of --subject.")] = False,
    subject: OfSubject = None,
    reason: Reason = BY_HAND,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Ask for the same once more, with a full set of attempts."""
    from disarray.control.dead_letters import retry_dead_letters

    if bool(files) == every:
        raise typer.BadParameter("name the files, or say --all")
    with control_session(configuration(context)) as connection:
        uris = _named(connection, files) if files else _all_of(connection, subject)
        queued: dict[str, int | None] = dict.fromkeys(uris)
        if uris:
            with decision(connection, dry_run=dry_run):
                items = retry_dead_letters(connection, uris, reason=reason, by=by)
            queued |= {} if dry_run else items
    if as_json:
        print_json({"queued": queued, "dry_run": dry_run})
        return
    for uri in uris:
        typer.echo(f"{uri} is queued again")
    typer.echo(
        f"{counted(len(uris), 'file')} queued again; a worker takes them next. Or run: disarray ingest"
    )
    tell_dry_run(dry_run)


@app.command()
def discard(
    context: typer.Context,
    files: Files = None,
    *,
    older_than: Annotated[
        str | None, typer.Option(help="All that were given up longer ago than this, such as '90 d'.")
    ] = None,
    subject: OfSubject = None,
    reason: Reason,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Take dead letters off the list. The files stay known; a new version of one, or a request by name, revives it."""
    from disarray.control.dead_letters import discard_dead_letters

    if bool(files) == (older_than is not None):
        raise typer.BadParameter("name the files, or say --older-than")
    with control_session(configuration(context)) as connection:
        uris = _named(connection, files) if files else _all_of(connection, subject, older_than)
        if uris:
            with decision(connection, dry_run=dry_run):
                discard_dead_letters(connection, uris, reason=reason, by=by)
    if as_json:
        print_json({"discarded": uris, "dry_run": dry_run})
        return
    for uri in uris:
        typer.echo(f"{uri} is discarded")
    typer.echo(f"{counted(len(uris), 'dead letter')} discarded.")
    tell_dry_run(dry_run)


def _named(connection: Connection, files: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(known_uri(connection, file)[0] for file in files))


def _all_of(connection: Connection, subject: str | None, older_than: str | None = None) -> list[str]:
    from disarray.control.dead_letters import list_dead_letters
    from disarray.control.status import current_us
    from disarray.model.segments import datetime_of

    before = None
    if older_than is not None:
        before = datetime_of(current_us(connection)) - timedelta(microseconds=parse_length(older_than))
    found = list_dead_letters(connection, subject_key=subject, failed_before=before, limit=MOST_AT_ONCE + 1)
    if len(found) > MOST_AT_ONCE:
        typer.echo(f"There are more than {MOST_AT_ONCE:,}; run this again for the rest.", err=True)
    return [dead.source_uri for dead in found[:MOST_AT_ONCE]]
