"""`disarray subjects list`, `disarray runs list` and `disarray events`: what is there, and what happened."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disarray.cli.support.context import configuration
from disarray.cli.support.database_session import control_session
from disarray.cli.support.rendering import (
    AsJson,
    InZone,
    Limit,
    known_uri,
    parse_instant,
    parse_length,
    print_json,
    shown_at,
    shown_event,
    shown_moment,
    tell_more,
    use_zone,
)
from disarray.cli.support.text_tables import Table, print_parts
from disarray.errors import DisarrayError

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.queries.runs import Run

subjects_app = typer.Typer(no_args_is_help=True, help="Look at subjects.")
runs_app = typer.Typer(no_args_is_help=True, help="Look at committed passes.")

OfSubject = Annotated[str | None, typer.Option("--subject", help="Only of this one.")]
Since = Annotated[
    str,
    typer.Option("--since", help="An ISO time, in UTC if it names no zone, or how long ago: '1 h', '7 d'."),
]


@subjects_app.callback()
def _subjects() -> None:
    """Keep `list` a subcommand though it is the only one."""


@runs_app.callback()
def _runs() -> None:
    """Keep `list` a subcommand though it is the only one."""


@subjects_app.command("list")
def list_all(
    context: typer.Context, *, limit: Limit = 1000, zone: InZone = None, as_json: AsJson = False
) -> None:
    """List every subject ever seen: its files, what waits, who holds it, the span of its readings."""
    use_zone(context, zone)
    from disarray.queries.subjects import list_subject_states

    with control_session(configuration(context)) as connection:
        found = list_subject_states(connection, limit=limit)
    if as_json:
        print_json(found.subjects)
    elif found.subjects:
        rows = [
            [
                state.subject_key,
                ", ".join(state.datasets) or "-",
                _end(min, [span.first for span in state.datasets.values()]),
                _end(max, [span.last for span in state.datasets.values()]),
                str(state.files),
                str(state.dead_letters),
                str(state.waiting_items),
                state.held_by or "-",
                shown_moment(state.stale_from) if state.stale_from else "final",
            ]
            for state in found.subjects
        ]
        headings = [
            "subject",
            "dataset",
            "first",
            "last",
            "files",
            "dead letters",
            "waiting",
            "held by",
            "stale from",
        ]
        print_parts([Table(headings, rows)])
    else:
        typer.echo("No subject was ever seen.")
    tell_more(found.more, limit)


@runs_app.command("list")
def list_passes(
    context: typer.Context, *, subject: OfSubject = None, limit: Limit = 100, as_json: AsJson = False
) -> None:
    """List committed passes over subjects, newest first."""
    from disarray.queries.runs import list_runs

    use_zone(context)
    with control_session(configuration(context)) as connection:
        found = list_runs(connection, subject_key=subject, limit=limit)
    if as_json:
        print_json(found.runs)
    elif found.runs:
        rows = [
            [
                shown_moment(run.committed_at),
                run.run_id,
                run.subject_key,
                run.instance_name,
                _plans(run),
            ]
            for run in found.runs
        ]
        print_parts([Table(["committed", "run", "subject", "worker", "what it did"], rows)])
    else:
        typer.echo("Nothing was committed.")
    tell_more(found.more, limit)


def events(
    context: typer.Context,
    *,
    subject: OfSubject = None,
    file: Annotated[str | None, typer.Option(help="Only of this path or uri.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only of this type, such as dead_letter.")] = None,
    since: Since = "1 d",
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List what happened to files, subjects and workers, newest first."""
    from disarray.queries.events import list_events

    use_zone(context)
    with control_session(configuration(context)) as connection:
        found = list_events(
            connection,
            since=_moment(since),
            subject_key=subject,
            source_uri=None if file is None else known_uri(connection, file)[0],
            event_type=kind,
            limit=limit,
        )
    if as_json:
        print_json(found.events)
    elif found.events:
        rows = []
        for event in found.events:
            what, who, details = shown_event(event.event_type, event.instance_name, event.metadata)
            about = event.source_uri or "-"
            rows.append(
                [shown_moment(event.occurred_at), what, who, event.subject_key or "-", about, details]
            )
        print_parts([Table(["when", "what", "who", "subject", "file", ""], rows)])
    else:
        typer.echo("Nothing of that happened.")
    tell_more(found.more, limit)


def _end(choose: Callable[[list[datetime]], datetime], ends: list[datetime]) -> str:
    return shown_at(choose(ends)) if ends else "-"


def _plans(run: Run) -> str:
    plans: Any = run.metadata.get("plans", [])
    return "; ".join(plans) or "nothing to read or scan"


def _moment(text: str) -> datetime:
    """An instant, or how long ago."""
    from disarray.model.segments import datetime_of

    try:
        return datetime_of(parse_instant(text))
    except (typer.BadParameter, DisarrayError):
        return datetime.now(UTC) - timedelta(microseconds=parse_length(text))
