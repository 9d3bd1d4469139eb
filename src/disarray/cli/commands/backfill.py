"""`disarray backfill`: long work in chunks, slow enough for the others, resumable and verified."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.commands.backfill_check import apply_differences, check
from disarray.cli.support.options import BY_HAND, After, AsJson, By, DryRun, JobId, Limit, Reason
from disarray.cli.support.printing import (
    Columns,
    print_decision,
    print_following,
    print_json,
    table_of,
)
from disarray.cli.support.project import (
    configuration,
    control_session,
    database_dsn,
    decision,
    extra_installed,
)
from disarray.cli.support.rendering import use_zone
from disarray.cli.support.text_tables import print_parts

if TYPE_CHECKING:
    from disarray.backfill.description import BackfillSpec
    from disarray.config import Config

app = typer.Typer(
    no_args_is_help=True,
    help="Long work in chunks: change a table, or make numbers once more and compare them. Plan, start, watch, pause, "
    "resume, cancel, change the rate, verify, check, apply.",
)

JobFile = Annotated[Path, typer.Argument(help="The TOML file that describes the backfill.")]
Detach = Annotated[bool, typer.Option("--detach", help="Leave the work to the workers.")]


@app.command()
def plan(context: typer.Context, file: JobFile, *, as_json: AsJson = False) -> None:
    """Tell rows, bytes, chunks and time, and try one chunk that is rolled back. Nothing is changed."""
    config = configuration(context)
    with extra_installed("read", purpose="`backfill`"):
        from disarray.backfill.starting import plan_backfill
        from disarray.cli.support.backfill_report import print_plan
        from disarray.cli.support.backfill_work import opened_kinds
    spec = _described(context, config, file)
    with opened_kinds(config, spec.kind) as open_kind:
        found = plan_backfill(database_dsn(config), spec, open_kind=open_kind)
    print_plan(found, as_json=as_json)


@app.command()
def start(
    context: typer.Context,
    file: JobFile,
    *,
    detach: Detach = False,
    reason: Reason = BY_HAND,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Begin a backfill and work on it here until it has ended. Exits 1 unless it is verified."""
    config = configuration(context)
    with extra_installed("read", purpose="`backfill`"):
        from disarray.backfill.starting import start_backfill
        from disarray.cli.support.backfill_report import print_detached
        from disarray.cli.support.backfill_work import opened_kinds, print_end, work_here
    spec = _described(context, config, file)
    with opened_kinds(config, spec.kind, runs=False) as open_kind:
        job_id = start_backfill(database_dsn(config), spec, reason=reason, by=by, open_kind=open_kind)
    if detach:
        print_detached(job_id, as_json=as_json)
        return
    work_here(context, config, job_id, spec.kind, as_json=as_json)
    print_end(context, job_id, as_json=as_json)


@app.command()
def resume(
    context: typer.Context,
    job_id: JobId,
    *,
    detach: Detach = False,
    reason: Reason = BY_HAND,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Go on with a job that was paused, stopped or left alone; dead chunks are tried again."""
    from disarray.cli.support.backfill_report import print_detached
    from disarray.cli.support.backfill_work import print_end, work_here
    from disarray.control.backfills import BackfillDecision, decide_backfill
    from disarray.queries.backfills import show_backfill

    config = configuration(context)
    with control_session(context) as connection:
        job = show_backfill(connection, job_id=job_id)
        if job.state not in ("running", "verifying") or job.chunks_dead:
            decide_backfill(connection, job_id, BackfillDecision.RESUMED, reason=reason, by=by)
    if detach:
        print_detached(job_id, as_json=as_json)
        return
    work_here(context, config, job_id, job.kind, as_json=as_json)
    print_end(context, job_id, as_json=as_json)


@app.command("list")
def list_jobs(
    context: typer.Context, *, limit: Limit = 100, after: After = None, as_json: AsJson = False
) -> None:
    """List the backfills, the newest first."""
    from disarray.queries.backfills import list_backfills

    use_zone(context)
    with control_session(context) as connection:
        found = list_backfills(connection, limit=limit, after=after)
    columns: Columns = {
        "job": lambda job: str(job.job_id),
        "name": "name",
        "kind": "kind",
        "target": "target",
        "state": "state",
        "rows": lambda job: f"{job.rows_done:,} of {job.rows_estimated:,}",
        "dead chunks": "chunks_dead",
        "started": "started_at",
        "verdict": "verdict",
    }
    if as_json:
        print_json(found)
    elif found.backfills:
        print_parts([table_of(found.backfills, columns)])
    else:
        typer.echo("No backfill was ever started.")
    print_following(found.next, limit)


@app.command()
def show(context: typer.Context, job_id: JobId, *, as_json: AsJson = False) -> None:
    """Show a job: its progress, its limits and which of them is in force, its dead chunks and its verdict."""
    from disarray.cli.support.backfill_work import print_job
    from disarray.queries.backfills import show_backfill

    use_zone(context)
    with control_session(context) as connection:
        job = show_backfill(connection, job_id=job_id)
    print_job(job, as_json=as_json)


@app.command()
def pause(
    context: typer.Context,
    job_id: JobId,
    *,
    reason: Reason = BY_HAND,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Claim no more chunks of a job; those at work end as they would have."""
    _decide(context, job_id, "paused", reason=reason, by=by, dry_run=dry_run, as_json=as_json)


@app.command()
def cancel(
    context: typer.Context,
    job_id: JobId,
    *,
    reason: Reason,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Give a job up for good. Chunks that are done stay done."""
    _decide(context, job_id, "cancelled", reason=reason, by=by, dry_run=dry_run, as_json=as_json)


@app.command()
def rate(
    context: typer.Context,
    job_id: JobId,
    rows_per_second: Annotated[float, typer.Argument(min=0, help="Over all workers; 0: no limit.")],
    *,
    max_concurrency: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Chunks at once, over all workers.")
    ] = None,
    reason: Reason = BY_HAND,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Change how fast a job may go, while it runs."""
    from disarray.control.backfills import set_backfill_pace
    from disarray.queries.backfills import show_backfill

    with decision(context, dry_run=dry_run) as connection:
        chunks = max_concurrency or show_backfill(connection, job_id=job_id).max_concurrency
        set_backfill_pace(
            connection,
            job_id,
            rate_limit=rows_per_second or None,
            max_concurrency=chunks,
            reason=reason,
            by=by,
        )
    limit = f"{rows_per_second:,g} rows a second" if rows_per_second else "no limit of rows"
    print_decision(
        {"job_id": job_id, "rate_limit": rows_per_second or None, "max_concurrency": chunks},
        [f"job {job_id}: {limit}, {chunks} chunks at once."],
        dry_run=dry_run,
        as_json=as_json,
    )


@app.command()
def verify(context: typer.Context, job_id: JobId, *, as_json: AsJson = False) -> None:
    """Compare a job that has ended with its table once more, and store the verdict. Exits 1 unless it is verified."""
    config = configuration(context)
    with extra_installed("read", purpose="`backfill`"):
        from disarray.backfill.chunk_worker import ChunkWorker
        from disarray.backfill.job_session import open_in_database, open_job
    from disarray.cli.support.backfill_work import instance_of, lease_seconds, opened_kinds, print_end
    from disarray.control.backfills import list_backfills
    from disarray.control.instances import register_command
    from disarray.errors import InvalidRequestError
    from disarray.queries.backfills import show_backfill

    with control_session(context) as connection:
        show_backfill(connection, job_id=job_id)
        [job] = list_backfills(connection, job_id=job_id)
        # Under the name of who works on it, whoever does so now would lose what it has.
        holder = register_command(connection, f"verification of {instance_of(job_id)}")
    lease = lease_seconds(config)
    # Replays and rebuilds compare while they run.
    has_project = job.kind in ("republish", "resync")
    kinds = opened_kinds(config, job.kind) if has_project else nullcontext(open_in_database)
    with (
        kinds as open_kind,
        open_job(
            database_dsn(config),
            job_id,
            job_key=job.job_key,
            kind=job.kind,
            description=job.description,
            lease_seconds=lease,
            open_kind=open_kind,
        ) as session,
    ):
        worker = ChunkWorker(session, holder, lease_seconds=lease)
        if not worker.verify(is_asked_for=True):
            raise InvalidRequestError(
                f"backfill job {job_id} is {job.state}: it is verified when every chunk has ended. Nothing was changed"
            )
    print_end(context, job_id, as_json=as_json)


app.command()(check)
app.command("apply")(apply_differences)


def _described(context: typer.Context, config: Config, file: Path) -> BackfillSpec:
    """The description in a file, with all that its start decides; the schema is there, and ours."""
    from disarray.backfill.description import ReplaySpec
    from disarray.backfill.job_file import read_spec

    spec = read_spec(file, config)
    with control_session(context) as connection:
        if not isinstance(spec, ReplaySpec):
            return spec
        with extra_installed("worker", purpose="a replay"):
            from disarray.backfill.replay import resolved
            from disarray.queries.project import configured_datasets
        return resolved(connection, spec, configured_datasets(config))


def _decide(
    context: typer.Context, job_id: int, what: str, *, reason: str, by: str, dry_run: bool, as_json: bool
) -> None:
    from disarray.control.backfills import BackfillDecision, decide_backfill

    with decision(context, dry_run=dry_run) as connection:
        state = decide_backfill(connection, job_id, BackfillDecision(what), reason=reason, by=by)
    print_decision(
        {"job_id": job_id, "state": state}, [f"job {job_id} is {state}."], dry_run=dry_run, as_json=as_json
    )
