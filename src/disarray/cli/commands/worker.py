"""`disarray worker`: take in what agents announce, and keep the numbers right."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from disarray.cli.support.loglines import JsonLogs, LogLevel, start_logging
from disarray.cli.support.project import configuration, extra_installed
from disarray.cli.support.signals import stop_on_signals

log = logging.getLogger("disarray.worker")


def worker(
    context: typer.Context,
    *,
    name: Annotated[str | None, typer.Option(help="Under which it holds subjects; [worker] name.")] = None,
    patterns: Annotated[
        str | None, typer.Option(help="Globs of the subjects it serves: 'TOOL0*, CELL-??'; all if not given.")
    ] = None,
    broker: Annotated[
        str | None, typer.Option(help="amqp://user:password@host:5672/%2F; without, only what is queued.")
    ] = None,
    with_api: Annotated[
        bool,
        typer.Option(
            "--api", help="Serve the REST API and /metrics in this process as well; [api] says where."
        ),
    ] = False,
    log_level: LogLevel = "info",
    json_logs: JsonLogs = False,
) -> None:
    """Process what is queued, until SIGTERM; a second one ends it at once."""
    start_logging(log_level, as_json=json_logs)
    stop = stop_on_signals()
    with extra_installed("worker", purpose="`worker`"):
        from disarray.cli.support import worker_services
        from disarray.worker.process.local import open_workplace
        from disarray.worker.process.service import run_services
        from disarray.worker.process.settings import worker_settings
    config = configuration(context, {"--name": name, "--patterns": patterns, "--broker": broker})
    settings = worker_settings(config)
    with open_workplace(config, instance_name=settings.name, patterns=settings.patterns) as place:
        scheduler = worker_services.make_scheduler(place, settings)
        api = worker_services.make_rest_server(config, place) if with_api else None
        services = worker_services.make_services(
            place, scheduler=scheduler, settings=settings, stop=stop, api=api
        )
        services |= worker_services.make_backfiller(
            config, place, scheduler=scheduler, settings=settings, stop=stop
        )
        services |= worker_services.make_verifier(config, place, stop=stop)
        if config.broker_url is not None:
            services["consumer"] = worker_services.make_consumer(
                config, place, broker_url=config.broker_url, scheduler=scheduler, stop=stop
            )
        worker_services.log_start(place, settings)
        run_services(services, stop)
    log.info("%s has ended; its subjects are free", settings.name)
