"""`disarray db`: the database behind everything."""

from __future__ import annotations

from typing import Annotated

import typer

from disarray.cli.support.context import configuration, database_dsn

app = typer.Typer(no_args_is_help=True, help="Start, stop, find and migrate the database.")

_OWN_SERVER = "A PostgreSQL of your own is configured ({origin}); disarray neither starts nor stops it."


@app.command()
def start(context: typer.Context) -> None:
    """Start the embedded PostgreSQL, or find it running."""
    from disarray import embedded

    config = configuration(context)
    if config.dsn is not None:
        typer.echo(_OWN_SERVER.format(origin=config.origin("database.dsn")))
        return
    server = embedded.start(config.state_dir)
    typer.echo(f"PostgreSQL {server.version} is running (pid {server.pid}), data in {server.data_dir}")


@app.command()
def stop(context: typer.Context) -> None:
    """Stop the embedded PostgreSQL; committed data stays."""
    from disarray import embedded

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
def status(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show the server and the version of its schema; nothing is started or changed."""
    from disarray.control import connections, migrations
    from disarray.queries.project import running_dsn

    with connections.connect(
        running_dsn(configuration(context)), application_name="disarray cli"
    ) as connection:
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
        import json

        told = {
            "server_version": server,
            "known_version": known[-1].version,
            "applied_version": max(done, default=None),
            "pending": pending,
            "unknown": unknown,
            "functions_of_another_program": bool(applied) and schema.has_other_functions,
        }
        typer.echo(json.dumps(told, indent=2))
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
