"""`disarray files`: where each file stands, its whole history, and what to do about it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disarray.cli.support.options import (
    BY_HAND,
    After,
    AsJson,
    By,
    DryRun,
    File,
    InZone,
    Limit,
    OfSubject,
    Reason,
)
from disarray.cli.support.printing import Columns, cell, print_json, print_list, print_queued, table_of
from disarray.cli.support.project import control_session, decision, known_uri
from disarray.cli.support.rendering import (
    counted,
    event_actor,
    event_details,
    shown_at,
    shown_instant,
    shown_moment,
    use_zone,
)
from disarray.cli.support.text_tables import Table, print_parts
from disarray.model.file_status import FileStatus  # noqa: TC001 (typer reads it when it runs)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disarray.queries.files import FileStory

app = typer.Typer(no_args_is_help=True, help="Files that were ever announced.")

EVENT_COLUMNS: Columns = {
    "when": "occurred_at",
    "what": "event_type",
    "who": event_actor,
    "": event_details,
}
SEGMENT_COLUMNS: Columns = {
    "segment": lambda part: shown_instant(part["segment_us"]),
    "state": lambda part: part["state"],
    "its readings": lambda part: part["readings"],
    "fragments": lambda part: part["fragments"],
    "readings": lambda part: part["segment_readings"] or 0,
    "duplicates": lambda part: part["segment_duplicates"] or 0,
    "run": lambda part: part["run_id"][:8],
    "changed": lambda part: datetime.fromisoformat(part["changed_at"]),
}

PART_COLUMNS: Columns = {
    "subject": lambda part: part["subject_key"],
    "status": lambda part: part["status"],
    "readings": lambda part: part["readings"],
    "waiting": lambda part: part["waiting"],
    "part": lambda part: part["source_uri"],
}


@app.command("list")
def list_known(
    context: typer.Context,
    *,
    subject: OfSubject = None,
    status: Annotated[FileStatus | None, typer.Option(help="Only those that stand there.")] = None,
    source: Annotated[
        str | None, typer.Option(help="Only those that this source delivered.", metavar="NAME")
    ] = None,
    limit: Limit = 100,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """List files by uri."""
    from disarray.queries.files import list_files

    with control_session(context) as connection:
        found = list_files(
            connection, status=status, subject_key=subject, source_name=source, limit=limit, after=after
        )
    columns: Columns = {
        "subject": "subject_key",
        "dataset": "dataset",
        "status": "status",
        "processed": "process_count",
        "file": "source_uri",
    }
    print_list(
        found.files,
        columns,
        as_json=as_json,
        otherwise="No such file was ever announced.",
        following=found.next,
    )


@app.command()
def show(context: typer.Context, file: File, *, zone: InZone = None, as_json: AsJson = False) -> None:
    """Show all that is known of a file, and all that ever happened to it."""
    use_zone(context, zone)
    from disarray.queries.files import find_file, show_file

    with control_session(context) as connection:
        story = show_file(connection, find_file(connection, file))
    if as_json:
        print_json(story)
        return
    print_parts([Table(["", ""], list(_facts(story))), *_parts(story.parts), *_segments(story.segments)])
    for line in story.rejected_rows:
        typer.echo(f"line {line['line']}: {line['reason']} {line['detail']}: {line['sample']!r}")
    if story.rejected_count > len(story.rejected_rows):
        typer.echo(f"{story.rejected_count:,} rejected lines are kept, the first are shown.")
    print_parts([table_of(reversed(story.events), EVENT_COLUMNS)])


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

    with decision(context, dry_run=dry_run) as connection:
        uri = known_uri(connection, file)
        queue_id = reingest_file(connection, uri, reason=reason, by=by)
    what = "is to be read again" if queue_id is not None else "is blacklisted and not read; allow it first"
    print_queued(uri, queue_id, what, dry_run=dry_run, as_json=as_json)


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
    from disarray.control.blacklist import blacklist_file
    from disarray.queries.files import find_file

    with decision(context, dry_run=dry_run) as connection:
        known = find_file(connection, file)
        uri = known["source_uri"]
        queue_id = blacklist_file(connection, uri, known["subject_key"], reason=reason, by=by)
    print_queued(uri, queue_id, "is blacklisted", dry_run=dry_run, as_json=as_json)


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
    from disarray.control.blacklist import allow_file

    with decision(context, dry_run=dry_run) as connection:
        uri = known_uri(connection, file)
        queue_id = allow_file(connection, uri, reason=reason, by=by)
    print_queued(uri, queue_id, "is allowed", dry_run=dry_run, as_json=as_json)


def _facts(story: FileStory) -> Iterator[list[str]]:
    for name in (
        "source_uri",
        "parent_uri",
        "subject_key",
        "dataset",
        "status",
        "last_error",
        "content_hash",
        "process_count",
    ):
        if getattr(story, name) is not None:
            yield [name.replace("_", " "), str(getattr(story, name))]
    if story.delivery is not None:
        yield ["delivered", _delivery(story.delivery)]
    if story.logical_start is not None and story.logical_end is not None:
        yield ["readings", f"{shown_at(story.logical_start)} to {shown_at(story.logical_end)}"]
    metadata: dict[str, Any] = story.metadata
    if story.parked_hash is not None:
        parked = metadata.get("parked_version") or {}
        lines = f"; lines: {_counted_lines(parked['lines'])}" if "lines" in parked else ""
        yield ["parked version", f"{story.parked_hash}, since {cell(story.parked_at)}{lines}"]
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


def _delivery(delivery: dict[str, Any]) -> str:
    cursor = (
        f", cursor {delivery['cursor_from']} to {delivery['cursor_to']}"
        if delivery["cursor_from"] is not None
        else ""
    )
    when = shown_moment(datetime.fromisoformat(delivery["delivered_at"]))
    return f"by {delivery['source']}, batch {delivery['batch']}, {when}, {counted(delivery['rows'], 'row')}{cursor}"


def _counted_lines(lines: dict[str, int]) -> str:
    names = ("seen", "kept", "rejected", "blank", "preamble", "waiting")
    return ", ".join(f"{lines[name]} {name}" for name in names if lines.get(name))


def _parts(parts: Sequence[dict[str, Any]]) -> Iterator[Table]:
    if parts:
        yield table_of(parts, PART_COLUMNS)


def _segments(segments: Sequence[dict[str, Any]]) -> Iterator[Table]:
    if segments:
        yield table_of(segments, SEGMENT_COLUMNS)
