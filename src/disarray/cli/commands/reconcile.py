"""`disarray reconcile`: have stale numbers mended, for schedulers and impatient people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.options import BY_HAND, AsJson, By, DryRun, Reason
from disarray.cli.support.printing import DRY_RUN_NOTE, print_failures, print_json
from disarray.cli.support.project import configuration, decision, extra_installed
from disarray.cli.support.rendering import counted, shown_moment, use_zone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.control.connections import Connection


INSTANCE_NAME = "ingest"  # as `ingest`: both process what is queued


def reconcile(
    context: typer.Context,
    subjects: Annotated[
        list[str] | None, typer.Argument(help="Subjects; those without stale numbers are left out.")
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every subject that has stale numbers.")] = False,
    now: Annotated[
        bool, typer.Option("--now", help="Then process all that is queued in this process, as `ingest` does.")
    ] = False,
    reason: Reason = BY_HAND,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Queue the repair of subjects whose numbers are stale; a worker does it next. Nothing stale is no error."""
    from disarray.control.dirty_ranges import request_reconcile

    if bool(subjects) == every:
        raise typer.BadParameter("name the subjects, or say --all")
    use_zone(context)
    with decision(context, dry_run=dry_run) as connection:
        _refuse_unknown(connection, subjects or [])
        asked = request_reconcile(connection, subjects if not every else None, reason=reason, by=by)
    if not as_json:
        for each in asked:
            who = "is queued" if each.held_by is None else f"is left to {each.held_by}, who holds it"
            typer.echo(f"{each.subject_key} is stale from {shown_moment(each.stale_from)} on and {who}")
        typer.echo(f"{counted(len(asked), 'subject')} to reconcile.")
        if dry_run:
            typer.echo(DRY_RUN_NOTE)
    done, failures = _process(context) if now and asked and not dry_run else (0, [])
    if as_json:
        print_json({"requested": asked, "dry_run": dry_run, "completed": done, "failures": failures})
    elif now and not dry_run:
        typer.echo(f"{counted(done, 'item')} done.")
    print_failures(failures, as_json=as_json)


def _process(context: typer.Context) -> tuple[int, list[str]]:
    """Do all that is queued; how many items were completed, and what failed."""
    with extra_installed("worker", purpose="what was asked for is queued; `reconcile --now`"):
        from disarray.worker.process.local import open_workplace
        from disarray.worker.process.scheduler import Scheduler
    with open_workplace(configuration(context), instance_name=INSTANCE_NAME) as place:
        reports = list(Scheduler(place).drain())
    completed = sum(len(report.completed) for report in reports)
    return completed, [failure for report in reports for failure in report.failed.values()]


def _refuse_unknown(connection: Connection, subjects: Sequence[str]) -> None:
    from disarray.control.subjects import list_subject_states
    from disarray.errors import UnknownNameError
    from disarray.model.description.spec_table import near_miss

    for subject in subjects:
        if not list_subject_states(connection, subject_key=subject):
            known = {state.subject_key for state in list_subject_states(connection, limit=10_000)}
            raise UnknownNameError(f"no subject '{subject}' was ever seen; {near_miss(subject, known)}")
