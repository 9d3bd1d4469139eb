"""`disarray config`: what disarray was told, and by whom."""

from __future__ import annotations

from typing import Annotated

import typer

from disarray.cli.support.context import configuration

app = typer.Typer(no_args_is_help=True, help="Show the configuration.")


@app.callback()
def _group() -> None:
    """Keep `show` a subcommand though it is the only one."""


@app.command()
def show(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Print every setting with its origin; passwords are hidden."""
    settings = configuration(context).settings
    if as_json:
        import json

        rows = [{"name": s.name, "value": s.shown, "origin": s.origin} for s in settings]
        typer.echo(json.dumps(rows, indent=2))
        return
    shown = [(s.name, s.shown if s.shown is not None else "(none)", s.origin) for s in settings]
    widths = [max(len(row[column]) for row in shown) for column in range(2)]
    for name, value, origin in shown:
        typer.echo(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {origin}")
