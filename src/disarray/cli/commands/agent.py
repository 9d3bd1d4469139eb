"""`disarray agent`: watch folders and announce what is new in them."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.context import Flags, database_dsn
from disarray.cli.support.loglines import JsonLogs, LogLevel, start_logging
from disarray.cli.support.signals import stop_on_signals

if TYPE_CHECKING:
    from disarray.agent.agent import Agent
    from disarray.broker.transport import Transport
    from disarray.config import Config

log = logging.getLogger("disarray.agent")

STATE_FILE = Path("agent", "state.sqlite")


def agent(
    context: typer.Context,
    *,
    config_file: Annotated[
        Path, typer.Option("--config", help="The disarray.toml with the datasets to watch for.")
    ] = Path("disarray.toml"),
    once: Annotated[
        bool, typer.Option("--once", help="Announce what is there now, and end; 1 if not all of it went out.")
    ] = False,
    broker: Annotated[
        str | None, typer.Option(help="amqp://user:password@host:5672/%2F; else straight to the database.")
    ] = None,
    log_level: LogLevel = "info",
    json_logs: JsonLogs = False,
) -> None:
    """Watch the roots of all datasets and announce new and changed files."""
    from disarray.agent.agent import Agent as Watcher
    from disarray.agent.settings import agent_settings
    from disarray.agent.state import StateFile
    from disarray.config import load
    from disarray.formats.loader import load_datasets

    flags = context.find_object(Flags)
    given = {**(flags.given if flags else {}), "--broker": broker}
    config = load(config_file.absolute().parent, flags=given, file=config_file.absolute())
    datasets = load_datasets(config_file)
    settings = agent_settings(config)
    start_logging(log_level, as_json=json_logs)
    with ExitStack() as stack:
        state = StateFile(config.state_dir / STATE_FILE)
        stack.callback(state.close)
        transport = _open_transport(config, stack)
        watcher = Watcher(
            datasets, settings, state=state, transport=transport, clock_us=lambda: time.time_ns() // 1_000
        )
        stop = stop_on_signals()
        if once:
            roots = watcher.drain(stop=stop)
            _summarize(watcher)
            raise typer.Exit(0 if roots.is_complete else 1)
        watched = sorted({root for dataset in datasets for root in dataset.roots})
        log.info("watching %s for %d datasets", ", ".join(watched) or "nothing", len(datasets))
        watcher.run(stop)
        _summarize(watcher)


def _open_transport(config: Config, stack: ExitStack) -> Transport:
    if config.broker_url is not None:
        from disarray.broker.publisher import RabbitTransport
        from disarray.broker.topology import Names

        rabbit = RabbitTransport(config.broker_url, names=Names(config.text("broker.prefix")))
        stack.callback(rabbit.close)
        return rabbit
    from disarray.broker.direct import DirectTransport
    from disarray.control.connections import open_pool

    pool = open_pool(database_dsn(config), application_name="disarray agent", max_size=1)
    stack.callback(pool.close)
    return DirectTransport(pool)


def _summarize(watcher: Agent) -> None:
    counts = watcher.counts
    log.info(
        "%d files, %d notifications, %d sent, %d refused; %d bytes wait in the spool",
        counts.files,
        counts.notifications,
        counts.delivered,
        counts.refused,
        watcher.backlog_bytes,
    )
