"""`disarray backfill check` and `apply`: numbers made once more from their files, and what of them is taken over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.options import BY_HAND, AsJson, By, DryRun, JobId, Reason
from disarray.cli.support.printing import print_decision
from disarray.cli.support.project import configuration, control_session, database_dsn, extra_installed

if TYPE_CHECKING:
    from disarray.control.connections import Connection


def check(
    context: typer.Context,
    *,
    last: Annotated[
        str | None,
        typer.Option(help="How far back from now, such as '30 d'; the whole history if not given."),
    ] = None,
    datasets: Annotated[
        list[str] | None, typer.Option("--dataset", help="Only this one; may be repeated.")
    ] = None,
    subjects: Annotated[
        list[str] | None, typer.Option("--subject", help="Only this one; may be repeated.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="End after about so long, such as '10 min'; resume goes on.")
    ] = None,
    allow_vanished: Annotated[
        bool, typer.Option("--allow-vanished", help="Believe what is kept of files that are gone or changed.")
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Queue what makes the numbers that were found.")
    ] = False,
    reason: Reason = BY_HAND,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Make numbers once more from the files, by this program and disarray.toml as it is here, and compare to the bit.

    A replay that changes no number: run it before a new release, format or definition goes to production. Exits 1
    with the differences, 0 where all of it was compared and is identical.
    """
    config = configuration(context)
    with extra_installed("worker", purpose="`backfill check`"):
        from disarray.backfill.starting import start_backfill
        from disarray.cli.support.backfill_check import check_spec, duration_of, not_in_force_lines
        from disarray.cli.support.backfill_work import opened_kinds, print_end, work_here
        from disarray.queries.project import configured_datasets
    described = configured_datasets(config)
    budget_us = None if budget is None else duration_of("--budget", budget)
    with control_session(context) as connection:
        spec = check_spec(
            connection,
            config,
            described,
            last=last,
            datasets=datasets,
            subjects=subjects,
            allow_vanished=allow_vanished,
        )
        for line in not_in_force_lines(connection, spec):
            typer.echo(line, err=True)
    with opened_kinds(config, spec.kind, datasets=described, runs=False) as open_kind:
        job_id = start_backfill(database_dsn(config), spec, reason=reason, by=by, open_kind=open_kind)
    work_here(context, config, job_id, spec.kind, as_json=as_json, budget_us=budget_us)
    with control_session(context) as connection:
        _end_check(connection, job_id, budget=budget, by=by)
        if apply:
            _apply(connection, job_id, reason=reason, by=by)
    print_end(context, job_id, as_json=as_json)


def apply_differences(
    context: typer.Context,
    job_id: JobId,
    *,
    reason: Reason = BY_HAND,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Take over what a replay found: the files concerned are read again, and the ledger tells what changes."""
    from disarray.backfill.applying import apply_replay
    from disarray.cli.support.backfill_report import applied_sentences
    from disarray.queries.backfills import show_backfill

    with control_session(context) as connection:
        show_backfill(connection, job_id=job_id)
        # A transaction for each subject: nobody waits for all of them.
        applied = apply_replay(connection, job_id, reason=reason, by=by, is_rehearsal=dry_run)
    print_decision(
        {
            "job_id": job_id,
            "files": applied.files,
            "rebuilds": applied.rebuilds,
            "segments_left": applied.segments_left,
            "subjects_before": applied.subjects_before,
        },
        applied_sentences(applied),
        dry_run=dry_run,
        as_json=as_json,
    )


def _apply(connection: Connection, job_id: int, *, reason: str, by: str) -> None:
    from disarray.backfill.applying import apply_replay
    from disarray.cli.support.backfill_report import applied_sentences

    applied = apply_replay(connection, job_id, reason=reason, by=by)
    for sentence in applied_sentences(applied):
        typer.echo(sentence, err=True)


def _end_check(connection: Connection, job_id: int, *, budget: str | None, by: str) -> None:
    """A check whose time is up waits for somebody who resumes it: no worker goes on with it by itself."""
    from disarray.control.backfills import BackfillDecision, decide_backfill
    from disarray.queries.backfills import show_backfill

    if budget is not None and show_backfill(connection, job_id=job_id).state == "running":
        used_up = f"the budget of {budget} is used up"
        decide_backfill(connection, job_id, BackfillDecision.PAUSED, reason=used_up, by=by)
