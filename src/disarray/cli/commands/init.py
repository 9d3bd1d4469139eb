"""`disarray init`: a project folder to begin with."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from disarray.errors import ConfigError

SAMPLE_DAYS = 7
HELD_BACK = Path("held_back")


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Made if it is not there.")],
) -> None:
    """Write a commented disarray.toml and a week of sample files, one of them held back. Nothing is overwritten."""
    from disarray.config import FILE_NAME

    project = folder / FILE_NAME
    for path in (project, folder / "inbox", folder / HELD_BACK):
        if path.exists():
            raise ConfigError(
                f"{path} is there already. Nothing was written. Choose another folder, or run 'disarray up' in this one"
            )
    try:
        late = _write_sample(folder)
        # Mode x: whoever came first in between keeps what they wrote.
        with project.open("x", encoding="utf-8") as file:
            file.write((files("disarray.cli") / "project.toml").read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be written: {error}. It may hold a part of the project"
        ) from error
    typer.echo(
        f"wrote {project}, a week of reports of TOOL07 in {folder / 'inbox'}, and one that is held back"
    )
    typer.echo("Next:")
    typer.echo(f"  cd {folder}")
    typer.echo("  disarray up --once                         # takes the reports in and ends")
    typer.echo("  disarray value TOOL07 in_spec_total        # what they came to")
    typer.echo(f"  mv {HELD_BACK / late} inbox/TOOL07/   # now one lands late: up --once again")
    typer.echo("  disarray up                                # watches inbox/ until Ctrl-C")


def _write_sample(folder: Path) -> str:
    """A week of one tool in the inbox but for one report of the second day; the name of that one."""
    from disarray.demo.factory import LATE_TOOL, Factory

    reports = Factory(tools=8, days=SAMPLE_DAYS, seed=7).reports_of(LATE_TOOL)
    late = reports[8]
    for report in reports:
        path = (
            folder / HELD_BACK / Path(report.name).name if report is late else folder / "inbox" / report.name
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(report.text)
    return Path(late.name).name
