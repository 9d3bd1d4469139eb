"""`disarray dead-letters`: what was given up, why, and what to do about it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.options import BY_HAND, After, AsJson, By, DryRun, Limit, OfSubject, Reason
from disarray.cli.support.printing import Columns, print_decision, print_list
from disarray.cli.support.project import control_session, decision, known_uri
from disarray.cli.support.rendering import counted, parse_length, use_zone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.control.connections import Connection

app = typer.Typer(
    no_args_is_help=True, help="Files whose last request was given up: look, try again, put aside."
)

Files = Annotated[list[str] | None, typer.Argument(help="Paths or uris.")]
# What the database takes in one decision; it holds their rows until all is done.
MOST_AT_ONCE = 10_000
SHOWN_ERROR = 200


@app.command("list")
def list_given_up(
    context: typer.Context,
    *,
    subject: OfSubject = None,
    limit: Limit = 100,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """List what was given up, oldest first, with the error of the last attempt."""
    from disarray.queries.dead_letters import list_dead_letters

    use_zone(context)
    with control_session(context) as connection:
        found = list_dead_letters(connection, subject_key=subject, limit=limit, after=after)
    columns: Columns = {
        "since": "failed_at",
        "subject": "subject_key",
        "asked for": "reason",
        "attempts": "attempts",
        "file": "source_uri",
        "error": lambda dead: dead.last_error and dead.last_error[:SHOWN_ERROR],
    }
    print_list(
        found.dead_letters, columns, as_json=as_json, otherwise="No dead letters.", following=found.next
    )


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
    with decision(context, dry_run=dry_run) as connection:
        uris = _chosen(connection, files, subject)
        items = retry_dead_letters(connection, uris, reason=reason, by=by) if uris else {}
    print_decision(
        {"queued": dict.fromkeys(uris) | ({} if dry_run else items)},
        [
            *(f"{uri} is queued again" for uri in uris),
            f"{counted(len(uris), 'file')} queued again; a worker takes them next. Or run: disarray ingest",
        ],
        dry_run=dry_run,
        as_json=as_json,
    )


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
    with decision(context, dry_run=dry_run) as connection:
        uris = _chosen(connection, files, subject, older_than)
        if uris:
            discard_dead_letters(connection, uris, reason=reason, by=by)
    print_decision(
        {"discarded": uris},
        [*(f"{uri} is discarded" for uri in uris), f"{counted(len(uris), 'dead letter')} discarded."],
        dry_run=dry_run,
        as_json=as_json,
    )


def _chosen(
    connection: Connection, files: Sequence[str] | None, subject: str | None, older_than: str | None = None
) -> list[str]:
    """The uris of the files that are named, else of all dead letters that the flags select."""
    from disarray.control.dead_letters import list_dead_letters
    from disarray.control.status import current_us
    from disarray.model.segments import datetime_of

    if files:
        return list(dict.fromkeys(known_uri(connection, file) for file in files))
    before = None
    if older_than is not None:
        before = datetime_of(current_us(connection)) - timedelta(microseconds=parse_length(older_than))
    found = list_dead_letters(connection, subject_key=subject, failed_before=before, limit=MOST_AT_ONCE + 1)
    if len(found) > MOST_AT_ONCE:
        typer.echo(f"There are more than {MOST_AT_ONCE:,}; run this again for the rest.", err=True)
    return [dead.source_uri for dead in found[:MOST_AT_ONCE]]
