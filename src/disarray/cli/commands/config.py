"""`disarray config`: every setting, and where its value came from."""

from __future__ import annotations

import typer

from disarray.cli.support.options import AsJson
from disarray.cli.support.printing import print_json
from disarray.cli.support.project import configuration
from disarray.cli.support.text_tables import Table, print_parts

app = typer.Typer(no_args_is_help=True, help="Show the configuration.")


@app.callback()
def _group() -> None:
    """Keep `show` a subcommand though it is the only one."""


@app.command()
def show(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Print every setting with its origin; passwords are hidden."""
    settings = configuration(context).settings
    if as_json:
        print_json([{"name": each.name, "value": each.shown, "origin": each.origin} for each in settings])
    else:
        rows = [[each.name, "(none)" if each.shown is None else each.shown, each.origin] for each in settings]
        print_parts([Table(["", "", ""], rows)])
