"""`disarray sink`: destinations that follow the numbers, and how far they have come."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.options import BY_HAND, After, AsJson, By, DryRun, Limit, OfSubject, Reason
from disarray.cli.support.printing import (
    Columns,
    print_decision,
    print_following,
    print_json,
    print_list,
    table_of,
)
from disarray.cli.support.project import control_session, decision
from disarray.cli.support.rendering import counted, use_zone
from disarray.cli.support.sink_deletes import counted_deletes
from disarray.cli.support.text_tables import print_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

app = typer.Typer(
    no_args_is_help=True, help="Destinations: how far they have come, pause, resume, publish again."
)

AllowDeletes = Annotated[
    bool,
    typer.Option(
        "--allow-deletes",
        help="Let the target lose whatever this database does not know, however much it is; a destination that was "
        "held back for that goes on. For all of its subjects: not with --subject.",
    ),
]
Name = Annotated[str, typer.Argument(help="The destination, as disarray.toml names it.")]


@app.command("list")
def list_(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the destinations: their state, and how far they are behind."""
    from disarray.queries.sinks import list_sinks

    use_zone(context)
    with control_session(context) as connection:
        found = list_sinks(connection).sinks
    columns: Columns = {
        "destination": "name",
        "state": "state",
        "subjects": "subjects",
        "behind": "subjects_behind",
        "commits": "lag_commits",
        "seconds": lambda each: f"{each.lag_seconds:.0f}",
        "rows": "rows_loaded",
        "last load": "last_loaded_at",
        "target": "target",
    }
    print_list(found, columns, as_json=as_json, otherwise="No worker has made a [[destination]] known yet.")


@app.command()
def show(
    context: typer.Context, name: Name, *, limit: Limit = 100, after: After = None, as_json: AsJson = False
) -> None:
    """Show one destination: what speaks against it, and each of its subjects."""
    from disarray.queries.sinks import show_sink

    use_zone(context)
    with control_session(context) as connection:
        found = show_sink(connection, name, limit=limit, after=after)
    if as_json:
        print_json(found)
        print_following(found.next, limit)
        return
    sink = found.sink
    lines = [
        f"{sink.name} is {sink.state}: {sink.load} into {sink.target}.",
    ]
    if sink.subjects_behind:
        behind = f"{counted(sink.lag_commits, 'commit')} of {counted(sink.subjects_behind, 'subject')}"
        lines.append(f"{behind} not loaded; the oldest is {sink.lag_seconds:.0f} s old.")
    if sink.held_back:
        lines.append(f"Held back: {sink.pause_reason}")
    elif sink.pause_reason is not None:
        lines.append(f"Paused: {sink.pause_reason}. To go on: disarray sink resume {sink.name}")
    if sink.last_error is not None:
        lines.append(f"Nothing can be loaded: {sink.last_error}. It is tried again by itself.")
    for line in lines:
        typer.echo(line)
    columns: Columns = {
        "subject": "subject_key",
        "commit": "commit_seq",
        "newest": "newest_seq",
        "behind": "lag_commits",
        "rows": "rows_loaded",
        "last load": "last_loaded_at",
        "held by": "held_by",
        "error": "last_error",
    }
    if found.subjects:
        print_parts([table_of(found.subjects, columns)])
    print_following(found.next, limit)


@app.command()
def pause(
    context: typer.Context,
    name: Name,
    *,
    reason: Reason,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Load nothing into a destination until it is resumed. What it misses is kept for it."""
    _decide(context, name, "paused", reason=reason, by=by, dry_run=dry_run, as_json=as_json)


@app.command()
def resume(
    context: typer.Context,
    name: Name,
    *,
    reason: Reason = BY_HAND,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Go on with a destination that was paused, from where it stopped."""
    _decide(context, name, "resumed", reason=reason, by=by, dry_run=dry_run, as_json=as_json)


@app.command()
def republish(
    context: typer.Context,
    name: Name,
    *,
    subject: OfSubject = None,
    allow_deletes: AllowDeletes = False,
    reason: Reason = BY_HAND,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Load everything anew: whatever the target has, it becomes what is answered here.

    Without --subject, rows of subjects that are not asked for are deleted from it as well; --dry-run tells how many,
    and more than sinks.most_deleted_percent of them are refused. It is loaded as fast as workers can. Where that is
    much, a backfill of kind republish does the same with a rate, progress, pause and a verdict: see docs/backfill.md.
    """
    deletes, sentence = None, None
    if subject is None:
        deletes, sentence = counted_deletes(context, name, allows_deletes=allow_deletes, dry_run=dry_run)
    _decide(
        context,
        name,
        "republished",
        subject=subject,
        allows_deletes=allow_deletes,
        details={"deletes": None if deletes is None else asdict(deletes)},
        sentence=sentence,
        reason=reason,
        by=by,
        dry_run=dry_run,
        as_json=as_json,
    )
    if subject is None and not as_json:
        typer.echo(
            "With a rate, progress and a verdict: disarray backfill start, kind republish (docs/backfill.md)."
        )


@app.command()
def forget(
    context: typer.Context,
    name: Name,
    *,
    reason: Reason = BY_HAND,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Forget a destination that disarray.toml no longer describes. What it loaded stays where it is."""
    from disarray.control.destinations import forget_destination

    with decision(context, dry_run=dry_run) as connection:
        subjects = forget_destination(connection, name, reason=reason, by=by)
    print_decision(
        {"forgotten": name, "subjects": subjects},
        [f"{name} is forgotten; {counted(subjects, 'subject')} no longer followed."],
        dry_run=dry_run,
        as_json=as_json,
    )


def _decide(
    context: typer.Context,
    name: str,
    what: str,
    *,
    reason: str,
    by: str,
    dry_run: bool,
    as_json: bool,
    subject: str | None = None,
    allows_deletes: bool = False,
    details: Mapping[str, object] | None = None,
    sentence: str | None = None,
) -> None:
    from disarray.control.destinations import decide_destination

    with decision(context, dry_run=dry_run) as connection:
        subjects = decide_destination(
            connection, name, what, reason=reason, by=by, subject_key=subject, allows_deletes=allows_deletes
        )
    print_decision(
        {"destination": name, "decision": what, "subjects": subjects, **(details or {})},
        [
            f"{name} is {what}; that concerns {counted(subjects, 'subject')}.",
            *([] if sentence is None else [sentence]),
        ],
        dry_run=dry_run,
        as_json=as_json,
    )
