"""`disarray files`: where each file stands, its whole history, and what to do about it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disarray.cli.support.context import configuration
from disarray.cli.support.database_session import control_session, decision
from disarray.cli.support.rendering import (
    BY_HAND,
    AsJson,
    By,
    DryRun,
    InZone,
    Limit,
    Reason,
    counted,
    known_uri,
    print_json,
    shown_at,
    shown_event,
    shown_instant,
    shown_moment,
    tell_dry_run,
    tell_more,
    use_zone,
)
from disarray.cli.support.text_tables import Table, print_parts
from disarray.model.file_status import FileStatus  # noqa: TC001 (typer reads it when it runs)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disarray.queries.events import FileEvent
    from disarray.queries.files import FileStory

app = typer.Typer(no_args_is_help=True, help="Files that were ever announced.")

File = Annotated[str, typer.Argument(help="A path or a uri.")]


@app.command("list")
def list_known(
    context: typer.Context,
    *,
    subject: Annotated[str | None, typer.Option(help="Only of this one.")] = None,
    status: Annotated[FileStatus | None, typer.Option(help="Only those that stand there.")] = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List files by uri."""
    from disarray.queries.files import list_files

    with control_session(configuration(context)) as connection:
        found = list_files(connection, status=status, subject_key=subject, limit=limit)
    if as_json:
        print_json(found.files)
    elif found.files:
        rows = [
            [
                record.subject_key,
                record.dataset or "-",
                record.status,
                str(record.process_count),
                record.source_uri,
            ]
            for record in found.files
        ]
        print_parts([Table(["subject", "dataset", "status", "processed", "file"], rows)])
    else:
        typer.echo("No such file was ever announced.")
    tell_more(found.more, limit)


@app.command()
def show(context: typer.Context, file: File, *, zone: InZone = None, as_json: AsJson = False) -> None:
    """Show all that is known of a file, and all that ever happened to it."""
    use_zone(context, zone)
    from disarray.queries.files import find_file, show_file

    with control_session(configuration(context)) as connection:
        story = show_file(connection, find_file(connection, file))
    if as_json:
        print_json(story)
        return
    print_parts([Table(["", ""], list(_facts(story))), *_segments(story.segments)])
    for line in story.rejected_rows:
        typer.echo(f"line {line['line']}: {line['reason']} {line['detail']}: {line['sample']!r}")
    if story.rejected_count > len(story.rejected_rows):
        typer.echo(f"{story.rejected_count:,} rejected lines are kept, the first are shown.")
    print_parts([Table(["when", "what", "who", ""], [_event(event) for event in reversed(story.events)])])


@app.command()
def reingest(
    context: typer.Context,
    file: File,
    *,
    reason: Reason = BY_HAND,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Read a file again from its first byte, whatever is known of it."""
    from disarray.control.files import reingest_file

    with control_session(configuration(context)) as connection:
        uri, _ = known_uri(connection, file)
        with decision(connection, dry_run=dry_run):
            queue_id = reingest_file(connection, uri, reason=reason, by=by)
    what = "is to be read again" if queue_id is not None else "is blacklisted and not read; allow it first"
    _tell(uri, queue_id, what, dry_run=dry_run, as_json=as_json)


@app.command()
def blacklist(
    context: typer.Context,
    file: File,
    *,
    reason: Reason,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Make a file count for nothing: exactly its readings go."""
    from disarray.control.files import blacklist_file

    with control_session(configuration(context)) as connection:
        uri, known = known_uri(connection, file)
        with decision(connection, dry_run=dry_run):
            queue_id = blacklist_file(connection, uri, known["subject_key"], reason=reason, by=by)
    _tell(uri, queue_id, "is blacklisted", dry_run=dry_run, as_json=as_json)


@app.command()
def allow(
    context: typer.Context,
    file: File,
    *,
    reason: Reason,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let a blacklisted file count again: the numbers of before come back."""
    from disarray.control.files import allow_file

    with control_session(configuration(context)) as connection:
        uri, _ = known_uri(connection, file)
        with decision(connection, dry_run=dry_run):
            queue_id = allow_file(connection, uri, reason=reason, by=by)
    _tell(uri, queue_id, "is allowed", dry_run=dry_run, as_json=as_json)


def _tell(uri: str, queue_id: int | None, what: str, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        # An item of a dry run is gone with it.
        print_json({"source_uri": uri, "queue_id": None if dry_run else queue_id, "dry_run": dry_run})
        return
    rest = (
        "."
        if queue_id is None or dry_run
        else f"; item {queue_id} waits for a worker. Or run: disarray ingest"
    )
    typer.echo(f"{uri} {what}{rest}")
    tell_dry_run(dry_run)


def _facts(story: FileStory) -> Iterator[list[str]]:
    for name in (
        "source_uri",
        "subject_key",
        "dataset",
        "status",
        "last_error",
        "content_hash",
        "process_count",
    ):
        if getattr(story, name) is not None:
            yield [name.replace("_", " "), str(getattr(story, name))]
    if story.logical_start is not None and story.logical_end is not None:
        yield ["readings", f"{shown_at(story.logical_start)} to {shown_at(story.logical_end)}"]
    metadata: dict[str, Any] = story.metadata
    if story.parked_hash is not None:
        parked = metadata.get("parked_version") or {}
        lines = f"; lines: {_counted_lines(parked['lines'])}" if "lines" in parked else ""
        yield ["parked version", f"{story.parked_hash}, since {shown_moment(story.parked_at)}{lines}"]
    if story.rejected_hash is not None:
        yield ["rejected version", story.rejected_hash]
    fragments: dict[str, Any] = story.fragments
    for state, count in fragments.items():
        yield [state, f"{counted(count['readings'], 'reading')} in {counted(count['fragments'], 'fragment')}"]
    if counts_by_line := metadata.get("lines"):
        yield ["lines", _counted_lines(counts_by_line)]
    clashes: dict[str, Any] = story.conflicts
    if clashes["won"] or clashes["lost"]:
        disagree = counted(clashes["won"] + clashes["lost"], "reading")
        counts = f"{clashes['won']:,} of this file's count, {clashes['lost']:,} do not"
        yield ["conflicts", f"{disagree} of which another file says something else under one key; {counts}"]
    if story.failed_at is not None:
        what = "discarded dead letter" if story.discarded_at is not None else "dead letter"
        asked = (story.failed_request or {}).get("reason")
        attempts = counted(story.retry_count, "attempt")
        yield [what, f"since {shown_moment(story.failed_at)}, {asked}, {attempts}"]
    if story.blacklist is not None:
        yield ["blacklisted", f"by {story.blacklist['blacklisted_by']}: {story.blacklist['reason']}"]


def _counted_lines(lines: dict[str, int]) -> str:
    names = ("seen", "kept", "rejected", "blank", "preamble", "waiting")
    return ", ".join(f"{lines[name]} {name}" for name in names if lines.get(name))


def _event(event: FileEvent) -> list[str]:
    return [
        shown_moment(event.occurred_at),
        *shown_event(event.event_type, event.instance_name, event.metadata),
    ]


def _segments(segments: Sequence[dict[str, Any]]) -> Iterator[Table]:
    if segments:
        rows = [
            [
                shown_instant(part["segment_us"]),
                part["state"],
                f"{part['readings']:,}",
                str(part["fragments"]),
                f"{part['segment_readings'] or 0:,}",
                f"{part['segment_duplicates'] or 0:,}",
                part["run_id"][:8],
                shown_moment(datetime.fromisoformat(part["changed_at"])),
            ]
            for part in segments
        ]
        headings = [
            "segment",
            "state",
            "its readings",
            "fragments",
            "readings",
            "duplicates",
            "run",
            "changed",
        ]
        yield Table(headings, rows)
