"""`disarray backfill`: long work on a table in chunks, slow enough for the others, resumable and verified."""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.options import BY_HAND, After, AsJson, By, DryRun, Limit, Reason
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
from disarray.cli.support.signals import stop_on_signals
from disarray.cli.support.text_tables import print_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disarray.backfill.kind import KindOpener
    from disarray.config import Config
    from disarray.control.connections import Connection
    from disarray.control.queue import Holder
    from disarray.queries.backfills import BackfillDetails

app = typer.Typer(
    no_args_is_help=True,
    help="Change a table in chunks: plan, start, watch, pause, resume, cancel, change the rate, verify.",
)

JobFile = Annotated[Path, typer.Argument(help="The TOML file that describes the backfill.")]
JobId = Annotated[int, typer.Argument(help="The number of the job, as list shows it.")]
Detach = Annotated[bool, typer.Option("--detach", help="Leave the work to the workers.")]
_LOOK_SECONDS = 0.5
_LINE_SECONDS = 5.0


@app.command()
def plan(context: typer.Context, file: JobFile, *, as_json: AsJson = False) -> None:
    """Tell rows, bytes, chunks and time, and try one chunk that is rolled back. Nothing is changed."""
    config = configuration(context)
    with extra_installed("read", purpose="`backfill`"):
        from disarray.backfill.job_file import read_spec
        from disarray.backfill.starting import plan_backfill
        from disarray.cli.support.backfill_report import plan_lines
    spec = read_spec(file, config)
    with _kinds(config, spec.kind) as kinds:
        found = plan_backfill(database_dsn(config), spec, open_kind=kinds)
    if as_json:
        print_json(found)
        return
    for line in plan_lines(found):
        typer.echo(line)


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
        from disarray.backfill.job_file import read_spec
        from disarray.backfill.starting import start_backfill
    with control_session(context):
        pass  # the schema is there, and ours
    spec = read_spec(file, config)
    with _kinds(config, spec.kind) as kinds:
        job_id = start_backfill(database_dsn(config), spec, reason=reason, by=by, open_kind=kinds)
    if detach:
        _print_detached(job_id, as_json=as_json)
    else:
        _work(context, config, job_id, as_json=as_json)


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
    from disarray.control.backfills import BackfillDecision, decide_backfill
    from disarray.queries.backfills import show_backfill

    config = configuration(context)
    with control_session(context) as connection:
        job = show_backfill(connection, job_id=job_id)
        if job.state not in ("running", "verifying") or job.chunks_dead:
            decide_backfill(connection, job_id, BackfillDecision.RESUMED, reason=reason, by=by)
    if detach:
        _print_detached(job_id, as_json=as_json)
    else:
        _work(context, config, job_id, as_json=as_json)


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
    from disarray.queries.backfills import show_backfill

    use_zone(context)
    with control_session(context) as connection:
        job = show_backfill(connection, job_id=job_id)
    _print_job(job, as_json=as_json)


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
        from disarray.backfill.job_session import open_job
    from disarray.control.backfills import list_backfills
    from disarray.control.instances import register_instance
    from disarray.errors import InvalidRequestError
    from disarray.queries.backfills import show_backfill

    with control_session(context) as connection:
        show_backfill(connection, job_id=job_id)
        [job] = list_backfills(connection, job_id=job_id)
        holder = register_instance(connection, _instance_of(job_id))
    lease = _lease_seconds(config)
    with (
        _kinds(config, job.kind, holder) as kinds,
        open_job(
            database_dsn(config),
            job_id,
            job_key=job.job_key,
            kind=job.kind,
            description=job.description,
            lease_seconds=lease,
            open_kind=kinds,
        ) as session,
    ):
        worker = ChunkWorker(session, holder, lease_seconds=lease)
        if not worker.verify(is_asked_for=True):
            raise InvalidRequestError(
                f"backfill job {job_id} is {job.state}: it is verified when every chunk has ended. Nothing was changed"
            )
    _print_end(context, job_id, as_json=as_json)


@contextmanager
def _kinds(config: Config, kind: str, holder: Holder | None = None) -> Iterator[KindOpener]:
    """What opens a job of a kind: a database is enough for an update, other kinds need the project."""
    from disarray.backfill.description import KindName
    from disarray.backfill.job_session import open_in_database
    from disarray.control.queue import Holder, Incarnation

    if kind == KindName.UPDATE:
        yield open_in_database
        return
    with extra_installed("worker", purpose=f"`backfill` of kind {kind}"):
        from disarray.worker.process.backfill_kinds import project_kinds
    with project_kinds(config, holder or Holder("plan", Incarnation(0))) as kinds:
        yield kinds


def _decide(
    context: typer.Context, job_id: int, what: str, *, reason: str, by: str, dry_run: bool, as_json: bool
) -> None:
    from disarray.control.backfills import BackfillDecision, decide_backfill

    with decision(context, dry_run=dry_run) as connection:
        state = decide_backfill(connection, job_id, BackfillDecision(what), reason=reason, by=by)
    print_decision(
        {"job_id": job_id, "state": state}, [f"job {job_id} is {state}."], dry_run=dry_run, as_json=as_json
    )


def _work(context: typer.Context, config: Config, job_id: int, *, as_json: bool) -> None:
    """Work on a job in threads of this process, and tell how far it is."""
    from disarray.backfill.serving_jobs import JobServer
    from disarray.control.instances import register_instance
    from disarray.queries.backfills import show_backfill

    stop = stop_on_signals()
    failures: list[BaseException] = []
    with control_session(context) as connection, ExitStack() as stack:
        job = show_backfill(connection, job_id=job_id)
        holder = register_instance(connection, _instance_of(job_id))
        server = JobServer(
            dsn=database_dsn(config),
            holder=holder,
            lease_seconds=_lease_seconds(config),
            open_kind=stack.enter_context(_kinds(config, job.kind, holder)),
        )

        def work() -> None:
            try:
                server.run_job(job_id, stop, threads=job.max_concurrency)
            except BaseException as error:
                failures.append(error)

        worker = threading.Thread(target=work, name="backfill", daemon=True)
        worker.start()
        _watch(connection, job_id, worker, silent=as_json)
    if failures:
        raise failures[0]
    _print_end(context, job_id, as_json=as_json)


def _watch(connection: Connection, job_id: int, worker: threading.Thread, *, silent: bool) -> None:
    from disarray.cli.support.backfill_report import progress_line
    from disarray.errors import ControlError
    from disarray.queries.backfills import show_backfill

    is_terminal = sys.stdout.isatty() and not silent
    every = _LOOK_SECONDS if is_terminal else _LINE_SECONDS

    def look(show: Callable[[str], object]) -> None:
        # A database that is away is told of by those who work.
        with suppress(ControlError):
            show(progress_line(show_backfill(connection, job_id=job_id)))

    if is_terminal:
        from rich.live import Live
        from rich.text import Text

        from disarray.cli.support.terminal import open_console

        with Live(console=open_console(), transient=True, auto_refresh=False) as live:
            while worker.is_alive():
                look(lambda line: live.update(Text(line), refresh=True))
                worker.join(every)
        return
    while worker.is_alive():
        worker.join(every)
        if worker.is_alive() and not silent:
            look(typer.echo)


def _print_end(context: typer.Context, job_id: int, *, as_json: bool) -> None:
    from disarray.queries.backfills import show_backfill

    use_zone(context)
    with control_session(context) as connection:
        job = show_backfill(connection, job_id=job_id)
    _print_job(job, as_json=as_json)
    if job.verdict != "verified":
        if job.state in ("running", "paused", "stopped"):
            typer.echo(f"It goes on with: disarray backfill resume {job_id}", err=True)
        raise typer.Exit(1)


def _print_job(job: BackfillDetails, *, as_json: bool) -> None:
    from disarray.cli.support.backfill_report import job_lines

    if as_json:
        print_json(job)
        return
    for line in job_lines(job):
        typer.echo(line)


def _print_detached(job_id: int, *, as_json: bool) -> None:
    sentence = f"job {job_id} waits for the workers; disarray backfill show {job_id} tells how far it is."
    print_decision({"job_id": job_id}, [sentence], dry_run=False, as_json=as_json)


def _instance_of(job_id: int) -> str:
    return f"backfill job {job_id}"


def _lease_seconds(config: Config) -> int:
    from disarray.model.duration import SECOND

    return config.length_us("worker.lease") // SECOND
