"""What commands print: lists by declared columns, JSON for programs, and the notes below them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import typer

from disarray.cli.support.rendering import shown_moment
from disarray.cli.support.text_tables import Table, print_parts
from disarray.model.documents import plain
from disarray.model.printable import visible_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from disarray.queries.names import SubjectOf

# A heading with the name of a field of the record, or with a function of the record.
Columns = Mapping[str, str | Callable[[Any], object]]
DRY_RUN_NOTE = "This was a dry run: nothing was changed."
SHOWN_SUBJECTS = 5


def print_json(document: Any, *, err: bool = False) -> None:
    """One JSON document, floats with every bit, instants in UTC."""
    written = json.dumps(plain(document), indent=2, default=str, ensure_ascii=False)
    typer.echo(visible_json(written), err=err)


def table_of(rows: Iterable[Any], columns: Columns) -> Table:
    """A table of records."""
    fields = [attrgetter(each) if isinstance(each, str) else each for each in columns.values()]
    return Table(list(columns), [[cell(field(row)) for field in fields] for row in rows])


def cell(value: object) -> str:
    """A value in a table: instants to the second, whole numbers with separators, nothing as a dash."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return shown_moment(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def print_list(
    rows: Sequence[Any], columns: Columns, *, as_json: bool, otherwise: str, following: str | None = None
) -> None:
    """A list as a table or as JSON; `otherwise` is printed for an empty one, `following` is where a cut one goes on."""
    if as_json:
        print_json(rows)
    elif rows:
        print_parts([table_of(rows, columns)])
    else:
        typer.echo(otherwise)
    print_following(following, len(rows))


def print_following(following: str | None, count: int) -> None:
    """That a list was cut off, and where it goes on."""
    if following is not None:
        typer.echo(f"There are more than {count}. The next ones: --after {following}", err=True)


def print_decision(
    document: Mapping[str, object], sentences: Iterable[str], *, dry_run: bool, as_json: bool
) -> None:
    """What an operator decided, for programs or as sentences."""
    if as_json:
        print_json({**document, "dry_run": dry_run})
        return
    for sentence in sentences:
        typer.echo(sentence)
    if dry_run:
        typer.echo(DRY_RUN_NOTE)


def print_queued(uri: str, queue_id: int | None, what: str, *, dry_run: bool, as_json: bool) -> None:
    """What was decided about a file, and the item that was queued for it; an item of a dry run is gone with it."""
    rest = (
        "."
        if queue_id is None or dry_run
        else f"; item {queue_id} waits for a worker. Or run: disarray ingest"
    )
    print_decision(
        {"source_uri": uri, "queue_id": None if dry_run else queue_id},
        [f"{uri} {what}{rest}"],
        dry_run=dry_run,
        as_json=as_json,
    )


def print_failures(failures: Iterable[str], *, as_json: bool = False) -> None:
    """What failed, on standard error; a JSON document has it inside. Ends the command with 1 if anything did."""
    failures = list(failures)
    for failure in [] if as_json else failures:
        typer.echo(f"failed: {failure}", err=True)
    if failures:
        raise typer.Exit(1)


def print_pending_rebuilds(subjects: Sequence[SubjectOf], *, err: bool = False) -> None:
    """A sentence for each dataset that was defined anew and still shows numbers of the former definition."""
    waiting = [each for each in subjects if each.rebuilt is not None]
    for name in sorted({each.dataset.name for each in waiting}):
        of_dataset = [each for each in waiting if each.dataset.name == name]
        done, count = of_dataset[0].rebuilt or (0, 0)
        shown = ", ".join(each.subject_key for each in of_dataset[:SHOWN_SUBJECTS])
        rest = " …" if len(of_dataset) > SHOWN_SUBJECTS else ""
        typer.echo(
            f"Dataset '{name}' was defined anew, and numbers of {shown}{rest} are still as defined before: a rebuild "
            f"is pending ({done} of {count} subjects rebuilt).",
            err=err,
        )
