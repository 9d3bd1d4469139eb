"""Work on a backfill in this process: threads that process chunks, a line of progress, and how it ended."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from disarray.cli.support.printing import print_json
from disarray.cli.support.project import control_session, database_dsn, extra_installed
from disarray.cli.support.rendering import use_zone
from disarray.cli.support.signals import stop_on_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from disarray.backfill.kind import KindOpener
    from disarray.config import Config
    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset
    from disarray.queries.backfills import BackfillDetails

_LOOK_SECONDS = 0.5
_LINE_SECONDS = 5.0


@contextmanager
def opened_kinds(
    config: Config,
    kind: str,
    *,
    datasets: Mapping[str, Dataset] | None = None,
    runs: bool = True,
    stop: threading.Event | None = None,
) -> Iterator[KindOpener]:
    """What opens a kind of backfill here; for one about subjects that `runs`, Spark is started, and stopped
    afterwards. Once `stop` is set, the subject that it is at is given back.
    """
    from disarray.backfill.job_session import open_in_database

    if kind in ("republish", "resync"):
        with extra_installed("worker", purpose=f"a {kind}"):
            from disarray.worker.process.backfill_kinds import project_kinds
        ended = threading.Event() if stop is None else stop
        with project_kinds(config, ended.is_set) as kinds:
            yield kinds
        return
    if kind not in ("replay", "rebuild"):
        yield open_in_database
        return
    with extra_installed("worker", purpose="a replay"):
        from disarray.backfill.replay import ReplayMeans
        from disarray.backfill.subject_kinds import subject_kinds
        from disarray.engine.runner import InProcessRunner
        from disarray.queries.project import configured_datasets
        from disarray.store.lake import Lake
        from disarray.worker.process.local import open_runner
        from disarray.worker.process.settings import worker_settings

    described = configured_datasets(config) if datasets is None else datasets
    lake = Lake(config.lake_root)
    if not runs:
        yield subject_kinds(ReplayMeans(InProcessRunner(), lake, described))
        return
    with open_runner(config, worker_settings(config).runner) as runner:
        means = ReplayMeans(runner, lake, described)
        yield subject_kinds(means if stop is None else replace(means, is_over=stop.is_set))


def work_here(
    context: typer.Context,
    config: Config,
    job_id: int,
    kind: str,
    *,
    as_json: bool,
    budget_us: int | None = None,
) -> None:
    """Work on a job in threads of this process, and tell how far it is."""
    from disarray.model.duration import SECOND

    stop = stop_on_signals()
    with opened_kinds(config, kind, stop=stop) as open_kind:
        work_on(
            context,
            config,
            job_id,
            open_kind=open_kind,
            stop=stop,
            silent=as_json,
            budget_seconds=None if budget_us is None else budget_us / SECOND,
        )


def work_on(
    context: typer.Context,
    config: Config,
    job_id: int,
    *,
    open_kind: KindOpener,
    stop: threading.Event,
    silent: bool,
    budget_seconds: float | None = None,
) -> None:
    """Work on a job in threads of this process until it has ended, `stop` is set, or the time is up."""
    from disarray.backfill.serving_jobs import JobServer
    from disarray.control.instances import register_command
    from disarray.queries.backfills import show_backfill

    failures: list[BaseException] = []
    with control_session(context) as connection:
        job = show_backfill(connection, job_id=job_id)
        holder = register_command(connection, instance_of(job_id))
        server = JobServer(
            dsn=database_dsn(config), holder=holder, lease_seconds=lease_seconds(config), open_kind=open_kind
        )

        def work() -> None:
            try:
                server.run_job(job_id, stop, threads=job.max_concurrency)
            except BaseException as error:
                failures.append(error)

        worker = threading.Thread(target=work, name="backfill", daemon=True)
        timer = threading.Timer(budget_seconds or 0.0, stop.set)
        timer.daemon = True
        worker.start()
        if budget_seconds is not None:
            timer.start()
        try:
            _watch(connection, job_id, worker, silent=silent)
        finally:
            timer.cancel()
    if failures:
        raise failures[0]


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


def print_end(context: typer.Context, job_id: int, *, as_json: bool) -> None:
    """Print a job that was worked on; the process ends with 1 unless it is verified."""
    from disarray.queries.backfills import show_backfill

    use_zone(context)
    with control_session(context) as connection:
        job = show_backfill(connection, job_id=job_id)
    print_job(job, as_json=as_json)
    if job.verdict != "verified":
        if job.state in ("running", "paused", "stopped"):
            typer.echo(f"It goes on with: disarray backfill resume {job_id}", err=True)
        raise typer.Exit(1)


def print_job(job: BackfillDetails, *, as_json: bool) -> None:
    """Print a job as a person or a program reads it."""
    from disarray.cli.support.backfill_report import job_lines

    if as_json:
        print_json(job)
        return
    for line in job_lines(job):
        typer.echo(line)


def instance_of(job_id: int) -> str:
    """Under which name this process holds chunks."""
    return f"backfill job {job_id}"


def lease_seconds(config: Config) -> int:
    """For how long a chunk is held without a sign of life."""
    from disarray.model.duration import SECOND

    return config.length_us("worker.lease") // SECOND
