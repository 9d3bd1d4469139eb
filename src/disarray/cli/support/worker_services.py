"""The parts of a running worker, put together for `worker`, `up` and the demo. Needs the worker's extra."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from disarray.agent.agent import Agent
from disarray.agent.settings import agent_settings
from disarray.backfill.serving_jobs import JobServer
from disarray.broker.direct import DirectTransport
from disarray.cli.support.serving import RestServer
from disarray.sinks.hook_settings import refuse_unusable_hooks
from disarray.sinks.views import ViewRefresher
from disarray.worker.process.backfill_kinds import WorkerKinds
from disarray.worker.process.draining import InboxDrainer
from disarray.worker.process.duties import perform_duties
from disarray.worker.process.initial_loading import InitialLoadThread
from disarray.worker.process.loading import DestinationThread
from disarray.worker.process.local import database_of
from disarray.worker.process.messaging import Messenger
from disarray.worker.process.pulling import SourcePuller
from disarray.worker.process.refreshing import ViewThread
from disarray.worker.process.scheduler import BATCH, Scheduler
from disarray.worker.process.service import Service, ThreadService
from disarray.worker.process.settings import serves_backfills, verification_settings
from disarray.worker.process.verifying import verify_when_idle

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from disarray.agent.state import StateFile
    from disarray.config import Config
    from disarray.worker.process.settings import WorkerSettings
    from disarray.worker.workplace import Workplace

log = logging.getLogger("disarray.worker")

# A refresh that takes longer than that is broken off when the worker ends: the next worker begins it anew.
VIEW_GRACE_SECONDS = 5.0


def make_scheduler(place: Workplace, settings: WorkerSettings) -> Scheduler:
    """The scheduler of a worker with these settings."""
    return Scheduler(place, policy=replace(BATCH, lease_seconds=settings.lease_seconds))


def make_services(
    place: Workplace,
    *,
    scheduler: Scheduler,
    settings: WorkerSettings,
    stop: threading.Event,
    api: Service | None = None,
) -> dict[str, Service]:
    """What a worker runs; the last is ended first, the REST server last of all: it reports on the others."""
    rest: dict[str, Service] = {} if api is None else {"api": api}
    services: dict[str, Service] = rest | {
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
    if (inbox := place.inbox) is not None:
        drainer = InboxDrainer(inbox, scheduler.breaker, scheduler.wake)
        services["inbox"] = ThreadService("inbox", drainer.run, ended=stop)
    refreshing = ViewThread(ViewRefresher(place.pool, place.holder), scheduler.breaker)
    services["views"] = ThreadService(
        "views",
        refreshing.run,
        ended=stop,
        hurry=refreshing.refresher.break_off,
        grace_seconds=VIEW_GRACE_SECONDS,
    )
    for loader in place.loaders():
        name = f"destination {loader.destination.name}"
        thread = DestinationThread(loader, scheduler.breaker)
        scheduler.followers.append(thread.wake)
        services[name] = ThreadService(name, thread.run, ended=stop, wake=thread.wake)
    if (tables := place.puller) is not None:
        puller = SourcePuller(tables, scheduler.breaker, scheduler.wake)
        services["sources"] = ThreadService("sources", puller.run, ended=stop)
    if (loads := place.initial_loader(spares_a_core=True)) is not None:
        loading = InitialLoadThread(loads, scheduler.breaker, scheduler.wake)
        services["initial loads"] = ThreadService("initial loads", loading.run, ended=stop)
    if place.hook_settings.hooks:
        refuse_unusable_hooks(place.hook_settings)
        messenger = Messenger(place.pool, place.holder, place.hook_settings)
        services["hooks"] = ThreadService("hooks", messenger.run, ended=stop)
    return services


def make_backfiller(
    config: Config,
    place: Workplace,
    *,
    scheduler: Scheduler,
    settings: WorkerSettings,
    stop: threading.Event,
) -> dict[str, Service]:
    """The thread that processes chunks of backfills; none where `backfill.on_workers` says so."""
    if not serves_backfills(config):
        return {}
    server = JobServer(
        dsn=database_of(config),
        holder=place.holder,
        lease_seconds=settings.lease_seconds,
        functions=frozenset(config.words("backfill.functions")),
        open_kind=WorkerKinds(place, database_of(config), is_over=stop.is_set),
    )
    serve = partial(server.serve, control_breaker=scheduler.breaker)
    return {"backfills": ThreadService("backfills", serve, ended=stop)}


def make_verifier(config: Config, place: Workplace, *, stop: threading.Event) -> dict[str, Service]:
    """The thread that verifies while nothing is queued; none where `verify.on_workers` says so."""
    settings = verification_settings(config)
    if settings is None:
        return {}
    run = partial(verify_when_idle, place, settings)
    return {"verification": ThreadService("verification", run, ended=stop)}


def make_rest_server(config: Config, place: Workplace) -> RestServer:
    """The REST server beside a worker."""
    return RestServer(config, dsn=database_of(config), datasets=place.datasets)


def make_watcher(
    config: Config, place: Workplace, state: StateFile, *, on_queued: Callable[[], None]
) -> Agent:
    """An agent that watches the roots of a workplace and queues straight into its database."""
    return Agent(
        list(place.datasets.values()),
        agent_settings(config),
        state=state,
        transport=DirectTransport(place.pool, instance_name=place.holder.instance_name, on_queued=on_queued),
        clock_us=lambda: time.time_ns() // 1_000,
    )


def make_consumer(
    config: Config, place: Workplace, *, broker_url: str, scheduler: Scheduler, stop: threading.Event
) -> Service:
    """The thread that takes announcements from the broker."""
    from disarray.worker.process.intake import Intake

    intake = Intake(
        place,
        broker_url=broker_url,
        broker_prefix=config.text("broker.prefix"),
        breaker=scheduler.breaker,
        on_queued=scheduler.wake,
    )
    return ThreadService("consumer", intake.run, ended=stop)


def log_start(place: Workplace, settings: WorkerSettings) -> None:
    """A line that says who began to work on what."""
    log.info(
        "%s (life %d) serves %s with %d cores of %s",
        settings.name,
        place.holder.incarnation,
        ", ".join(place.subject_patterns),
        place.runner.cores,
        settings.runner.value,
    )
