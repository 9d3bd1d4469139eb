"""`disarray explain`: which files and runs made a value, and when it was last restated."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from disarray.cli.support.options import AsJson, At, InDataset, InZone, OfChannel
from disarray.cli.support.printing import print_json
from disarray.cli.support.project import open_project
from disarray.cli.support.rendering import (
    counted,
    parse_instant,
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
    at: At = None,
    channel: OfChannel = None,
    dataset: InDataset = None,
    zone: InZone = None,
    as_json: AsJson = False,
) -> None:
    """Tell where a value comes from: its segment, the files in it, those before it, and what restated it."""
    use_zone(context, zone)
    at_us = parse_instant(at)
    with open_project(context) as project:
        from disarray.queries.explain import query_explanation

        answer = query_explanation(
            project.connection,
            project.lake,
            project.datasets,
            subject_key=subject,
            metric=metric,
            at_us=at_us,
            channel=channel,
            dataset=dataset,
        )
    if as_json:
        print_json(answer.document)
        return
    if not answer.explanations:
        first = shown_instant(answer.subject.first_us)
        typer.echo(f"{subject} has no reading at or before {at}; its first is at {first}.")
    for each in answer.explanations:
        print_parts(_lines(subject, answer.metric, each))


def _lines(subject: str, metric: Metric, explained: Explanation) -> Iterator[Table | str]:
    value, segment = explained.value, explained.segment
    name = f"{subject}/{value.channel}" if value.channel else subject
    yield (
        f"{name} {metric.name} is {shown_number(value.number, metric.unit)} as of its reading at "
        f"{shown_instant(value.reading_us)}, {'final' if value.is_final else 'stale'}:"
    )
    before = "reset in the segment" if explained.base is None else f"base {shown_number(explained.base)}"
    yield f"  {before}, {shown_number(explained.local)} within the segment"
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
    yield from _restated(explained)


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


def _restated(explained: Explanation) -> Iterator[str]:
    if not explained.restatements:
        yield "never restated"
    for noted in explained.restatements:
        change = describe_spans([ledger_span(noted)], verb="became")
        yield f"restated {shown_moment(noted.restated_at)}: {change}, because of {noted.causes}"


def _second(moment: str) -> str:
    return shown_moment(datetime.fromisoformat(moment))
