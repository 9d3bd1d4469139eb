"""`disarray agent`: watch folders and announce what is new in them."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.loglines import JsonLogs, LogLevel, start_logging
from disarray.cli.support.project import configuration, database_dsn
from disarray.cli.support.signals import stop_on_signals

if TYPE_CHECKING:
    from disarray.agent.agent import Agent
    from disarray.broker.transport import Transport
    from disarray.config import Config

log = logging.getLogger("disarray.agent")


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
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65_535, help="Tell figures at /metrics and /health of this port; 0: a free one."
        ),
    ] = None,
    log_level: LogLevel = "info",
    json_logs: JsonLogs = False,
) -> None:
    """Watch the roots of all datasets and announce new and changed files."""
    from disarray.agent.agent import Agent as Watcher
    from disarray.agent.settings import agent_settings, monitoring_address
    from disarray.agent.state import STATE_FILE, StateFile
    from disarray.formats.loader import load_datasets

    config = configuration(
        context, {"--broker": broker, "--metrics-port": metrics_port}, file=config_file.absolute()
    )
    datasets = load_datasets(config_file)
    settings = agent_settings(config)
    address = monitoring_address(config)
    start_logging(log_level, as_json=json_logs)
    with ExitStack() as stack:
        state = StateFile(config.state_dir / STATE_FILE)
        stack.callback(state.close)
        transport = _open_transport(config, stack)
        watcher = Watcher(datasets, settings, state=state, transport=transport, clock_us=_clock_us)
        if address is not None and not once:
            _tell_figures(watcher, address, stack)
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


def _tell_figures(watcher: Agent, address: tuple[str, int], stack: ExitStack) -> None:
    from disarray.agent.monitoring import MonitoringServer

    host, port = address
    server = MonitoringServer(host, port, figures=lambda: watcher.figures, clock_us=_clock_us)
    stack.callback(server.stop)
    server.start()


def _clock_us() -> int:
    return time.time_ns() // 1_000


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
