"""The `disarray` command.

Exit codes: 0 it worked, 1 it failed and said why, 2 it was called wrongly.
Commands import what they need when they run, so that help is instant.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from disarray import __version__
from disarray.cli.support.command_list import CommandList
from disarray.cli.support.project import Flags
from disarray.cli.support.terminal import guard_streams
from disarray.errors import DisarrayError

if TYPE_CHECKING:
    from collections.abc import Sequence

HELP_FLAGS = ("-h", "--help")
# Where each command is: a function, or a group of commands. A call imports the one that it names.
COMMANDS = {
    "db": "cli.commands.db:app",
    "config": "cli.commands.config:app",
    "queue": "cli.commands.queue:app",
    "files": "cli.commands.files:app",
    "quarantine": "cli.commands.quarantine:app",
    "dead-letters": "cli.commands.dead_letters:app",
    "inbox": "cli.commands.inbox:app",
    "sink": "cli.commands.sink:app",
    "source": "cli.commands.source:app",
    "hook": "cli.commands.hook:app",
    "backfill": "cli.commands.backfill:app",
    "workers": "cli.commands.workers:app",
    "subjects": "cli.commands.history:subjects_app",
    "runs": "cli.commands.history:runs_app",
    "token": "cli.commands.token:app",
    "formats": "cli.commands.formats:app",
    "store": "cli.commands.store:app",
    "view": "cli.commands.view:app",
    "init": "cli.commands.init:init",
    "up": "cli.commands.up:up",
    "demo": "demo.run:demo",
    "ingest": "cli.commands.ingest:ingest",
    "plan": "cli.commands.ingest:plan",
    "value": "cli.commands.value:value",
    "series": "cli.commands.value:series",
    "explain": "cli.commands.explain:explain",
    "rollup": "cli.commands.rollup:rollup",
    "restatements": "cli.commands.rollup:restatements",
    "conflicts": "cli.commands.conflicts:conflicts",
    "export": "cli.commands.export:export",
    "rebuild": "cli.commands.rebuild:rebuild",
    "reconcile": "cli.commands.reconcile:reconcile",
    "events": "cli.commands.history:events",
    "status": "cli.commands.status:status",
    "housekeeping": "cli.commands.housekeeping:housekeeping",
    "doctor": "cli.commands.doctor:doctor",
    "verify": "cli.commands.verify:verify",
    "audit": "cli.commands.audit:audit",
    "agent": "cli.commands.agent:agent",
    "api": "cli.commands.api:api",
    "worker": "cli.commands.worker:worker",
}


def make_app(words: Sequence[str] = ()) -> typer.Typer:
    """The command line; for the words of a call, only the commands that occur among them, or all if none does.

    Importing thirty commands to run one would take as long as asking the database for a value.
    """
    named = [word for word in words if word in COMMANDS or word in HELP_FLAGS]
    chosen = [name for name in COMMANDS if name in named]
    app = typer.Typer(
        cls=CommandList,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # rich alone would take as long to import as all the rest
        pretty_exceptions_enable=False,  # its tracebacks print local variables, and with them passwords
        epilog="Exit codes: 0 it worked, 1 it failed and said why, 2 it was called wrongly.",
        context_settings={"help_option_names": list(HELP_FLAGS)},
    )
    app.callback()(disarray)
    for name in COMMANDS if not chosen or named[0] in HELP_FLAGS else chosen:
        module, _, attribute = COMMANDS[name].partition(":")
        command = getattr(import_module(f"disarray.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, cls=CommandList)
        else:
            app.command(name=name)(command)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"disarray {__version__}")
        raise typer.Exit


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
        make_app(sys.argv[1:])(prog_name="disarray")
    except DisarrayError as error:
        typer.echo(f"disarray: {error}", err=True)
        sys.exit(1)
