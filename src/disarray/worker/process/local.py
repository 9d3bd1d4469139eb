"""A worker's means from the configuration: everything that one process needs, nothing set up by hand."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from disarray.control import connections, events, instances, migrations
from disarray.control.connections import SessionLimits
from disarray.control.queue import Holder, Incarnation
from disarray.failpoints import failpoint
from disarray.queries.project import configured_datasets, configured_sources
from disarray.sinks.destination_file import load_destinations
from disarray.sinks.hook_settings import hook_settings, register_all_hooks
from disarray.sources.inbox import refuse_unreadable_inboxes
from disarray.sources.landing import Landing
from disarray.sources.table_puller import refuse_unreadable_sources
from disarray.store.lake import Lake
from disarray.store.registering import register_all
from disarray.worker.housekeeping_settings import housekeeping_settings
from disarray.worker.process.scheduler import BATCH
from disarray.worker.process.settings import RunnerKind, inbox_settings, loader_settings, worker_settings
from disarray.worker.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from disarray.config import Config
    from disarray.control.connections import Connection, Pool
    from disarray.engine.runner import Runner
    from disarray.model.description.dataset import Dataset

# Of each destination: what it reads, what it loads into, and its lease.
_CONNECTIONS_OF_A_DESTINATION = 3
# The scheduler, its commits, the heartbeat, the consumer, an agent in the same process, hooks, a view that is refreshed
# for minutes, an initial load and its leases, and one to spare.
_CONNECTIONS = 12


def database_of(config: Config) -> str:
    """The DSN to work with: the configured one, or the embedded server, started and migrated if need be."""
    if config.dsn is not None:
        return config.dsn
    from disarray import embedded

    dsn = embedded.start(config.state_dir).dsn
    with connections.connect(dsn, application_name="disarray migrate") as connection:
        # Nobody else looks after it: a program that is newer than its database brings it along.
        if len(migrations.list_migrations(connection)) < len(migrations.known_migrations()):
            migrations.migrate(connection)
    return dsn


@contextmanager
def open_pool(
    config: Config,
    *,
    application_name: str,
    lease_seconds: int = BATCH.lease_seconds,
    destinations: int = 0,
) -> Iterator[Pool]:
    """Connections to a database whose schema this program can work with."""
    with connections.open_pool(
        database_of(config),
        limits=SessionLimits.for_lease(lease_seconds),
        application_name=application_name,
        max_size=_CONNECTIONS + _CONNECTIONS_OF_A_DESTINATION * destinations,
    ) as pool:
        with pool.connection() as connection:
            migrations.prepare_schema(connection)
        yield pool


@contextmanager
def open_workplace(
    config: Config,
    *,
    instance_name: str,
    patterns: Sequence[str] | None = None,
    datasets: Mapping[str, Dataset] | None = None,
) -> Iterator[Workplace]:
    """A registered worker with somewhere to run kernels; both end with the block.

    `datasets` are those of the project, unless others are given.
    """
    settings = worker_settings(config)
    datasets = configured_datasets(config) if datasets is None else datasets
    destinations = load_destinations(config.dataset_file, datasets)
    hooks = hook_settings(config, datasets)
    with ExitStack() as stack:
        pool = stack.enter_context(
            open_pool(
                config,
                application_name=f"disarray {instance_name}",
                lease_seconds=settings.lease_seconds,
                destinations=len(destinations),
            )
        )
        runner = stack.enter_context(open_runner(config, settings.runner))
        with pool.connection() as connection:
            register_all(connection, datasets.values())
            register_all_hooks(connection, hooks.hooks)
            events.provision_event_partitions(connection)
            former = _patterns_of(connection, instance_name)
            holder = instances.register_instance(connection, instance_name, subject_patterns=patterns)
            served = _patterns_of(connection, instance_name)
            failpoint("start.registered", connection)
        config.lake_root.mkdir(parents=True, exist_ok=True)
        landing = Landing(config.landing_root)
        refuse_unreadable_inboxes(landing, tuple(datasets.values()))
        sources = configured_sources(config, datasets)
        refuse_unreadable_sources(landing, sources, tuple(datasets.values()))
        place = Workplace(
            pool,
            runner,
            Lake(config.lake_root),
            datasets,
            holder,
            subject_patterns=served,
            former_patterns=former,
            landing=landing,
            inbox_settings=inbox_settings(config),
            hook_settings=hooks,
            housekeeping=housekeeping_settings(config),
            destinations=destinations,
            loader_settings=loader_settings(config),
            sources=sources,
        )
        for loader in place.loaders():
            loader.register()
        yield place


@contextmanager
def open_house(config: Config) -> Iterator[Workplace]:
    """A workplace without Spark and without a name: enough to keep house, which costs no start of an engine."""
    from disarray.engine.runner import InProcessRunner

    datasets = configured_datasets(config)
    with open_pool(config, application_name="disarray housekeeping") as pool:
        yield Workplace(
            pool,
            InProcessRunner(),
            Lake(config.lake_root),
            datasets,
            Holder("housekeeping", Incarnation(0)),
            landing=Landing(config.landing_root),
            housekeeping=housekeeping_settings(config),
        )


@contextmanager
def open_runner(config: Config, kind: RunnerKind) -> Iterator[Runner]:
    """Somewhere to run kernels; a session of Spark that is started for it is stopped afterwards."""
    from disarray.engine.runner import InProcessRunner, SparkRunner

    if kind is RunnerKind.IN_PROCESS:
        yield InProcessRunner()
        return
    from disarray.engine.session import start_session, stop_session

    session = start_session(config.spark_settings, log_file=config.state_dir / "spark.log")
    try:
        yield SparkRunner(session)
    finally:
        stop_session(session)


def _patterns_of(connection: Connection, instance_name: str) -> tuple[str, ...]:
    return tuple(
        pattern
        for instance in instances.list_instances(connection)
        if instance.instance_name == instance_name
        for pattern in instance.subject_patterns
    )
