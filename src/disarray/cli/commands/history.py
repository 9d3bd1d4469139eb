"""`disarray subjects list`, `disarray runs list` and `disarray events`: what is there, and what happened."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.options import After, AsJson, InZone, Limit, OfFile, OfSubject
from disarray.cli.support.printing import Columns, print_list
from disarray.cli.support.project import control_session, known_uri
from disarray.cli.support.rendering import (
    event_actor,
    event_details,
    parse_instant,
    parse_length,
    shown_at,
    use_zone,
)
from disarray.errors import DisarrayError

if TYPE_CHECKING:
    from disarray.queries.runs import Run
    from disarray.queries.subjects import SubjectState

subjects_app = typer.Typer(no_args_is_help=True, help="Look at subjects.")
runs_app = typer.Typer(no_args_is_help=True, help="Look at committed passes.")

Since = Annotated[
    str,
    typer.Option("--since", help="An ISO time, in UTC if it names no zone, or how long ago: '1 h', '7 d'."),
]


@subjects_app.callback()
@runs_app.callback()
def _group() -> None:
    """Keep `list` a subcommand though it is the only one."""


@subjects_app.command("list")
def list_all(
    context: typer.Context,
    *,
    limit: Limit = 1000,
    after: After = None,
    zone: InZone = None,
    as_json: AsJson = False,
) -> None:
    """List every subject ever seen: its files, what waits, who holds it, the span of its readings."""
    use_zone(context, zone)
    from disarray.queries.subjects import list_subject_states

    with control_session(context) as connection:
        found = list_subject_states(connection, limit=limit, after=after)
    columns: Columns = {
        "subject": "subject_key",
        "dataset": lambda state: ", ".join(state.datasets) or None,
        "first": _first,
        "last": _last,
        "files": "files",
        "dead letters": "dead_letters",
        "waiting": "waiting_items",
        "held by": "held_by",
        "stale from": lambda state: state.stale_from or "final",
    }
    print_list(
        found.subjects, columns, as_json=as_json, otherwise="No subject was ever seen.", following=found.next
    )


@runs_app.command("list")
def list_passes(
    context: typer.Context,
    *,
    subject: OfSubject = None,
    limit: Limit = 100,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """List committed passes over subjects, newest first."""
    from disarray.queries.runs import list_runs

    use_zone(context)
    with control_session(context) as connection:
        found = list_runs(connection, subject_key=subject, limit=limit, after=after)
    columns: Columns = {
        "committed": "committed_at",
        "run": "run_id",
        "subject": "subject_key",
        "worker": "instance_name",
        "what it did": _plans,
    }
    print_list(found.runs, columns, as_json=as_json, otherwise="Nothing was committed.", following=found.next)


def events(
    context: typer.Context,
    *,
    subject: OfSubject = None,
    file: OfFile = None,
    kind: Annotated[str | None, typer.Option(help="Only of this type, such as dead_letter.")] = None,
    since: Since = "1 d",
    limit: Limit = 100,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """List what happened to files, subjects and workers, newest first."""
    from disarray.queries.events import list_events

    use_zone(context)
    with control_session(context) as connection:
        found = list_events(
            connection,
            since=_moment(since),
            subject_key=subject,
            source_uri=None if file is None else known_uri(connection, file),
            event_type=kind,
            limit=limit,
            after=after,
        )
    columns: Columns = {
        "when": "occurred_at",
        "what": "event_type",
        "who": event_actor,
        "subject": "subject_key",
        "file": "source_uri",
        "": event_details,
    }
    print_list(
        found.events, columns, as_json=as_json, otherwise="Nothing of that happened.", following=found.next
    )


def _first(state: SubjectState) -> str:
    return shown_at(min((span.first for span in state.datasets.values()), default=None))


def _last(state: SubjectState) -> str:
    return shown_at(max((span.last for span in state.datasets.values()), default=None))


def _plans(run: Run) -> str:
    plans = run.metadata.get("plans", [])
    assert isinstance(plans, list)
    return "; ".join(plans) or "nothing to read or scan"


def _moment(text: str) -> datetime:
    """An instant, or how long ago."""
    from disarray.model.segments import datetime_of

    try:
        return datetime_of(parse_instant(text))
    except (typer.BadParameter, DisarrayError):
        return datetime.now(UTC) - timedelta(microseconds=parse_length(text))
