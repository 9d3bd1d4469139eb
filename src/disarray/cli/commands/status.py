"""`disarray status`: where everything stands, once or all the time."""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disarray.cli.support.project import configuration, control_session
from disarray.cli.support.rendering import conflicts_line, counted
from disarray.cli.support.signals import interrupted
from disarray.cli.support.terminal import open_console
from disarray.cli.support.text_tables import Table, drawn_parts, is_terminal, print_parts

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from disarray.config import Config
    from disarray.control.connections import Connection

REFRESH_SECONDS = 2.0
SHOWN_UNSERVED = 10
NEXT_STEP = (
    "No file was ever announced. Announce one:\n"
    """  psql "$(disarray db url)" -c "select disarray.enqueue_file('file:///data/run1.csv', 'TOOL01')\""""
)

Status = dict[str, Any]


def status(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="For programs; one line for each look.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Look again every 2 seconds, until Ctrl-C.")] = False,
) -> None:
    """Show the queue, files, subjects and instances."""
    with control_session(context) as connection:
        first = _look(connection)
    show = _print_json if as_json else _print_tables
    if not watch:
        show(first)
        return
    with interrupted() as is_over, suppress(KeyboardInterrupt):
        _watch(configuration(context), first, show if as_json or not is_terminal() else None, is_over)


def _look(connection: Connection) -> Status:
    """The control plane now, and the figures of the last day."""
    from disarray.control.destinations import list_destinations
    from disarray.control.figures import lateness_histogram, sum_figures
    from disarray.control.moving_files import count_moving_files, list_unmatched_files
    from disarray.control.status import queue_status
    from disarray.control.views import list_views
    from disarray.model.documents import plain
    from disarray.queries.verifications import show_verification

    status = queue_status(connection)
    unmatched = list_unmatched_files(connection, limit=SHOWN_UNSERVED)
    status |= {
        "moving_files": count_moving_files(connection),
        "verification": plain(show_verification(connection)),
        "failed_views": [
            {"view": f"{view.schema_name}.{view.name}", "error": view.last_error}
            for view in list_views(connection)
            if view.last_error is not None
        ],
        "sinks": [
            {
                "name": each.destination,
                "state": each.state,
                "subjects_behind": each.subjects_behind,
                "lag_commits": each.lag_commits,
                "lag_seconds": each.lag_seconds,
                "last_error": each.last_error,
                "pause_reason": each.pause_reason,
                "held_back": each.is_held_back,
            }
            for each in list_destinations(connection)
        ],
        "unmatched_files": {
            "known": unmatched[0].files if unmatched else 0,
            "first": [
                {
                    "file": each.source_uri,
                    "counts_for": f"{each.dataset}/{each.subject_key}",
                    "readings": each.readings,
                }
                for each in unmatched
            ],
        },
    }
    since = datetime.fromisoformat(status["at"]) - timedelta(days=1)
    late = sum(each.files for each in lateness_histogram(connection, since=since) if each.bound_seconds != 0)
    return status | {"last_day": asdict(sum_figures(connection, since=since)) | {"late_files": late}}


def _print_json(status: Status) -> None:
    typer.echo(json.dumps(status))


def _print_tables(status: Status) -> None:
    print_parts(describe(status))


def _watch(
    config: Config,
    first: Status,
    show: Callable[[Status], None] | None,
    is_over: threading.Event,
) -> None:
    """Show one status after another; without a way to show them, on a terminal in place."""
    from disarray.control.connections import open_pool
    from disarray.control.retries import call_idempotent
    from disarray.queries.project import running_dsn

    # Pooled, so that a restart of the server is no end to watching.
    with (
        open_pool(running_dsn(config), application_name="disarray status", max_size=1) as pool,
        _terminal_in_place() if show is None else _as_it_is(show) as update,
    ):
        update(first)
        while not is_over.wait(REFRESH_SECONDS):
            update(call_idempotent(pool, _look))


@contextmanager
def _terminal_in_place() -> Iterator[Callable[[Status], None]]:
    from rich.live import Live

    with Live(console=open_console(), auto_refresh=False) as live:
        yield lambda status: live.update(drawn_parts(describe(status)), refresh=True)


@contextmanager
def _as_it_is(show: Callable[[Status], None]) -> Iterator[Callable[[Status], None]]:
    yield show


def describe(status: Status) -> Iterator[Table | str]:
    """A status as a person reads it."""
    queue, files, subjects = status["queue"], status["files"], status["subjects"]
    if not files and not subjects["known"]:
        yield NEXT_STEP
    yield Table(
        ["", "", ""],
        [
            [
                "queue",
                f"{queue['available']} available",
                f"{status['lanes']['backfill']} of them backfill, {_rest_of(queue)}",
            ],
            ["files", f"{sum(files.values())} known", _by_status(files)],
            [
                "subjects",
                f"{subjects['known']} known",
                f"{subjects['held']} held, {subjects['waiting']} waiting",
            ],
            ["stale", counted(status["open_dirty_ranges"], "open range"), ""],
            [
                "rebuilds",
                f"{status['rebuilds']['pending']} pending",
                f"{status['rebuilds']['queued']} queued",
            ],
            *_verified(status["verification"]),
            *_last_day(status["last_day"]),
        ],
    )
    if differs := status["verification"]["subjects_different"]:
        first = ", ".join(status["verification"]["different"])
        yield f"{counted(differs, 'subject')} not as the files say: {first}. See: disarray verify --subject SUBJECT"
    if status["conflicts"]["readings"]:
        yield conflicts_line(status["conflicts"])
    if status["dead_letters"]:
        dead = counted(status["dead_letters"], "dead letter", verb="wait")
        yield f"{dead} for a decision. See: disarray dead-letters list"
    yield from _side_effects(status["side_effects"])
    for waiting in status["waiting_files"]:
        yield f"{waiting['source_uri']} waits until {waiting['available_at'][:19]}Z: {waiting['last_error']}"
    if status["moving_files"]:
        moving = counted(status["moving_files"], "file")
        yield f"{moving} on the way to another dataset or subject; numbers there are stale."
    for view in status["failed_views"]:
        yield f"View {view['view']} could not be refreshed and is as it was: {view['error']}"
    yield from _sinks(status["sinks"])
    yield from _unmatched(status["unmatched_files"])
    if status["instances"]:
        yield Table(
            ["instance", "state", "serves", "holds", "claimed", "last seen"],
            [
                [
                    instance["instance_name"],
                    instance["state"],
                    " ".join(instance["subject_patterns"]),
                    str(instance["held_subjects"]),
                    str(instance["claimed_items"]),
                    f"{_seconds_between(instance['last_seen_at'], status['at']):.0f} s ago",
                ]
                for instance in status["instances"]
            ],
        )
    else:
        yield "No instance ever registered: what is queued waits."
    yield from _unserved(status["unserved_subjects"])


def _verified(verification: Status) -> Iterator[list[str]]:
    """What `verify` last said of each subject; nothing where it never ran."""
    if verification["last_started_at"] is not None:
        names = ("identical_in_part", "different", "unproven", "not_final", "never")
        others = ", ".join(f"{verification[f'subjects_{name}']} {name.replace('_', ' ')}" for name in names)
        yield ["verified", f"{verification['subjects_identical']} identical", others]


def _last_day(day: Status) -> Iterator[list[str]]:
    """What arrived lately, how late, and what the late part cost."""
    names = ("kept", "duplicate", "rejected", "parked")
    ends = ", ".join(f"{day[f'readings_{name}']:,} {name}" for name in names)
    yield [
        "last day",
        f"{counted(day['files_read'], 'file')} read",
        f"{counted(day['readings_seen'], 'line')}: {ends}",
    ]
    if day["late_files"]:
        scanned, shifted = counted(day["repair_readings"], "reading"), counted(day["repair_bases"], "base")
        cost = f"for them {scanned} scanned again, {shifted} shifted"
        yield [
            "late",
            counted(day["late_files"], "file"),
            f"{counted(day['late_readings'], 'reading')}; {cost}",
        ]


def _sinks(sinks: list[Status]) -> Iterator[str]:
    for each in sinks:
        if each["state"] != "current":
            lag = f"{counted(each['lag_commits'], 'commit')} behind, {each['lag_seconds']:.0f} s"
            reason = each["pause_reason"] or each["last_error"]
            why = f": {reason}" if reason else ""
            state = "held back" if each["held_back"] else each["state"]
            yield f"Destination {each['name']} is {state}, {lag}{why}. See: disarray sink show {each['name']}"


def _side_effects(effects: Status) -> Iterator[str]:
    if effects["pending"] or effects["sending"]:
        waiting = counted(effects["pending"] + effects["sending"], "message", verb="wait")
        oldest = f"the oldest for {effects['oldest_seconds']:.0f} s"
        yield f"{waiting} to be sent to hooks, {oldest}. See: disarray hook list"
    if effects["dead"]:
        yield (
            f"{counted(effects['dead'], 'message')} to hooks given up. "
            "See: disarray hook effects --state dead"
        )


def _unmatched(unmatched: Status) -> Iterator[str]:
    if not unmatched["known"]:
        return
    files = counted(unmatched["known"], "file")
    yield f"{files} that no dataset takes any more. To take one out: disarray files blacklist"
    for each in unmatched["first"]:
        counts = (
            f"{counted(each['readings'], 'reading')} of it still count for {each['counts_for']}"
            if each["readings"]
            else "it counts for nothing"
        )
        yield f"  {each['file']}: {counts}"


def _unserved(unserved: list[str]) -> Iterator[str]:
    if unserved:
        rest = len(unserved) - SHOWN_UNSERVED
        more = f" and {rest} more" if rest > 0 else ""
        yield f"Waiting, and bound to no instance: {', '.join(unserved[:SHOWN_UNSERVED])}{more}"


def _by_status(files: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(files.items()))


def _rest_of(queue: Status) -> str:
    oldest = queue["oldest_seconds"]
    age = "" if oldest is None else f", the oldest queued {oldest:.0f} s ago"
    return f"{queue['delayed']} later, {queue['claimed']} claimed{age}"


def _seconds_between(earlier: str, later: str) -> float:
    return max(0.0, (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds())
