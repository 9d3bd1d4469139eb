"""The `disarray` command.

Exit codes: 0 it worked, 1 it failed and said why, 2 it was called wrongly.
Commands import what they need when they run, so that help is instant.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from disarray import __version__
from disarray.cli.commands import (
    agent,
    api,
    audit,
    config,
    conflicts,
    db,
    dead_letters,
    doctor,
    explain,
    export,
    files,
    history,
    housekeeping,
    ingest,
    init,
    quarantine,
    queue,
    rebuild,
    reconcile,
    rollup,
    status,
    store,
    token,
    up,
    value,
    verify,
    worker,
    workers,
)
from disarray.cli.commands.formats import formats_app
from disarray.cli.support.context import Flags
from disarray.cli.support.terminal import guard_streams
from disarray.demo import run
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
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(workers.app, name="workers")
app.add_typer(history.subjects_app, name="subjects")
app.add_typer(history.runs_app, name="runs")
app.command(name="events")(history.events)
app.add_typer(token.app, name="token")
app.add_typer(formats_app, name="formats")
app.add_typer(store.app, name="store")
app.command(name="init")(init.init)
app.command(name="up")(up.up)
app.command(name="demo")(run.demo)
app.command(name="ingest")(ingest.ingest)
app.command(name="plan")(ingest.plan)
app.command(name="value")(value.value)
app.command(name="series")(value.series)
app.command(name="explain")(explain.explain)
app.command(name="rollup")(rollup.rollup)
app.command(name="restatements")(rollup.restatements)
app.command(name="conflicts")(conflicts.conflicts)
app.command(name="export")(export.export)
app.command(name="rebuild")(rebuild.rebuild)
app.command(name="reconcile")(reconcile.reconcile)
app.command(name="status")(status.status)
app.command(name="housekeeping")(housekeeping.housekeeping)
app.command(name="doctor")(doctor.doctor)
app.command(name="verify")(verify.verify)
app.command(name="audit")(audit.audit)
app.command(name="agent")(agent.agent)
app.command(name="api")(api.api)
app.command(name="worker")(worker.worker)


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
    guard_streams()
    try:
        app(prog_name="disarray")
    except DisarrayError as error:
        typer.echo(f"disarray: {error}", err=True)
        sys.exit(1)
