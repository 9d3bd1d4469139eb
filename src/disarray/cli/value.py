"""`disarray value` and `disarray series`: what a metric was, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.project import open_project
from disarray.cli.tables import Table, print_parts
from disarray.cli.words import (
    AsJson,
    InDataset,
    OfChannel,
    json_instant,
    parse_instant,
    parse_length,
    print_json,
    shown_instant,
    shown_number,
    tell_rebuild,
)
from disarray.model.segments import LAST_US

if TYPE_CHECKING:
    from disarray.model.metrics import Metric
    from disarray.store.names import SubjectOf
    from disarray.store.values import Value, Values


def value(
    context: typer.Context,
    subject: str,
    metric: str,
    *,
    at: Annotated[
        str | None, typer.Option(help="An ISO time, in UTC if it names no zone; now if not given.")
    ] = None,
    channel: OfChannel = None,
    dataset: InDataset = None,
    as_json: AsJson = False,
) -> None:
    """Tell the value of a metric, now or at any instant, and whether it is final."""
    at_us = None if at is None else parse_instant(at)
    with open_project(context) as project:
        from disarray.store.names import find_metric, find_subjects
        from disarray.store.values import value_at

        subjects = find_subjects(project.connection, project.datasets, subject_key=subject, dataset=dataset)
        found, chosen = find_metric(subjects, metric)
        answer = value_at(
            project.connection,
            project.lake,
            dataset=found.dataset,
            subject_key=subject,
            metric=chosen,
            channel=channel,
            at_us=at_us,
        )
    if as_json:
        print_json(_document(found, chosen, answer))
        return
    if not answer.values:
        typer.echo(
            f"{subject} has no reading at or before {at}; its first is at {shown_instant(found.first_us)}."
        )
    for each in answer.values:
        typer.echo(_sentence(subject, chosen, each))
    _tell_stale(answer)
    tell_rebuild([found])


def series(
    context: typer.Context,
    subject: str,
    metric: str,
    *,
    from_: Annotated[str, typer.Option("--from", help="The first instant.")],
    to: Annotated[str, typer.Option("--to", help="Instants up to this one, included.")],
    every: Annotated[str, typer.Option(help="The step, such as '15 min' or '1 d'.")],
    channel: OfChannel = None,
    dataset: InDataset = None,
    as_json: AsJson = False,
) -> None:
    """List the values of a metric at regular instants: each the last one at or before it."""
    from_us, to_us, every_us = parse_instant(from_), parse_instant(to), parse_length(every)
    with open_project(context) as project:
        from disarray.store.names import find_metric, find_subjects
        from disarray.store.values import series as series_of

        subjects = find_subjects(project.connection, project.datasets, subject_key=subject, dataset=dataset)
        found, chosen = find_metric(subjects, metric)
        answer = series_of(
            project.connection,
            project.lake,
            dataset=found.dataset,
            subject_key=subject,
            metric=chosen,
            channel=channel,
            from_us=from_us,
            to_us=to_us,
            every_us=every_us,
        )
    if as_json:
        print_json(_document(found, chosen, answer))
        return
    if not answer.values:
        typer.echo(f"{subject} has no reading up to {to}; its first is at {shown_instant(found.first_us)}.")
        return
    heading = f"{metric} [{chosen.unit}]" if chosen.unit else metric
    rows = [
        [
            shown_instant(each.at_us),
            each.channel,
            "-" if each.is_dropped else shown_number(each.number),
            shown_instant(each.reading_us),
            _state(each),
        ]
        for each in answer.values
    ]
    print_parts([Table(["at", "channel", heading, "last reading", ""], rows)])
    _tell_stale(answer)
    tell_rebuild([found])


def _state(value: Value) -> str:
    if value.is_dropped:
        return "readings dropped"
    return "final" if value.is_final else "stale"


def _sentence(subject: str, metric: Metric, value: Value) -> str:
    name = f"{subject}/{value.channel}" if value.channel else subject
    if value.is_dropped:
        return (
            f"{name} {metric.name} at {shown_instant(value.at_us)} is not known any more: the readings of its segment "
            f"were dropped (retain). It is at their last one: --at {shown_instant(value.reading_us)}"
        )
    return (
        f"{name} {metric.name} is {shown_number(value.number, metric.unit)} "
        f"as of its reading at {shown_instant(value.reading_us)}, {'final' if value.is_final else 'stale'}."
    )


def _tell_stale(answer: Values) -> None:
    if answer.stale_from_us is not None:
        typer.echo(
            f"Numbers from {shown_instant(answer.stale_from_us)} on are stale: a repair is queued. Ask again."
        )


def _document(subject: SubjectOf, metric: Metric, answer: Values) -> dict[str, object]:
    return {
        "dataset": subject.dataset.name,
        "subject": subject.subject_key,
        "metric": metric.name,
        "unit": metric.unit,
        "stale_from": json_instant(answer.stale_from_us),
        "rebuild_pending": subject.is_rebuild_pending,
        "values": [
            {
                "channel": each.channel,
                # Without --at the newest is asked for, and the instant is its reading's.
                "at": json_instant(each.reading_us if each.at_us == LAST_US else each.at_us),
                "value": each.number,
                "reading_at": json_instant(each.reading_us),
                "final": each.is_final,
                "readings_dropped": each.is_dropped,
            }
            for each in answer.values
        ],
    }
