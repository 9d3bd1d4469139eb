"""`disarray rollup` and `disarray restatements`: what was in each bucket, and what was changed afterwards."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.context import configuration
from disarray.cli.project import open_project
from disarray.cli.session import control_session
from disarray.cli.tables import Table, print_parts
from disarray.cli.words import (
    AsJson,
    InDataset,
    json_instant,
    parse_instant,
    print_json,
    shown_difference,
    shown_instant,
    shown_number,
    tell_rebuild,
)

if TYPE_CHECKING:
    from disarray.control.values import Restatement


def rollup(
    context: typer.Context,
    subject: str,
    name: str,
    *,
    from_: Annotated[str, typer.Option("--from", help="Buckets that end after this instant.")],
    to: Annotated[str, typer.Option("--to", help="Buckets that start before this instant.")],
    dataset: InDataset = None,
    as_json: AsJson = False,
) -> None:
    """List the buckets of a rollup, and whether each is final."""
    from_us, to_us = parse_instant(from_), parse_instant(to)
    with open_project(context) as project:
        from disarray.store.names import find_rollup, find_subjects
        from disarray.store.rollups import rollup as rollup_of

        subjects = find_subjects(project.connection, project.datasets, subject_key=subject, dataset=dataset)
        found, chosen = find_rollup(subjects, name)
        answer = rollup_of(
            project.connection,
            dataset=found.dataset,
            subject_key=subject,
            rollup=chosen,
            from_us=from_us,
            to_us=to_us,
        )
    if as_json:
        buckets = [
            {
                "channel": bucket.channel,
                "start": json_instant(bucket.start_us),
                "end": json_instant(bucket.end_us),
                "label": bucket.label,
                "values": bucket.numbers,
                "final": bucket.is_final,
            }
            for bucket in answer.buckets
        ]
        print_json(
            {
                "dataset": found.dataset.name,
                "subject": subject,
                "rollup": name,
                "stale_from": json_instant(answer.stale_from_us),
                "rebuild_pending": found.is_rebuild_pending,
                "buckets": buckets,
            }
        )
        return
    if not answer.buckets:
        typer.echo(
            f"{subject} has no readings there; it has some from {shown_instant(found.first_us)} "
            f"to {shown_instant(found.last_us)}."
        )
        return
    names = [aggregate.name for aggregate in chosen.aggregates]
    rows = [
        [
            shown_instant(bucket.start_us),
            shown_instant(bucket.end_us),
            bucket.label,
            bucket.channel,
            *("-" if bucket.numbers[each] is None else shown_number(bucket.numbers[each]) for each in names),
            "final" if bucket.is_final else "stale",
        ]
        for bucket in answer.buckets
    ]
    print_parts([Table(["from", "to", "shift", "channel", *names, ""], rows)])
    tell_rebuild([found])


def restatements(
    context: typer.Context,
    subject: Annotated[str | None, typer.Argument(help="Only of this one.")] = None,
    *,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List totals that were changed after people may have used them, newest first."""
    from disarray.control.values import list_restatements

    with control_session(configuration(context)) as connection:
        found = list_restatements(connection, subject_key=subject, limit=limit)
    if as_json:
        print_json([asdict(each) for each in found])
        return
    if not found:
        typer.echo("Nothing was restated.")
    for each in found:
        typer.echo(_sentence(each))


def _sentence(noted: Restatement) -> str:
    name = f"{noted.subject_key}/{noted.channel}" if noted.channel else noted.subject_key
    return (
        f"{name} {noted.metric} {shown_difference(noted.old, noted.new)} from {noted.changed_from:%Y-%m-%dT%H:%MZ} on "
        f"(now {shown_number(noted.new)}), because of {noted.causes}, "
        f"written down {noted.restated_at:%Y-%m-%dT%H:%MZ}."
    )
