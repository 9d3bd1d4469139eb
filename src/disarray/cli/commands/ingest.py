"""`disarray ingest` and `disarray plan`: take files in now, or see what that would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from disarray.cli.support.context import configuration
from disarray.cli.support.project import open_project
from disarray.cli.support.rendering import AsJson, InZone, counted, json_instant, print_json, use_zone
from disarray.errors import ConfigError

if TYPE_CHECKING:
    from disarray.worker.passes.report import CommittedPlan, FileRejects
    from disarray.worker.workplace import Workplace

INSTANCE_NAME = "ingest"


def ingest(
    context: typer.Context,
    files: Annotated[list[str] | None, typer.Argument(help="Files; without any, what is queued.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Take files in and process all that is queued, in this process; an embedded database is set up if need be."""
    try:
        from disarray.cli.support.notifying import notifications_of
        from disarray.control.files import enqueue_files
        from disarray.control.instances import InstanceState, instance_state
        from disarray.queries.project import configured_datasets
        from disarray.worker.process.local import open_workplace
        from disarray.worker.process.scheduler import Scheduler
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"`ingest` needs {error.name}; install it with `pip install 'disarray-pipeline[worker]'`"
        ) from error
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
                told = told_of(place, committed)
                passes.append(told)
                if not as_json:
                    typer.echo(sentence_of(told))
            failures += report.failed.values()
            rejected += map(told_rejects, report.rejects)
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
        typer.echo(sentence_of_rejects(each), err=True)
    for failure in [] if as_json else failures:
        typer.echo(f"failed: {failure}", err=True)
    if failures or state is InstanceState.PAUSED:
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
        from disarray.cli.support.impact import describe, document, impact_of
        from disarray.cli.support.notifying import notifications_of
        from disarray.worker.passes.rehearsal import rehearse

        rehearsal = rehearse(
            project.connection,
            notifications_of(files, project.datasets),
            datasets=project.datasets,
            lake=project.lake,
        )
        impacts = [impact_of(project.connection, rehearsed) for rehearsed in rehearsal.plans]
    if as_json:
        print_json(
            {
                "plans": [document(impact) for impact in impacts],
                "rejected": [told_rejects(each) for each in rehearsal.rejects],
                "failures": rehearsal.failures,
            }
        )
    else:
        for impact in impacts:
            for line in describe(impact):
                typer.echo(line)
        if not impacts and not rehearsal.failures and not rehearsal.rejects:
            typer.echo("Nothing would change: these versions are in.")
        for rejects in rehearsal.rejects:
            typer.echo(f"would be {_sentence_of_rejects(told_rejects(rejects))}")
        for uri, failure in rehearsal.failures.items():
            typer.echo(f"{uri} would fail: {failure}", err=True)
    if rehearsal.failures:
        raise typer.Exit(1)


def told_of(place: Workplace, committed: CommittedPlan) -> dict[str, Any]:
    """A committed plan for programs."""
    from disarray.control.catalog import load_segments
    from disarray.model.segments import LAST_US

    plan, change = committed.plan, committed.change
    scanned = {unit.segment_us for unit in plan.units}
    to_the_right = 0
    if change.frontier_us is not None:
        with place.pool.connection() as connection:
            segments = load_segments(
                connection, plan.dataset, plan.subject_key, from_us=change.frontier_us + 1, to_us=LAST_US
            )
        to_the_right = sum(segment.readings for segment in segments if segment.segment_us not in scanned)
    return {
        "dataset": plan.dataset,
        "subject": plan.subject_key,
        "arrival": committed.arrival.value,
        "changed_from": json_instant(change.frontier_us),
        "segments_scanned": len(plan.units),
        "segments_changed": change.segments_changed,
        "readings_scanned": sum(unit.readings for unit in plan.units),
        "bases_shifted": change.bases_shifted,
        "readings_to_the_right": to_the_right,
        "restatements": change.restatements,
        "conflicts_won": committed.conflicts[0],
        "conflicts_lost": committed.conflicts[1],
    }


def sentence_of(told: dict[str, Any]) -> str:
    """A committed plan for people."""
    text = (
        f"{told['subject']} ({told['dataset']}): {told['arrival']}, {counted(told['segments_scanned'], 'segment')} "
        f"scanned ({counted(told['readings_scanned'], 'reading')})"
    )
    if told["changed_from"] is not None:
        text += f", changed from {told['changed_from']} on"
    if told["arrival"] == "late":
        text += (
            f"; {counted(told['bases_shifted'], 'base')} shifted, "
            f"{counted(told['readings_to_the_right'], 'reading')} to the right untouched, "
            f"{counted(told['restatements'], 'restatement')}"
        )
    elif told["restatements"]:
        text += f"; {counted(told['restatements'], 'restatement')}"
    if told["conflicts_won"] or told["conflicts_lost"]:
        text += (
            f"; {counted(told['conflicts_won'] + told['conflicts_lost'], 'reading')} disagree with other files, "
            f"{told['conflicts_won']:,} of them count. See: disarray conflicts {told['subject']}"
        )
    return text


def told_rejects(rejects: FileRejects) -> dict[str, Any]:
    """What was rejected in a file, for programs."""
    first = rejects.first
    return {
        "file": rejects.source_uri,
        "rejected": rejects.rejected,
        "rows": rejects.rows,
        "first_line": first.line,
        "reason": first.reason.value,
        "column": first.column,
    }


def sentence_of_rejects(told: dict[str, Any]) -> str:
    """The same for people."""
    return f"{_sentence_of_rejects(told)}. See: disarray files show {told['file']}"


def _sentence_of_rejects(told: dict[str, Any]) -> str:
    where = f" in column {told['column']!r}" if told["column"] else ""
    return (
        f"rejected: {told['rejected']:,} of {counted(told['rows'], 'row')} of {told['file']}; the first is line "
        f"{told['first_line']:,}, {told['reason']}{where}"
    )


def _in_quarantine(place: Workplace, uris: set[str]) -> list[str]:
    from disarray.control.quarantine import list_quarantine

    with place.pool.connection() as connection:
        waiting = list_quarantine(connection, limit=10_000)
    return sorted(uris & {each.source_uri for each in waiting})
