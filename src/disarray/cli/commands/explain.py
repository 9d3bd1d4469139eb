"""`disarray explain`: which files and runs made a value, and when it was last restated."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disarray.cli.support.project import open_project
from disarray.cli.support.rendering import (
    AsJson,
    InDataset,
    InZone,
    OfChannel,
    counted,
    json_instant,
    parse_instant,
    print_json,
    shown_instant,
    shown_moment,
    shown_number,
    use_zone,
)
from disarray.cli.support.spans import describe_spans, ledger_span
from disarray.cli.support.text_tables import Table, print_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.model.description.metrics import Metric
    from disarray.queries.explanations import Explanation


def explain(
    context: typer.Context,
    subject: str,
    metric: str,
    *,
    at: Annotated[
        str | None, typer.Option(help="An ISO time, in UTC if it names no zone; now if not given.")
    ] = None,
    channel: OfChannel = None,
    dataset: InDataset = None,
    zone: InZone = None,
    as_json: AsJson = False,
) -> None:
    """Tell where a value comes from: its segment, the files in it, those before it, and what restated it."""
    use_zone(context, zone)
    at_us = None if at is None else parse_instant(at)
    with open_project(context) as project:
        from disarray.queries.explanations import explain as explain_value
        from disarray.queries.names import find_metric, find_subjects

        subjects = find_subjects(project.connection, project.datasets, subject_key=subject, dataset=dataset)
        found, chosen = find_metric(subjects, metric)
        told = explain_value(
            project.connection,
            project.lake,
            dataset=found.dataset,
            subject_key=subject,
            metric=chosen,
            channel=channel,
            at_us=at_us,
        )
    if as_json:
        print_json(
            {
                "dataset": found.dataset.name,
                "subject_key": subject,
                "metric": chosen.name,
                "unit": chosen.unit,
                "explanations": [_document(each) for each in told],
            }
        )
        return
    if not told:
        typer.echo(
            f"{subject} has no reading at or before {at}; its first is at {shown_instant(found.first_us)}."
        )
    for each in told:
        print_parts(_lines(subject, chosen, each))


def _document(told: Explanation) -> dict[str, Any]:
    return {
        "channel": told.value.channel,
        "value": told.value.number,
        "reading_at": json_instant(told.value.reading_us),
        "final": told.value.is_final,
        "base": told.base,
        "local": told.local,
        "segment": told.segment,
        "restatements": list(told.restatements),
    }


def _lines(subject: str, metric: Metric, told: Explanation) -> Iterator[Table | str]:
    value, segment = told.value, told.segment
    name = f"{subject}/{value.channel}" if value.channel else subject
    yield (
        f"{name} {metric.name} is {shown_number(value.number, metric.unit)} as of its reading at "
        f"{shown_instant(value.reading_us)}, {'final' if value.is_final else 'stale'}:"
    )
    before = "reset in the segment" if told.base is None else f"base {shown_number(told.base)}"
    yield f"  {before}, {shown_number(told.local)} within the segment"
    made = segment["run"]
    by = f" by {made['instance_name']} at {_second(made['committed_at'])}" if made else ""
    yield (
        f"segment {shown_instant(segment['segment_us'])} to {shown_instant(segment['segment_end_us'])}: "
        f"{counted(segment['readings'], 'reading')}, {counted(segment['duplicates'], 'duplicate')} left out, "
        f"revision {segment['revision']}, scanned in run {segment['run_id']}{by}"
    )
    if segment["sealed_at"] is not None:
        yield f"  its readings were dropped at {_second(segment['sealed_at'])}; the numbers stay"
    yield from _files(segment)
    yield from _restated(told)


def _files(segment: dict[str, Any]) -> Iterator[Table | str]:
    if segment["files"]:
        rows = [
            [
                f"{file['readings']:,}",
                _second(file["landed_at"]),
                _second(file["changed_at"]),
                (file["content_hash"] or "-")[:12],
                ", ".join(run[:8] for run in file["run_ids"]),
                file["source_uri"],
            ]
            for file in segment["files"]
        ]
        yield Table(["readings", "landed", "changed", "content", "runs", "file in the segment"], rows)
    before = segment["before"]
    yield (
        f"before the segment: {counted(before['readings'], 'reading')} of {counted(before['files'], 'file')}"
        f"{'; changed last:' if before['latest'] else ''}"
    )
    if before["latest"]:
        rows = [
            [_second(file["changed_at"]), f"{file['readings']:,}", file["source_uri"]]
            for file in before["latest"]
        ]
        yield Table(["changed", "readings", "file before the segment"], rows)


def _restated(told: Explanation) -> Iterator[str]:
    if not told.restatements:
        yield "never restated"
    for noted in told.restatements:
        change = describe_spans([ledger_span(noted)], verb="became")
        yield f"restated {shown_moment(noted.restated_at)}: {change}, because of {noted.causes}"


def _second(moment: str) -> str:
    return shown_moment(datetime.fromisoformat(moment))
