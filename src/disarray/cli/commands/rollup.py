"""`disarray rollup` and `disarray restatements`: what was in each bucket, and what was changed afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.context import configuration
from disarray.cli.support.database_session import control_session
from disarray.cli.support.project import open_project
from disarray.cli.support.rendering import (
    AsJson,
    InDataset,
    InZone,
    parse_instant,
    print_json,
    shown_at,
    shown_instant,
    shown_minute,
    shown_number,
    tell_rebuild,
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
    dataset: InDataset = None,
    zone: InZone = None,
    as_json: AsJson = False,
) -> None:
    """List the buckets of a rollup, and whether each is final."""
    use_zone(context, zone)
    from_us = None if from_ is None else parse_instant(from_)
    to_us = None if to is None else parse_instant(to)
    with open_project(context) as project:
        from disarray.queries.rollups import query_rollup

        answer = query_rollup(
            project.connection,
            project.datasets,
            subject_key=subject,
            rollup=name,
            from_us=from_us,
            to_us=to_us,
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
    tell_rebuild([found])


def restatements(
    context: typer.Context,
    subject: Annotated[str | None, typer.Argument(help="Only of this one.")] = None,
    *,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 100,
    zone: InZone = None,
    as_json: AsJson = False,
) -> None:
    """List published values that were changed after people may have used them, newest first."""
    use_zone(context, zone)
    from disarray.cli.support.spans import ledger_spans
    from disarray.queries.restatements import list_restatements

    with control_session(configuration(context)) as connection:
        found = list_restatements(connection, subject_key=subject, limit=limit)
    if as_json:
        print_json(found.restatements)
        return
    if not found.restatements:
        typer.echo("Nothing was restated.")
    for noted, spans in ledger_spans(found.restatements):
        typer.echo(_sentence(noted, spans))


def _sentence(noted: Restatement, spans: Sequence[Span]) -> str:
    from disarray.cli.support.spans import describe_spans

    name = f"{noted.subject_key}/{noted.channel}" if noted.channel else noted.subject_key
    return (
        f"{name} {noted.metric} {describe_spans(spans, verb='became')}, because of {noted.causes}, "
        f"written down {shown_minute(noted.restated_at)}."
    )
