"""`disarray db`: the database behind everything."""

from __future__ import annotations

import typer

from disarray.cli.context import configuration, database_dsn

app = typer.Typer(no_args_is_help=True, help="Start, stop and find the database.")

_OWN_SERVER = "A PostgreSQL of your own is configured ({origin}); disarray neither starts nor stops it."


@app.command()
def start(context: typer.Context) -> None:
    """Start the embedded PostgreSQL, or find it running."""
    from disarray.control import embedded

    config = configuration(context)
    if config.dsn is not None:
        typer.echo(_OWN_SERVER.format(origin=config.origin("database.dsn")))
        return
    server = embedded.start(config.state_dir)
    typer.echo(f"PostgreSQL {server.version} is running (pid {server.pid}), data in {server.data_dir}")


@app.command()
def stop(context: typer.Context) -> None:
    """Stop the embedded PostgreSQL; committed data stays."""
    from disarray.control import embedded

    config = configuration(context)
    if config.dsn is not None:
        typer.echo(_OWN_SERVER.format(origin=config.origin("database.dsn")))
        return
    stopped = embedded.stop(config.state_dir)
    typer.echo("PostgreSQL is stopped" if stopped else "PostgreSQL was not running")


@app.command()
def url(context: typer.Context) -> None:
    """Print a DSN that psql takes, starting the embedded server if need be: psql "$(disarray db url)"."""
    typer.echo(database_dsn(configuration(context)))
