"""`disarray formats`: which instruments are known, and what would be read from a file at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from disarray.cli.support.options import AsJson
from disarray.cli.support.printing import print_json
from disarray.cli.support.project import extra_installed
from disarray.cli.support.text_tables import Table, print_parts

app = typer.Typer(no_args_is_help=True, help="Instrument formats: list them, show one, try one on a file.")

Project = Annotated[
    Path, typer.Option("--project", help="Folder of disarray.toml; its formats/ folder is looked at too.")
]
HERE = Path()


@app.command("list")
def list_formats(*, project: Project = HERE, as_json: AsJson = False) -> None:
    """List the formats that datasets can name."""
    from disarray.formats.loader import all_descriptions

    known = all_descriptions(project)
    if as_json:
        print_json(
            [
                {"name": name, "title": each.format.title, "kind": each.format.kind, "shipped": each.shipped}
                for name, each in known.items()
            ]
        )
    else:
        rows = [
            [name, f"{each.format.title}{'' if each.shipped else ' (your own)'}"]
            for name, each in known.items()
        ]
        print_parts([Table(["", ""], rows)])


@app.command("show")
def show_format(name: str, *, project: Project = HERE, as_json: AsJson = False) -> None:
    """Print a format's description, with what goes wrong silently; a good start for one of your own."""
    from disarray.formats.loader import all_descriptions, find_description

    found = find_description(name, all_descriptions(project))
    if as_json:
        print_json(found.table)
    else:
        typer.echo(found.text.rstrip("\n"))


@app.command("try")
def try_format(
    file: Path,
    *,
    format_name: Annotated[
        str | None, typer.Option("--format", help="Do not guess; use this format.")
    ] = None,
    zone: Annotated[str | None, typer.Option(help="Zone of local stamps, such as Europe/Berlin.")] = None,
    rows: Annotated[int, typer.Option(min=1, max=1_000, help="How many readings to show.")] = 8,
    project: Project = HERE,
    as_json: AsJson = False,
) -> None:
    """Read a file as the pipeline would, show what came out of it, and propose a dataset. Nothing is changed."""
    with extra_installed("worker", purpose="`formats try`"):
        from disarray.cli.support.format_report import report_json, report_text
        from disarray.cli.support.format_trial import try_file

    trial = try_file(file, format_name=format_name, zone=zone, project=project)
    if as_json:
        print_json(report_json(trial, rows=rows))
    else:
        report_text(trial, rows=rows)
