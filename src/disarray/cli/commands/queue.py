"""`disarray queue`: what waits and what runs."""

from __future__ import annotations

from typing import Annotated

import typer

from disarray.cli.support.options import After, AsJson, Limit, OfSubject
from disarray.cli.support.printing import Columns, print_list
from disarray.cli.support.project import control_session
from disarray.cli.support.rendering import use_zone
from disarray.model.item_status import ItemStatus  # noqa: TC001 (typer reads it when it runs)

app = typer.Typer(no_args_is_help=True, help="Look at the queue.")


@app.callback()
def _group() -> None:
    """Keep `list` a subcommand though it is the only one."""


@app.command("list")
def list_items(
    context: typer.Context,
    *,
    subject: OfSubject = None,
    status: Annotated[ItemStatus | None, typer.Option(help="Only items that wait, or that run.")] = None,
    limit: Limit = 100,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """List queued items, in the order in which they were queued."""
    from disarray.queries.queue import list_queue

    use_zone(context)
    with control_session(context) as connection:
        found = list_queue(connection, subject_key=subject, status=status, limit=limit, after=after)
    columns: Columns = {
        "id": lambda entry: str(entry.queue_id),
        "subject": "subject_key",
        "status": "status",
        "lane": "lane",
        "kind": "kind",
        "reason": "reason",
        "attempts": lambda entry: f"{entry.retry_count} of {entry.max_retries}",
        "available at": "available_at",
        "claimed by": "claimed_by_instance_name",
        "file": "source_uri",
    }
    is_filtered = subject is not None or status is not None
    print_list(
        found.items,
        columns,
        as_json=as_json,
        otherwise="Nothing of that is queued." if is_filtered else "Nothing is queued.",
        following=found.next,
    )
