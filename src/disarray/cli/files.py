"""`disarray files`: where each file stands, its whole history, and what to do about it."""

from __future__ import annotations

import enum
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disarray.cli.context import configuration
from disarray.cli.session import control_session
from disarray.cli.tables import Table, print_parts
from disarray.cli.words import AsJson, By, Reason, counted, known_uri, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.control.events import FileEvent

app = typer.Typer(no_args_is_help=True, help="Files that were ever announced.")

File = Annotated[str, typer.Argument(help="A path or a uri.")]


class FileStatus(enum.StrEnum):
    """Where a file can stand."""

    PENDING = "pending"
    PROCESSED = "processed"
    FAILED = "failed"
    PARKED = "parked"
    BLACKLISTED = "blacklisted"


@app.command("list")
def list_known(
    context: typer.Context,
    *,
    subject: Annotated[str | None, typer.Option(help="Only of this one.")] = None,
    status: Annotated[FileStatus | None, typer.Option(help="Only those that stand there.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List files by uri."""
    from disarray.control.files import list_files

    with control_session(configuration(context)) as connection:
        found = list_files(connection, status=status, subject_key=subject, limit=limit + 1)
    shown = found[:limit]
    if as_json:
        print_json([asdict(record) for record in shown])
    elif shown:
        rows = [
            [
                record.subject_key,
                record.dataset or "-",
                record.status,
                str(record.process_count),
                record.source_uri,
            ]
            for record in shown
        ]
        print_parts([Table(["subject", "dataset", "status", "processed", "file"], rows)])
    else:
        typer.echo("No such file was ever announced.")
    if len(found) > limit:
        typer.echo(f"There are more than {limit}; --limit shows them.", err=True)


@app.command()
def show(context: typer.Context, file: File, *, as_json: AsJson = False) -> None:
    """Show all that is known of a file, and all that ever happened to it."""
    from disarray.control.events import list_file_events

    with control_session(configuration(context)) as connection:
        uri, known = known_uri(connection, file)
        history = list_file_events(connection, uri)
    if as_json:
        print_json(known | {"events": [asdict(event) for event in history]})
        return
    print_parts([Table(["", ""], list(_facts(known)))])
    for line in known["rejected_rows"]:
        typer.echo(f"line {line['line']}: {line['reason']} {line['detail']}: {line['sample']!r}")
    print_parts([Table(["when", "what", "who", ""], [_event(event) for event in reversed(history)])])


@app.command()
def reingest(context: typer.Context, file: File, *, by: By, as_json: AsJson = False) -> None:
    """Read a file again from its first byte, whatever is known of it."""
    from disarray.control.files import Reason as QueueReason
    from disarray.control.files import enqueue_file

    with control_session(configuration(context)) as connection:
        uri, known = known_uri(connection, file)
        metadata = {"dataset": known["dataset"]} if known["dataset"] else {}
        queue_id = enqueue_file(
            connection,
            uri,
            known["subject_key"],
            reason=QueueReason.REINGEST,
            instance_name=by,
            metadata=metadata,
        )
    _tell(uri, queue_id, "is to be read again", as_json=as_json)


@app.command()
def blacklist(context: typer.Context, file: File, *, reason: Reason, by: By, as_json: AsJson = False) -> None:
    """Make a file count for nothing: exactly its readings go."""
    from disarray.control.files import blacklist_file

    with control_session(configuration(context)) as connection:
        uri, known = known_uri(connection, file)
        queue_id = blacklist_file(connection, uri, known["subject_key"], reason=reason, by=by)
    _tell(uri, queue_id, "is blacklisted", as_json=as_json)


@app.command()
def allow(context: typer.Context, file: File, *, reason: Reason, by: By, as_json: AsJson = False) -> None:
    """Let a blacklisted file count again: the numbers of before come back."""
    from disarray.control.files import allow_file

    with control_session(configuration(context)) as connection:
        uri, _ = known_uri(connection, file)
        queue_id = allow_file(connection, uri, reason=reason, by=by)
    _tell(uri, queue_id, "is allowed", as_json=as_json)


def _tell(uri: str, queue_id: int | None, what: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"source_uri": uri, "queue_id": queue_id})
        return
    rest = "." if queue_id is None else f"; item {queue_id} waits for a worker. Or run: disarray ingest"
    typer.echo(f"{uri} {what}{rest}")


def _facts(known: dict[str, Any]) -> Iterator[list[str]]:
    for name in (
        "source_uri",
        "subject_key",
        "dataset",
        "status",
        "last_error",
        "content_hash",
        "process_count",
    ):
        if known[name] is not None:
            yield [name.replace("_", " "), str(known[name])]
    if known["logical_start"] is not None:
        yield ["readings", f"{known['logical_start']} to {known['logical_end']}"]
    for state, count in known["fragments"].items():
        yield [state, f"{counted(count['readings'], 'reading')} in {counted(count['fragments'], 'fragment')}"]
    lines = known["metadata"].get("lines")
    if lines:
        yield ["lines", ", ".join(f"{count} {name}" for name, count in lines.items() if count)]
    if known["blacklist"] is not None:
        listed = known["blacklist"]
        yield ["blacklisted", f"by {listed['blacklisted_by']}: {listed['reason']}"]


def _event(event: FileEvent) -> list[str]:
    told = event.metadata
    details = [str(told[key]) for key in ("reason", "outcome", "change", "error", "message") if told.get(key)]
    return [
        f"{event.occurred_at:%Y-%m-%d %H:%M:%S}Z",
        event.event_type,
        told.get("by") or event.instance_name or "-",
        ", ".join(details),
    ]
