"""`disarray queue`: what waits and what runs."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.context import configuration
from disarray.cli.support.database_session import control_session
from disarray.cli.support.text_tables import Table, print_parts

if TYPE_CHECKING:
    from disarray.control.queue import QueueEntry

app = typer.Typer(no_args_is_help=True, help="Look at the queue.")


class ItemStatus(enum.StrEnum):
    """What an item can be while it is queued."""

    AVAILABLE = "available"
    CLAIMED = "claimed"


@app.callback()
def _group() -> None:
    """Keep `list` a subcommand though it is the only one."""


@app.command("list")
def list_items(
    context: typer.Context,
    *,
    subject: Annotated[str | None, typer.Option(help="Only this subject.")] = None,
    status: Annotated[ItemStatus | None, typer.Option(help="Only items that wait, or that run.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List queued items, oldest first."""
    from disarray.control.queue import list_queue

    with control_session(configuration(context)) as connection:
        entries = list_queue(connection, subject_key=subject, status=status, limit=limit + 1)
    shown = entries[:limit]
    if as_json:
        _print_json(shown)
    elif shown:
        headings = ["id", "subject", "status", "reason", "attempts", "available at", "claimed by", "file"]
        print_parts([Table(headings, [_row(entry) for entry in shown])])
    else:
        typer.echo(
            "Nothing is queued." if subject is None and status is None else "Nothing of that is queued."
        )
    if len(entries) > limit:
        typer.echo(f"There are more than {limit}; --limit shows them.", err=True)


def _row(entry: QueueEntry) -> list[str]:
    return [
        str(entry.queue_id),
        entry.subject_key,
        entry.status,
        entry.reason,
        f"{entry.retry_count} of {entry.max_retries}",
        f"{entry.available_at:%Y-%m-%d %H:%M:%S}Z",
        entry.claimed_by_instance_name or "-",
        entry.source_uri or "-",
    ]


def _print_json(entries: list[QueueEntry]) -> None:
    import json
    from dataclasses import asdict

    typer.echo(json.dumps([asdict(entry) for entry in entries], indent=2, default=str))
