"""`disarray worker`: take in what agents announce, and keep the numbers right."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.context import configuration
from disarray.cli.support.loglines import JsonLogs, LogLevel, start_logging
from disarray.cli.support.signals import stop_on_signals
from disarray.errors import ConfigError

if TYPE_CHECKING:
    import threading

    from disarray.config import Config
    from disarray.worker.process.scheduler import Scheduler
    from disarray.worker.process.service import Service
    from disarray.worker.process.settings import WorkerSettings
    from disarray.worker.workplace import Workplace

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
    try:
        from disarray.worker.process.local import open_workplace
        from disarray.worker.process.service import run_services
        from disarray.worker.process.settings import worker_settings
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"`worker` needs {error.name}; install it with `pip install 'disarray-pipeline[worker]'`"
        ) from error
    config = configuration(context, {"--name": name, "--patterns": patterns, "--broker": broker})
    settings = worker_settings(config)
    with open_workplace(config, instance_name=settings.name, patterns=settings.patterns) as place:
        scheduler = scheduler_of(place, settings)
        services = services_of(place, scheduler=scheduler, settings=settings, stop=stop)
        if with_api:
            services = {"api": rest_server(config, place), **services}
        if config.broker_url is not None:
            services["consumer"] = _consumer(config, place, scheduler=scheduler, stop=stop)
        tell_start(place, settings)
        run_services(services, stop)
    log.info("%s has ended; its subjects are free", settings.name)


def scheduler_of(place: Workplace, settings: WorkerSettings) -> Scheduler:
    """The scheduler of a worker with these settings."""
    from dataclasses import replace

    from disarray.worker.process.scheduler import BATCH, Scheduler

    return Scheduler(place, policy=replace(BATCH, lease_seconds=settings.lease_seconds))


def services_of(
    place: Workplace,
    *,
    scheduler: Scheduler,
    settings: WorkerSettings,
    stop: threading.Event,
) -> dict[str, Service]:
    """What every worker runs; the last is ended first."""
    from disarray.worker.process.duties import perform_duties
    from disarray.worker.process.service import ThreadService

    return {
        "scheduler": ThreadService(
            "scheduler",
            scheduler.run,
            ended=stop,
            wake=scheduler.wake,
            hurry=scheduler.hurry,
            grace_seconds=settings.drain_seconds,
        ),
        "duties": ThreadService("duties", partial(perform_duties, place), ended=stop),
    }


def rest_server(config: Config, place: Workplace) -> Service:
    """The REST server beside a worker. It belongs before the others: so it is ended last, and tells of them."""
    from disarray.cli.support.serving import RestServer
    from disarray.worker.process.local import database_of

    return RestServer(config, dsn=database_of(config), datasets=place.datasets)


def tell_start(place: Workplace, settings: WorkerSettings) -> None:
    """Say who began to work on what."""
    log.info(
        "%s (life %d) serves %s with %d cores of %s",
        settings.name,
        place.holder.incarnation,
        ", ".join(place.subject_patterns),
        place.runner.cores,
        settings.runner.value,
    )


def _consumer(config: Config, place: Workplace, *, scheduler: Scheduler, stop: threading.Event) -> Service:
    from disarray.worker.process.intake import Intake
    from disarray.worker.process.service import ThreadService

    assert config.broker_url is not None
    intake = Intake(
        place,
        broker_url=config.broker_url,
        broker_prefix=config.text("broker.prefix"),
        breaker=scheduler.breaker,
        on_queued=scheduler.wake,
    )
    return ThreadService("consumer", intake.run, ended=stop)
