"""`disarray rollup` and `disarray restatements`: what was in each bucket, and what was changed afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.options import After, AsJson, InDataset, InZone, Limit, OfChannel, OfSubjectArgument
from disarray.cli.support.printing import print_following, print_json, print_pending_rebuilds
from disarray.cli.support.project import control_session, open_project
from disarray.cli.support.rendering import (
    parse_instant,
    shown_at,
    shown_instant,
    shown_minute,
    shown_number,
    use_zone,
)
from disarray.cli.support.text_tables import Table, print_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.cli.support.spans import Span
    from disarray.queries.restatements import Restatement


def rollup(
    context: typer.Context,
    subject: str,
    name: str,
    *,
    from_: Annotated[
        str | None, typer.Option("--from", help="Buckets that end after this instant; all if not given.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="Buckets that start before this instant; all if not given.")
    ] = None,
    channel: OfChannel = None,
    dataset: InDataset = None,
    zone: InZone = None,
    as_json: AsJson = False,
) -> None:
    """List the buckets of a rollup, and whether each is final."""
    use_zone(context, zone)
    from_us, to_us = parse_instant(from_), parse_instant(to)
    with open_project(context) as project:
        from disarray.queries.rollups import query_rollup

        answer = query_rollup(
            project.connection,
            project.datasets,
            subject_key=subject,
            rollup=name,
            from_us=from_us,
            to_us=to_us,
            channel=channel,
            dataset=dataset,
        )
    found, document = answer.subject, answer.document
    if as_json:
        print_json(document)
        return
    if not document.buckets:
        typer.echo(
            f"{subject} has no readings there; it has some from {shown_instant(found.first_us)} "
            f"to {shown_instant(found.last_us)}."
        )
        return
    names = [aggregate.name for aggregate in answer.rollup.aggregates]
    rows = [
        [
            shown_at(bucket.start),
            shown_at(bucket.end),
            bucket.label,
            bucket.channel,
            *("-" if bucket.values[each] is None else shown_number(bucket.values[each]) for each in names),
            "final" if bucket.final else "stale",
        ]
        for bucket in document.buckets
    ]
    print_parts([Table(["from", "to", "shift", "channel", *names, ""], rows)])
    print_pending_rebuilds([found])


def restatements(
    context: typer.Context,
    subject: OfSubjectArgument = None,
    *,
    limit: Limit = 100,
    after: After = None,
    zone: InZone = None,
    as_json: AsJson = False,
) -> None:
    """List published values that were changed after people may have used them, newest first."""
    use_zone(context, zone)
    from disarray.cli.support.spans import ledger_spans
    from disarray.queries.restatements import list_restatements

    with control_session(context) as connection:
        found = list_restatements(connection, subject_key=subject, limit=limit, after=after)
    if as_json:
        print_json(found.restatements)
    elif found.restatements:
        for noted, spans in ledger_spans(found.restatements):
            typer.echo(_sentence(noted, spans))
    else:
        typer.echo("Nothing was restated.")
    print_following(found.next, limit)


def _sentence(noted: Restatement, spans: Sequence[Span]) -> str:
    from disarray.cli.support.spans import describe_spans

    name = f"{noted.subject_key}/{noted.channel}" if noted.channel else noted.subject_key
    return (
        f"{name} {noted.metric} {describe_spans(spans, verb='became')}, because of {noted.causes}, "
        f"written down {shown_minute(noted.restated_at)}."
    )
