"""`disarray quarantine`: what waits for a decision, what it would change, and the decision."""

from __future__ import annotations

from typing import Annotated

import typer

from disarray.cli.support.options import After, AsJson, By, DryRun, File, InZone, Limit, OfSubject, Reason
from disarray.cli.support.printing import Columns, print_decision, print_list, print_queued
from disarray.cli.support.project import control_session, decision, known_uri, open_project
from disarray.cli.support.rendering import counted, shown_at, use_zone
from disarray.model.quarantine_part import Part

app = typer.Typer(
    no_args_is_help=True, help="Readings that came too late to be believed unasked: look, release, reject."
)

OnePart = Annotated[
    Part | None,
    typer.Option("--part", help="Where both wait: its parked readings, or its version that says less."),
]


@app.command("list")
def list_quarantined(
    context: typer.Context,
    *,
    subject: OfSubject = None,
    limit: Limit = 100,
    after: After = None,
    zone: InZone = None,
    as_json: AsJson = False,
) -> None:
    """List what waits for a decision, oldest first."""
    use_zone(context, zone)
    from disarray.queries.quarantine import list_quarantine

    with control_session(context) as connection:
        found = list_quarantine(connection, subject_key=subject, limit=limit, after=after)
    columns: Columns = {
        "subject": "subject_key",
        "why": "why",
        "segments": "segments",
        "readings": "readings",
        "from": lambda each: shown_at(each.first),
        "to": lambda each: shown_at(each.last),
        "file": "source_uri",
    }
    print_list(
        found.waiting, columns, as_json=as_json, otherwise="Nothing is in quarantine.", following=found.next
    )


@app.command()
def preview(
    context: typer.Context, file: File, *, part: OnePart = None, zone: InZone = None, as_json: AsJson = False
) -> None:
    """Show which numbers a release would change, by how much and from when. Nothing is changed."""
    use_zone(context, zone)
    with open_project(context) as project:
        from disarray.cli.support.impact import impact_of, print_impacts
        from disarray.control.quarantine import choose_part, list_quarantine
        from disarray.worker.passes.rehearsal import rehearse_release

        uri = known_uri(project.connection, file)
        waiting = choose_part(list_quarantine(project.connection, source_uri=uri), uri, part)
        rehearsal = rehearse_release(
            project.connection, waiting, datasets=project.datasets, lake=project.lake
        )
        impacts = [impact_of(project.connection, rehearsed) for rehearsed in rehearsal.plans]
    print_impacts(impacts, failures=rehearsal.failures, as_json=as_json)


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

    with decision(context, dry_run=dry_run) as connection:
        uri = known_uri(connection, file)
        queue_id = release_file(connection, uri, reason=reason, by=by, part=part)
    print_queued(uri, queue_id, "is released", dry_run=dry_run, as_json=as_json)


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

    with decision(context, dry_run=dry_run) as connection:
        uri = known_uri(connection, file)
        readings = reject_file(connection, uri, reason=reason, by=by, part=part)
    sentence = (
        f"{counted(readings, 'parked reading')} of {uri} dropped. No number changed."
        if readings
        else f"The parked version of {uri} is rejected: what it said before goes on counting."
    )
    print_decision({"source_uri": uri, "readings": readings}, [sentence], dry_run=dry_run, as_json=as_json)
