"""`disarray ingest` and `disarray plan`: take files in now, or see what that would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from disarray.cli.support.options import AsJson, InZone
from disarray.cli.support.pass_report import pass_document, pass_sentence, rejects_document, rejects_sentence
from disarray.cli.support.printing import print_failures, print_json
from disarray.cli.support.project import configuration, extra_installed, open_project
from disarray.cli.support.rendering import use_zone

if TYPE_CHECKING:
    from disarray.worker.workplace import Workplace

INSTANCE_NAME = "ingest"


def ingest(
    context: typer.Context,
    files: Annotated[list[str] | None, typer.Argument(help="Files; without any, what is queued.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Take files in and process all that is queued, in this process; an embedded database is set up if need be."""
    with extra_installed("worker", purpose="`ingest`"):
        from disarray.cli.support.notifying import notifications_of
        from disarray.control.files import enqueue_files
        from disarray.control.instances import InstanceState, instance_state
        from disarray.queries.project import configured_datasets
        from disarray.worker.process.local import open_workplace
        from disarray.worker.process.scheduler import Scheduler
    config = configuration(context)
    given = notifications_of(files or [], configured_datasets(config))
    passes: list[dict[str, Any]] = []
    failures: list[str] = []
    rejected: list[dict[str, Any]] = []
    with open_workplace(config, instance_name=INSTANCE_NAME) as place:
        with place.pool.connection() as connection:
            enqueue_files(connection, given, instance_name=INSTANCE_NAME)
        for report in Scheduler(place).drain():
            for committed in report.committed:
                passes.append(pass_document(place, committed))
                if not as_json:
                    typer.echo(pass_sentence(passes[-1]))
            failures += report.failed.values()
            rejected += map(rejects_document, report.rejects)
        waiting = _in_quarantine(place, {each.source_uri for each in given})
        with place.pool.connection() as connection:
            state = instance_state(connection, INSTANCE_NAME)
    if state is InstanceState.PAUSED:
        typer.echo(
            f"'{INSTANCE_NAME}' is paused and took nothing. Run: disarray workers resume {INSTANCE_NAME}",
            err=True,
        )
    if as_json:
        print_json({"passes": passes, "failures": failures, "rejected": rejected, "quarantined": waiting})
    elif not passes and not failures and state is not InstanceState.PAUSED:
        typer.echo("Nothing was queued.")
    for uri in [] if as_json else waiting:
        typer.echo(f"{uri} is in quarantine, all or part of it. See: disarray quarantine preview {uri}")
    for each in [] if as_json else rejected:
        typer.echo(rejects_sentence(each), err=True)
    print_failures(failures, as_json=as_json)
    if state is InstanceState.PAUSED:
        raise typer.Exit(1)


def plan(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(help="Files that a dataset of disarray.toml takes.")],
    *,
    zone: InZone = None,
    as_json: AsJson = False,
) -> None:
    """Show what ingesting files would touch and change. Nothing is changed."""
    use_zone(context, zone)
    with open_project(context) as project:
        from disarray.cli.support.impact import impact_of, print_impacts
        from disarray.cli.support.notifying import notifications_of
        from disarray.worker.passes.rehearsal import rehearse

        rehearsal = rehearse(
            project.connection,
            notifications_of(files, project.datasets),
            datasets=project.datasets,
            lake=project.lake,
        )
        impacts = [impact_of(project.connection, rehearsed) for rehearsed in rehearsal.plans]
    print_impacts(
        impacts,
        rejects=rehearsal.rejects,
        failures=rehearsal.failures,
        as_json=as_json,
        otherwise="Nothing would change: these versions are in.",
    )


def _in_quarantine(place: Workplace, uris: set[str]) -> list[str]:
    from disarray.control.quarantine import list_quarantine

    with place.pool.connection() as connection:
        waiting = list_quarantine(connection, limit=10_000)
    return sorted(uris & {each.source_uri for each in waiting})
