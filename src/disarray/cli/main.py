"""The `disarray` command.

Exit codes: 0 it worked, 1 it failed and said why, 2 it was called wrongly.
Commands import what they need when they run, so that help is instant.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from disarray import __version__
from disarray.cli import (
    agent,
    config,
    db,
    demo,
    doctor,
    export,
    files,
    ingest,
    quarantine,
    queue,
    rollup,
    status,
    value,
    verify,
)
from disarray.cli.context import Flags
from disarray.cli.formats import formats_app
from disarray.errors import DisarrayError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # rich alone would take as long to import as all the rest
    pretty_exceptions_enable=False,  # its tracebacks print local variables, and with them passwords
    epilog="Exit codes: 0 it worked, 1 it failed and said why, 2 it was called wrongly.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(db.app, name="db")
app.add_typer(config.app, name="config")
app.add_typer(queue.app, name="queue")
app.add_typer(files.app, name="files")
app.add_typer(quarantine.app, name="quarantine")
app.add_typer(formats_app, name="formats")
app.command(name="demo")(demo.demo)
app.command(name="ingest")(ingest.ingest)
app.command(name="plan")(ingest.plan)
app.command(name="value")(value.value)
app.command(name="series")(value.series)
app.command(name="rollup")(rollup.rollup)
app.command(name="restatements")(rollup.restatements)
app.command(name="export")(export.export)
app.command(name="status")(status.status)
app.command(name="doctor")(doctor.doctor)
app.command(name="verify")(verify.verify)
app.command(name="agent")(agent.agent)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"disarray {__version__}")
        raise typer.Exit


@app.callback()
def disarray(
    context: typer.Context,
    *,
    state_dir: Annotated[
        str | None,
        typer.Option(help="Where the embedded database and other state live; ./.disarray if not given."),
    ] = None,
    dsn: Annotated[
        str | None, typer.Option(help="Use this PostgreSQL (15 or later) instead of the embedded one.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keep metrics and rollups right while instrument files arrive late, twice and half-written."""
    context.obj = Flags({"--state-dir": state_dir, "--dsn": dsn})


def main() -> None:
    """Run the command line; an error that disarray raises on purpose is printed without a traceback."""
    try:
        app(prog_name="disarray")
    except DisarrayError as error:
        typer.echo(f"disarray: {error}", err=True)
        sys.exit(1)
