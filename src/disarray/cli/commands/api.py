"""`disarray api`: the REST server alone."""

from __future__ import annotations

from typing import Annotated

import typer

from disarray.cli.support.loglines import JsonLogs, LogLevel, start_logging
from disarray.cli.support.options import Port
from disarray.cli.support.project import configuration, database_dsn
from disarray.cli.support.signals import SIGNAL_SECONDS, stop_on_signals


def api(
    context: typer.Context,
    *,
    host: Annotated[
        str | None, typer.Option(help="Where to listen; 127.0.0.1 if not given. Elsewhere tokens are needed.")
    ] = None,
    port: Port = None,
    require_token: Annotated[
        bool,
        typer.Option(
            "--require-token", help="Take no token of this machine either, only those that were made."
        ),
    ] = False,
    log_level: LogLevel = "info",
    json_logs: JsonLogs = False,
) -> None:
    """Serve the REST API and the metrics for Prometheus until SIGTERM or Ctrl-C."""
    from disarray.cli.support.serving import RestServer
    from disarray.control import connections, migrations
    from disarray.formats.loader import load_datasets

    start_logging(log_level, as_json=json_logs)
    stop = stop_on_signals()
    config = configuration(context, {"--host": host, "--port": port})
    dsn = database_dsn(config)
    with connections.connect(dsn, application_name="disarray api") as connection:
        migrations.prepare_schema(connection)
    datasets = load_datasets(config.dataset_file) if config.dataset_file.exists() else ()
    server = RestServer(
        config, dsn=dsn, datasets={each.name: each for each in datasets}, require_token=require_token
    )
    server.start()
    try:
        typer.echo(server.url)
        while not stop.wait(SIGNAL_SECONDS):
            pass
    finally:
        server.stop()
