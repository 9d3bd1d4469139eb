"""`disarray quarantine`: what waits for a decision, what it would change, and the decision."""

from __future__ import annotations

from typing import Annotated

import typer

from disarray.cli.support.context import configuration
from disarray.cli.support.database_session import control_session, decision
from disarray.cli.support.project import open_project
from disarray.cli.support.rendering import (
    AsJson,
    By,
    DryRun,
    InZone,
    Limit,
    Reason,
    counted,
    known_uri,
    print_json,
    shown_at,
    tell_dry_run,
    tell_more,
    use_zone,
)
from disarray.cli.support.text_tables import Table, print_parts
from disarray.model.quarantine_part import Part

app = typer.Typer(
    no_args_is_help=True, help="Readings that came too late to be believed unasked: look, release, reject."
)

File = Annotated[str, typer.Argument(help="A path or a uri.")]


OnePart = Annotated[
    Part | None,
    typer.Option("--part", help="Where both wait: its parked readings, or its version that says less."),
]


@app.command("list")
def list_quarantined(
    context: typer.Context,
    *,
    subject: Annotated[str | None, typer.Option(help="Only this one.")] = None,
    limit: Limit = 100,
    zone: InZone = None,
    as_json: AsJson = False,
) -> None:
    """List what waits for a decision, oldest first."""
    use_zone(context, zone)
    from disarray.queries.quarantine import list_quarantine

    with control_session(configuration(context)) as connection:
        found = list_quarantine(connection, subject_key=subject, limit=limit)
    tell_more(found.more, limit)
    if as_json:
        print_json(found.waiting)
        return
    if not found.waiting:
        typer.echo("Nothing is in quarantine.")
        return
    rows = [
        [
            each.subject_key,
            each.why,
            str(each.segments),
            f"{each.readings:,}",
            "-" if each.first is None else shown_at(each.first),
            "-" if each.last is None else shown_at(each.last),
            each.source_uri,
        ]
        for each in found.waiting
    ]
    print_parts([Table(["subject", "why", "segments", "readings", "from", "to", "file"], rows)])


@app.command()
def preview(
    context: typer.Context, file: File, *, part: OnePart = None, zone: InZone = None, as_json: AsJson = False
) -> None:
    """Show which numbers a release would change, by how much and from when. Nothing is changed."""
    use_zone(context, zone)
    with open_project(context) as project:
        from disarray.cli.support.impact import describe, document, impact_of
        from disarray.control.quarantine import choose_part, list_quarantine
        from disarray.worker.passes.rehearsal import rehearse_release

        uri, _ = known_uri(project.connection, file)
        waiting = choose_part(list_quarantine(project.connection, source_uri=uri), uri, part)
        rehearsal = rehearse_release(
            project.connection, waiting, datasets=project.datasets, lake=project.lake
        )
        impacts = [impact_of(project.connection, rehearsed) for rehearsed in rehearsal.plans]
    if as_json:
        print_json({"plans": [document(impact) for impact in impacts], "failures": rehearsal.failures})
    else:
        for impact in impacts:
            for line in describe(impact):
                typer.echo(line)
        for failure in rehearsal.failures.values():
            typer.echo(f"a release would fail: {failure}", err=True)
    if rehearsal.failures:
        raise typer.Exit(1)


@app.command()
def release(
    context: typer.Context,
    file: File,
    *,
    part: OnePart = None,
    reason: Reason,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let what is parked of a file count. A worker does it next; the file itself need not be there any more."""
    from disarray.control.quarantine import release_file

    with control_session(configuration(context)) as connection:
        uri, _ = known_uri(connection, file)
        with decision(connection, dry_run=dry_run):
            queue_id = release_file(connection, uri, reason=reason, by=by, part=part)
    if as_json:
        print_json({"source_uri": uri, "queue_id": None if dry_run else queue_id, "dry_run": dry_run})
        return
    rest = "." if dry_run else f"; item {queue_id} waits for a worker. Or run: disarray ingest"
    typer.echo(f"{uri} is released{rest}")
    tell_dry_run(dry_run)


@app.command()
def reject(
    context: typer.Context,
    file: File,
    *,
    part: OnePart = None,
    reason: Reason,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Drop what is parked of a file, and nothing else of it."""
    from disarray.control.quarantine import reject_file

    with control_session(configuration(context)) as connection:
        uri, _ = known_uri(connection, file)
        with decision(connection, dry_run=dry_run):
            readings = reject_file(connection, uri, reason=reason, by=by, part=part)
    if as_json:
        print_json({"source_uri": uri, "readings": readings, "dry_run": dry_run})
        return
    if readings:
        typer.echo(f"{counted(readings, 'parked reading')} of {uri} dropped. No number changed.")
    else:
        typer.echo(f"The parked version of {uri} is rejected: what it said before goes on counting.")
    tell_dry_run(dry_run)
