"""`disarray init`: a project folder to begin with."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Annotated, assert_never

import typer

from disarray.errors import ConfigError

SAMPLE_DAYS = 7
HELD_BACK = Path("held_back")
EVENTS = Path("events.jsonl")
DATABASE = Path("historian.sqlite")


class Extra(StrEnum):
    """What else a project may begin with."""

    TABLE = "table"
    EVENTS = "events"


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Made if it is not there.")],
    extras: Annotated[
        list[Extra] | None,
        typer.Option(
            "--with", help="Also a table of another database, or events of a program; may be given twice."
        ),
    ] = None,
) -> None:
    """Write a commented disarray.toml and a week of sample files, one of them held back. Nothing is overwritten."""
    from disarray.config import FILE_NAME

    wanted = sorted(set(extras or ()))
    project = folder / FILE_NAME
    for path in (project, folder / "inbox", folder / HELD_BACK, folder / EVENTS, folder / DATABASE):
        if path.exists():
            raise ConfigError(
                f"{path} is there already. Nothing was written. Choose another folder, or run 'disarray up' in this one"
            )
    try:
        late = _write_sample(folder)
        described = _text("project.toml") + "".join(_write_extra(folder, extra) for extra in wanted)
        # Mode x: whoever came first in between keeps what they wrote.
        with project.open("x", encoding="utf-8") as file:
            file.write(described)
    except (OSError, sqlite3.Error) as error:
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
    for extra in wanted:
        for line in _next_steps(extra):
            typer.echo(f"  {line}")
    typer.echo("  disarray up                                # watches inbox/ until Ctrl-C")


def _text(name: str) -> str:
    return (files("disarray.cli") / name).read_text(encoding="utf-8")


def _write_extra(folder: Path, extra: Extra) -> str:
    """The sample of an extra, and what describes it."""
    match extra:
        case Extra.TABLE:
            _write_historian(folder / DATABASE)
            return _text("with_table.toml").replace("@DATABASE@", str((folder / DATABASE).absolute()))
        case Extra.EVENTS:
            _write_events(folder / EVENTS)
            return _text("with_events.toml")
        case _:
            assert_never(extra)


def _next_steps(extra: Extra) -> tuple[str, ...]:
    match extra:
        case Extra.TABLE:
            return (
                "disarray source show historian             # how far the table was read: up --once did",
                "disarray value TOOL07 energy --dataset historian",
            )
        case Extra.EVENTS:
            return (
                f"disarray inbox record press {EVENTS}   # what a program would send; up --once delivers it",
                "disarray value PRESS2 pressed              # once it is taken in",
            )
        case _:
            assert_never(extra)


def _write_historian(path: Path) -> None:
    """An hour of two tools, in a table that a historian might have."""
    start = datetime(2026, 9, 1, 8, tzinfo=UTC)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "create table readings (id integer primary key, tool text not null, at text not null, power_w real,"
            " updated_at text not null)"
        )
        database.execute("create index readings_by_change on readings (updated_at, id)")
        database.executemany(
            "insert into readings (tool, at, power_w, updated_at) values (?, ?, ?, ?)",
            (
                (tool, at.isoformat(), 100.0 + minute % 7, (at + timedelta(seconds=5)).isoformat())
                for minute in range(60)
                for tool in ("TOOL07", "TOOL08")
                for at in (start + timedelta(minutes=minute),)
            ),
        )


def _write_events(path: Path) -> None:
    """Strokes of a press, a line each."""
    start = datetime(2026, 9, 1, 8, tzinfo=UTC)
    with path.open("x", encoding="utf-8") as file:
        for number in range(20):
            at = (start + timedelta(seconds=12 * number)).isoformat()
            event = {"stroke": f"a{number}", "tool": "PRESS2", "at": at, "force_kn": 118.5 + number % 5 / 4}
            file.write(json.dumps(event) + "\n")


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
