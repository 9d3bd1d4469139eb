"""`disarray db`: the database behind everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from disarray.cli.support.options import AsJson
from disarray.cli.support.printing import print_json
from disarray.cli.support.project import APPLICATION_NAME, configuration, database_dsn

if TYPE_CHECKING:
    from pathlib import Path

app = typer.Typer(no_args_is_help=True, help="Start, stop, find and migrate the database.")


@app.command()
def start(context: typer.Context) -> None:
    """Start the embedded PostgreSQL, or find it running."""
    from disarray import embedded

    if (state_dir := _embedded_state(context)) is None:
        return
    server = embedded.start(state_dir)
    typer.echo(f"PostgreSQL {server.version} is running (pid {server.pid}), data in {server.data_dir}")


@app.command()
def stop(context: typer.Context) -> None:
    """Stop the embedded PostgreSQL; committed data stays."""
    from disarray import embedded

    if (state_dir := _embedded_state(context)) is None:
        return
    stopped = embedded.stop(state_dir)
    typer.echo("PostgreSQL is stopped" if stopped else "PostgreSQL was not running")


def _embedded_state(context: typer.Context) -> Path | None:
    """The state folder of the embedded server; None, and a sentence, where another server is configured."""
    config = configuration(context)
    if config.dsn is None:
        return config.state_dir
    origin = config.origin("database.dsn")
    typer.echo(f"A PostgreSQL of your own is configured ({origin}); disarray neither starts nor stops it.")
    return None


@app.command()
def url(context: typer.Context) -> None:
    """Print a DSN that psql takes, starting the embedded server if need be: psql "$(disarray db url)"."""
    typer.echo(database_dsn(configuration(context)))


@app.command()
def migrate(context: typer.Context) -> None:
    """Bring the database to the schema of this program, starting the embedded server if need be."""
    from disarray.control import connections, migrations

    with connections.connect(
        database_dsn(configuration(context)), application_name="disarray migrate"
    ) as connection:
        applied = migrations.migrate(connection)
        version = migrations.schema_version(connection)
    for migration in applied:
        typer.echo(f"applied {migration.version:04} {migration.name}")
    typer.echo(f"The schema is at version {version}{'' if applied else ', as it was'}; its functions are new")


@app.command()
def status(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Show the server and the version of its schema; nothing is started or changed."""
    from disarray.control import connections, migrations
    from disarray.queries.project import running_dsn

    dsn = running_dsn(configuration(context))
    with connections.connect(dsn, application_name=APPLICATION_NAME) as connection:
        server = connection.info.parameter_status("server_version") or "unknown"
        schema = migrations.read_schema(connection)
    applied = schema.migrations
    known = migrations.known_migrations()
    done = {migration.version for migration in applied}
    pending = [
        f"{migration.version:04} {migration.name}" for migration in known if migration.version not in done
    ]
    unknown = sorted(done - {migration.version for migration in known})
    if as_json:
        document = {
            "server_version": server,
            "known_version": known[-1].version,
            "applied_version": max(done, default=None),
            "pending": pending,
            "unknown": unknown,
            "functions_of_another_program": bool(applied) and schema.has_other_functions,
        }
        print_json(document)
        return
    typer.echo(f"server   PostgreSQL {server}")
    typer.echo(f"schema   version {max(done)}" if done else "schema   none")
    typer.echo(f"program  version {known[-1].version}")
    if pending:
        typer.echo(f"pending  {', '.join(pending)}; run: disarray db migrate")
    elif applied and schema.has_other_functions:
        typer.echo("pending  the functions of this program; run: disarray db migrate")
    elif unknown:
        typer.echo("pending  nothing; the schema is newer than this program")
    else:
        typer.echo("pending  nothing")
