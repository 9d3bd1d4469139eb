"""`disarray inbox`: events that programs sent, from their arrival until they are readings or given up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.options import BY_HAND, After, AsJson, By, DryRun, Limit, OfDataset, Reason
from disarray.cli.support.printing import (
    Columns,
    print_decision,
    print_following,
    print_json,
    print_list,
    table_of,
)
from disarray.cli.support.project import configuration, control_session, decision
from disarray.cli.support.rendering import counted, use_zone
from disarray.cli.support.text_tables import print_parts
from disarray.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disarray.control.connections import Connection

app = typer.Typer(
    no_args_is_help=True, help="Events of programs: what waits, what was given up, try again, put aside."
)

Events = Annotated[list[int] | None, typer.Argument(help="Numbers of events, as dead-letters lists them.")]
Every = Annotated[bool, typer.Option("--all", help="All of them, or all of --dataset.")]
# What the database takes in one decision.
MOST_AT_ONCE = 10_000
SHOWN_PAYLOAD = 120
STANDARD_INPUT = "-"


@app.command()
def status(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Tell how many events wait or were given up, by dataset."""
    from disarray.control.raw_events import count_raw_events

    use_zone(context)
    with control_session(context) as connection:
        found = count_raw_events(connection)
    columns: Columns = {
        "dataset": "dataset",
        "waiting": "pending",
        "being delivered": "claimed",
        "given up": "dead",
        "oldest since": "oldest_pending_at",
    }
    print_list(found, columns, as_json=as_json, otherwise="The inbox is empty: every event is delivered.")


@app.command()
def record(
    context: typer.Context,
    dataset: Annotated[str, typer.Argument(help="One that takes events.")],
    file: Annotated[
        str, typer.Argument(help="JSON lines, one event each; - for standard input.")
    ] = STANDARD_INPUT,
    *,
    as_json: AsJson = False,
) -> None:
    """Put events into the inbox, as programs do over REST. The same event twice counts once."""
    from disarray.control.raw_events import record_events

    lines = [line for line in _text_of(file).split("\n") if line.strip()]
    new = duplicate = 0
    rejected: list[dict[str, int | str]] = []
    with control_session(context) as connection:
        for first, part in _parts(lines):
            answer = record_events(connection, dataset, part)
            new, duplicate = new + answer.new, duplicate + answer.duplicate
            rejected += [{"index": first + each.index, "reason": each.reason} for each in answer.rejected]
    if as_json:
        print_json({"seen": len(lines), "new": new, "duplicate": duplicate, "rejected": rejected})
    else:
        typer.echo(
            f"{counted(len(lines), 'event')}: {new:,} new, {duplicate:,} known already, {len(rejected):,} rejected."
        )
        for each in rejected:
            typer.echo(f"event {each['index']} was rejected: {each['reason']}", err=True)
    if rejected:
        raise typer.Exit(1)


@app.command()
def drain(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Deliver what waits, now; workers do so every few seconds. What is delivered is queued like a file."""
    from disarray.control.instances import register_command
    from disarray.queries.project import configured_datasets
    from disarray.sources.inbox import Inbox, refuse_unreadable_inboxes
    from disarray.sources.landing import Landing
    from disarray.worker.process.draining import sentence_of
    from disarray.worker.process.local import open_pool
    from disarray.worker.process.settings import inbox_settings

    config = configuration(context)
    datasets = tuple(configured_datasets(config).values())
    landing = Landing(config.landing_root)
    refuse_unreadable_inboxes(landing, datasets)
    with open_pool(config, application_name="disarray inbox drain") as pool:
        with pool.connection() as connection:
            holder = register_command(connection, "inbox drain")
        inbox = Inbox(
            pool=pool, landing=landing, datasets=datasets, holder=holder, settings=inbox_settings(config)
        )
        if not inbox.served:
            raise ConfigError(
                "no dataset of this project takes events. Nothing was done. See: docs/events.md"
            )
        drained = list(inbox.drain())
    if as_json:
        print_json(drained)
    else:
        for each in drained:
            typer.echo(sentence_of(each))
        if not drained:
            typer.echo("Nothing waits in the inbox.")


@app.command("dead-letters")
def dead_letters(
    context: typer.Context,
    *,
    dataset: OfDataset = None,
    limit: Limit = 100,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """List the events that were given up, in the order in which they were sent, and why."""
    from disarray.queries.inbox import list_inbox_events

    use_zone(context)
    with control_session(context) as connection:
        found = list_inbox_events(connection, dataset=dataset, limit=limit, after=after)
    columns: Columns = {
        "event": lambda each: str(each.event_id),
        "dataset": "dataset",
        "since": "settled_at",
        "attempts": "attempts",
        "why": "reason",
        "payload": lambda each: each.payload and each.payload[:SHOWN_PAYLOAD],
    }
    if as_json:
        print_json(found)
    elif found.events:
        print_parts([table_of(found.events, columns)])
    else:
        typer.echo("No event was given up.")
    print_following(found.next, limit)


@app.command()
def replay(
    context: typer.Context,
    events: Events = None,
    *,
    every: Every = False,
    dataset: OfDataset = None,
    reason: Reason = BY_HAND,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Try events that were given up once more, with a full set of attempts."""
    from disarray.control.raw_events import replay_raw_events

    with decision(context, dry_run=dry_run) as connection:
        chosen = _chosen(connection, events, every=every, dataset=dataset)
        if chosen:
            replay_raw_events(connection, chosen, reason=reason, by=by)
    sentence = f"{counted(len(chosen), 'event')} replayed."
    print_decision({"replayed": chosen}, [sentence], dry_run=dry_run, as_json=as_json)


@app.command()
def discard(
    context: typer.Context,
    events: Events = None,
    *,
    every: Every = False,
    dataset: OfDataset = None,
    reason: Reason,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Take events that were given up off the list. Sent again, such an event is known and stays discarded."""
    from disarray.control.raw_events import discard_raw_events

    with decision(context, dry_run=dry_run) as connection:
        chosen = _chosen(connection, events, every=every, dataset=dataset)
        if chosen:
            discard_raw_events(connection, chosen, reason=reason, by=by)
    sentence = f"{counted(len(chosen), 'event')} discarded."
    print_decision({"discarded": chosen}, [sentence], dry_run=dry_run, as_json=as_json)


@app.command()
def correct(
    context: typer.Context,
    event: Annotated[int, typer.Argument(help="Its number.")],
    payload: Annotated[str, typer.Argument(help="What it should have been, as JSON; - for standard input.")],
    *,
    reason: Reason,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Put another event in the place of one that was given up, and try that."""
    from disarray.control.raw_events import correct_raw_event

    text = _text_of(payload) if payload == STANDARD_INPUT else payload
    with decision(context, dry_run=dry_run) as connection:
        corrected = correct_raw_event(connection, event, text, reason=reason, by=by)
    same = "is tried again" if corrected == event else f"is event {corrected} now, which is tried"
    print_decision(
        {"corrected": event, "event_id": corrected},
        [f"event {event} {same}."],
        dry_run=dry_run,
        as_json=as_json,
    )


def _parts(lines: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """As much at once as one call takes, with the index of the first."""
    from disarray.control.raw_events import MOST_BYTES, MOST_EVENTS

    first = size = 0
    for index, line in enumerate(lines):
        length = len(line.encode())
        if index > first and (index - first == MOST_EVENTS or size + length > MOST_BYTES):
            yield first, lines[first:index]
            first, size = index, 0
        size += length
    if lines:
        yield first, lines[first:]


def _chosen(
    connection: Connection, events: Sequence[int] | None, *, every: bool, dataset: str | None
) -> list[int]:
    from disarray.control.raw_events import list_raw_events

    if bool(events) == every:
        raise typer.BadParameter("name the events, or say --all")
    if events:
        return list(dict.fromkeys(events))
    found = list_raw_events(connection, dataset=dataset, limit=MOST_AT_ONCE + 1)
    if len(found) > MOST_AT_ONCE:
        typer.echo(f"There are more than {MOST_AT_ONCE:,}; run this again for the rest.", err=True)
    return [each.event_id for each in found[:MOST_AT_ONCE]]


def _text_of(file: str) -> str:
    """The text of a file or of standard input, whatever bytes it has: the database says which events are no text."""
    import sys

    try:
        content = sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}. Nothing was stored.") from error
    return content.decode("utf-8", errors="backslashreplace").replace("\0", "\\u0000")
