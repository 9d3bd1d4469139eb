"""A worker's means from the configuration: everything that one process needs, nothing set up by hand."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from disarray.control import catalog, connections, events, instances, migrations
from disarray.control.connections import SessionLimits
from disarray.errors import ConfigError
from disarray.formats.loader import load_datasets
from disarray.store.lake import Lake
from disarray.worker.scheduler import BATCH
from disarray.worker.work import Workplace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.config import Config
    from disarray.control.connections import Pool
    from disarray.model.dataset import Dataset


def configured_datasets(config: Config) -> dict[str, Dataset]:
    """The datasets of the project, by name; a project without any cannot take in a file."""
    if not config.dataset_file.exists():
        raise ConfigError(
            f"there is no {config.dataset_file}, so no file belongs to a dataset. Nothing was read. "
            "Run 'disarray formats try FILE': it proposes one"
        )
    datasets = {dataset.name: dataset for dataset in load_datasets(config.dataset_file)}
    if not datasets:
        raise ConfigError(
            f"{config.dataset_file} describes no [[dataset]], so no file belongs to one. Nothing was read. "
            "Run 'disarray formats try FILE': it proposes one"
        )
    return datasets


def database_of(config: Config) -> str:
    """The DSN to work with: the configured one, or the embedded server, started and migrated if need be."""
    if config.dsn is not None:
        return config.dsn
    from disarray.control import embedded

    dsn = embedded.start(config.state_dir).dsn
    with connections.connect(dsn, application_name="disarray migrate") as connection:
        # Nobody else looks after it: a program that is newer than its database brings it along.
        if len(migrations.list_migrations(connection)) < len(migrations.known_migrations()):
            migrations.migrate(connection)
    return dsn


@contextmanager
def open_pool(config: Config, *, application_name: str) -> Iterator[Pool]:
    """Connections to a database whose schema this program can work with."""
    with connections.open_pool(
        database_of(config),
        limits=SessionLimits.for_lease(BATCH.lease_seconds),
        application_name=application_name,
    ) as pool:
        with pool.connection() as connection:
            migrations.check_schema(connection)
        yield pool


@contextmanager
def open_workplace(config: Config, *, instance_name: str) -> Iterator[Workplace]:
    """A registered worker with a Spark session of its own; both end with the block."""
    from disarray.engine.runner import SparkRunner
    from disarray.engine.session import start_session

    datasets = configured_datasets(config)
    with ExitStack() as stack:
        pool = stack.enter_context(open_pool(config, application_name=f"disarray {instance_name}"))
        session = start_session(config.spark_settings, log_file=config.state_dir / "spark.log")
        stack.callback(session.stop)
        with pool.connection() as connection:
            for dataset in datasets.values():
                catalog.register_dataset(connection, dataset)
            events.provision_event_partitions(connection)
            holder = instances.register_instance(connection, instance_name)
        config.lake_root.mkdir(parents=True, exist_ok=True)
        yield Workplace(pool, SparkRunner(session), Lake(config.lake_root), datasets, holder)
