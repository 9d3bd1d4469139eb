"""`disarray value` and `disarray series`: what a metric was, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.options import AsJson, At, InDataset, InZone, OfChannel
from disarray.cli.support.printing import print_json, print_pending_rebuilds
from disarray.cli.support.project import open_project
from disarray.cli.support.rendering import (
    parse_instant,
    parse_length,
    shown_at,
    shown_instant,
    shown_number,
    use_zone,
)
from disarray.cli.support.text_tables import Table, print_parts

if TYPE_CHECKING:
    from disarray.queries.values import Value, Values


def value(
    context: typer.Context,
    subject: str,
    metric: str,
    *,
    at: At = None,
    channel: OfChannel = None,
    dataset: InDataset = None,
    zone: InZone = None,
    as_json: AsJson = False,
) -> None:
    """Tell the value of a metric, now or at any instant, and whether it is final."""
    use_zone(context, zone)
    at_us = parse_instant(at)
    with open_project(context) as project:
        from disarray.queries.values import query_value

        answer = query_value(
            project.connection,
            project.lake,
            project.datasets,
            subject_key=subject,
            metric=metric,
            at_us=at_us,
            channel=channel,
            dataset=dataset,
        )
    document = answer.document
    if as_json:
        print_json(document)
        return
    if not document.values:
        first = shown_instant(answer.subject.first_us)
        typer.echo(f"{subject} has no reading at or before {at}; its first is at {first}.")
    for each in document.values:
        typer.echo(_sentence(document, each))
    _print_stale(document)
    print_pending_rebuilds([answer.subject])


def series(
    context: typer.Context,
    subject: str,
    metric: str,
    *,
    every: Annotated[str, typer.Option(help="The step, such as '15 min' or '1 d'.")],
    from_: Annotated[
        str | None, typer.Option("--from", help="The first instant; from the first reading on if not given.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", help="Instants up to this one, included; until the last reading if not given."),
    ] = None,
    channel: OfChannel = None,
    dataset: InDataset = None,
    zone: InZone = None,
    as_json: AsJson = False,
) -> None:
    """List the values of a metric at regular instants: each the last one at or before it."""
    use_zone(context, zone)
    from_us, to_us, every_us = parse_instant(from_), parse_instant(to), parse_length(every)
    with open_project(context) as project:
        from disarray.queries.series import query_series

        answer = query_series(
            project.connection,
            project.lake,
            project.datasets,
            subject_key=subject,
            metric=metric,
            every_us=every_us,
            from_us=from_us,
            to_us=to_us,
            channel=channel,
            dataset=dataset,
        )
    document = answer.document
    if as_json:
        print_json(document)
        return
    if not document.values:
        first = shown_instant(answer.subject.first_us)
        typer.echo(f"{subject} has no reading up to {to}; its first is at {first}.")
        return
    heading = f"{metric} [{document.unit}]" if document.unit else metric
    rows = [
        [
            shown_at(each.at),
            each.channel,
            "-" if each.readings_dropped else shown_number(each.value),
            shown_at(each.reading_at),
            _state(each),
        ]
        for each in document.values
    ]
    print_parts([Table(["at", "channel", heading, "last reading", ""], rows)])
    _print_stale(document)
    print_pending_rebuilds([answer.subject])


def _state(value: Value) -> str:
    if value.readings_dropped:
        return "readings dropped"
    return "final" if value.final else "stale"


def _sentence(document: Values, value: Value) -> str:
    name = f"{document.subject_key}/{value.channel}" if value.channel else document.subject_key
    if value.readings_dropped:
        return (
            f"{name} {document.metric} at {shown_at(value.at)} is not known any more: the readings of its segment "
            f"were dropped (retain). It is at their last one: --at {shown_at(value.reading_at)}"
        )
    return (
        f"{name} {document.metric} is {shown_number(value.value, document.unit)} "
        f"as of its reading at {shown_at(value.reading_at)}, {'final' if value.final else 'stale'}."
    )


def _print_stale(document: Values) -> None:
    if document.stale_from is not None:
        typer.echo(
            f"Numbers from {shown_at(document.stale_from)} on are stale: a repair is queued. Ask again."
        )
