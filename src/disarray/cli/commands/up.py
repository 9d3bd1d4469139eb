"""`disarray up`: watch folders and keep the numbers right, all in one process."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.loglines import JsonLogs, LogLevel, start_logging
from disarray.cli.support.options import AsJson, Port
from disarray.cli.support.project import configuration, extra_installed
from disarray.cli.support.rendering import use_zone
from disarray.cli.support.signals import stop_on_signals

if TYPE_CHECKING:
    from disarray.config import Config

log = logging.getLogger("disarray.up")


def up(
    context: typer.Context,
    *,
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            help="Take in all that is there now, last lines too, and end: 1 if something failed or waits.",
        ),
    ] = False,
    allow_waiting: Annotated[
        bool,
        typer.Option(
            "--allow-waiting",
            help="With --once, for jobs that know: end with 1 only if this run failed, not for what waits.",
        ),
    ] = False,
    with_api: Annotated[
        bool, typer.Option("--api/--no-api", help="Serve the REST API and /metrics; [api] says where.")
    ] = True,
    port: Port = None,
    as_json: AsJson = False,
    log_level: LogLevel = "info",
    json_logs: JsonLogs = False,
) -> None:
    """Watch the roots and take in what comes, in one process on the embedded database, until Ctrl-C."""
    if as_json and not once:
        raise typer.BadParameter("there is a summary with --once only", param_hint="--json")
    if allow_waiting and not once:
        raise typer.BadParameter(
            "there is an exit code to change with --once only", param_hint="--allow-waiting"
        )
    if once and log_level == "info":
        # The summary tells it all, on standard output: also which files are refused, and which roots cannot be read.
        start_logging("warning", as_json=json_logs, errors_only=["disarray.agent.agent"])
    else:
        start_logging(log_level, as_json=json_logs)
    stop = stop_on_signals()
    with extra_installed("all", purpose="`up`"):
        from disarray.agent.state import STATE_FILE, StateFile
        from disarray.cli.commands.up_once import take_all_in
        from disarray.cli.support import worker_services
        from disarray.worker.process.local import open_workplace
        from disarray.worker.process.service import ThreadService, run_services
        from disarray.worker.process.settings import worker_settings
    use_zone(context)
    config = configuration(context, {"--port": port})
    settings = worker_settings(config)
    with ExitStack() as stack:
        # First of all: a second `up` in the same folder is refused here, before it could end the first one's work.
        state = StateFile(config.state_dir / STATE_FILE)
        stack.callback(state.close)
        if not once:
            _stop_database_afterwards(config, stack)
        place = stack.enter_context(
            open_workplace(config, instance_name=settings.name, patterns=settings.patterns)
        )
        scheduler = worker_services.make_scheduler(place, settings)
        watcher = worker_services.make_watcher(config, place, state, on_queued=scheduler.wake)
        if once:
            raise typer.Exit(
                take_all_in(
                    place,
                    watcher,
                    scheduler=scheduler,
                    stop=stop,
                    allow_waiting=allow_waiting,
                    as_json=as_json,
                )
            )
        api = worker_services.make_rest_server(config, place) if with_api else None
        services = worker_services.make_services(
            place, scheduler=scheduler, settings=settings, stop=stop, api=api
        )
        services |= worker_services.make_backfiller(
            config, place, scheduler=scheduler, settings=settings, stop=stop
        )
        services |= worker_services.make_verifier(config, place, stop=stop)
        services["agent"] = ThreadService("agent", watcher.run, ended=stop)
        worker_services.log_start(place, settings)
        roots = sorted({root for dataset in place.datasets.values() for root in dataset.roots})
        log.info("watching %s; Ctrl-C ends it", ", ".join(roots))
        run_services(services, stop)
    log.info("ended; everything that was taken in is committed")


def _stop_database_afterwards(config: Config, stack: ExitStack) -> None:
    """The embedded server goes with us if it comes with us; one that was there before stays."""
    if config.dsn is not None:
        return
    from disarray import embedded

    if embedded.status(config.state_dir).server is None:
        stack.callback(embedded.stop, config.state_dir)
