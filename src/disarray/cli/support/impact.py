"""What a plan would do, in words and for programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

from disarray.cli.support.pass_report import disagreement, rejects_document, rejects_summary
from disarray.cli.support.printing import print_json
from disarray.cli.support.rendering import (
    counted,
    json_instant,
    shown_instant,
    shown_number,
    signed,
)
from disarray.cli.support.spans import describe_spans, planned_spans
from disarray.control import catalog
from disarray.model.fragments import FragmentState
from disarray.model.segments import FIRST_US, LAST_US
from disarray.worker.passes.report import Arrival, arrival_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.worker.passes.rehearsal import RehearsedPlan
    from disarray.worker.passes.report import FileRejects

SHOWN_BUCKETS = 12


@dataclass(frozen=True)
class Impact:
    """A rehearsed plan beside what it leaves alone."""

    rehearsed: RehearsedPlan
    arrival: Arrival
    from_us: int | None  # the earliest reading that comes, goes or is cut
    readings_to_the_right: int


def impact_of(connection: Connection, rehearsed: RehearsedPlan) -> Impact:
    """Look up what lies to the right of a plan."""
    plan, frontier_us = rehearsed.plan, rehearsed.impact.frontier_us
    segments = catalog.load_segments(
        connection, plan.dataset, plan.subject_key, from_us=FIRST_US, to_us=LAST_US
    )
    newest_us = segments[-1].segment_us if segments else None
    scanned = {unit.segment_us for unit in plan.units}
    return Impact(
        rehearsed,
        arrival_of(changed_from_us=frontier_us, newest_segment_us=newest_us),
        None
        if frontier_us is None
        else min((fragment.first_us for fragment in plan.changes.counting), default=frontier_us),
        sum(
            segment.readings
            for segment in segments
            if frontier_us is not None
            and segment.segment_us > frontier_us
            and segment.segment_us not in scanned
        ),
    )


def describe(impact: Impact) -> Iterator[str]:
    """The plan of one subject, a line for each thing that it would do."""
    plan, preview = impact.rehearsed.plan, impact.rehearsed.impact
    changes = plan.changes
    parked = [fragment for fragment in changes.added if fragment.state is FragmentState.PARKED]
    yield f"{plan.subject_key} ({plan.dataset}): {impact.arrival}"
    if impact.rehearsed.is_rebuild_pending:
        yield "  a rebuild is pending: all of this is by the definition that its numbers were made with"
    yield (
        f"  fragments: {len(changes.added) - len(parked)} added, {len(parked)} parked, {len(changes.cut)} cut, "
        f"{len(changes.dropped)} dropped, {len(changes.released)} released"
    )
    if parked:
        readings = sum(fragment.readings for fragment in parked)
        yield f"  beyond the horizon: {counted(readings, 'reading')} would wait in quarantine"
    won, lost = impact.rehearsed.conflicts
    if won or lost:
        yield f"  {disagreement(won, lost)} (by 'conflict' of the dataset)"
    for unit in plan.units:
        yield (
            f"  segment {shown_instant(unit.segment_us)} is scanned again: "
            f"{counted(unit.readings, 'reading')} in {counted(len(unit.fragments), 'fragment')}"
        )
    known = dict(planned_spans(preview.spans))
    for name, spans in known.items():
        yield f"  {name} {describe_spans(spans, verb='becomes')}"
    for total in preview.totals:
        name = f"{total.channel} {total.metric}" if total.channel else total.metric
        span = known[name][-1] if name in known else None
        if span is None or (span.old, span.new) != (total.old, total.new):
            yield (
                f"  newest {name} {signed((total.new or 0) - (total.old or 0))} "
                f"({shown_number(total.old)} becomes {shown_number(total.new)})"
            )
    if impact.from_us is not None and not known and not preview.totals:
        yield "  no value changes that anybody may have used"
    yield from _buckets(impact)
    if impact.arrival is Arrival.LATE:
        yield (
            f"  to the right: {counted(impact.readings_to_the_right, 'reading')} stay as they are, "
            f"{counted(preview.bases_shifted, 'base')} shift"
        )


def print_impacts(
    impacts: Sequence[Impact],
    *,
    failures: Mapping[str, str],
    as_json: bool,
    rejects: Sequence[FileRejects] = (),
    otherwise: str = "",
) -> None:
    """What plans would do, what would be rejected and what would fail; `otherwise` is printed where there is nothing.

    Ends the command with 1 where something would fail.
    """
    if as_json:
        plans = [document(impact) for impact in impacts]
        print_json(
            {
                "plans": plans,
                "rejected": [rejects_document(each) for each in rejects],
                "failures": failures,
            }
        )
    else:
        for line in (line for impact in impacts for line in describe(impact)):
            typer.echo(line)
        for each in rejects:
            typer.echo(f"would be {rejects_summary(rejects_document(each))}")
        for uri, failure in failures.items():
            typer.echo(f"{uri} would fail: {failure}", err=True)
        if otherwise and not impacts and not rejects and not failures:
            typer.echo(otherwise)
    if failures:
        raise typer.Exit(1)


def document(impact: Impact) -> dict[str, Any]:
    """The same for programs."""
    plan, preview = impact.rehearsed.plan, impact.rehearsed.impact
    changes = plan.changes
    return {
        "dataset": plan.dataset,
        "subject": plan.subject_key,
        "arrival": impact.arrival,
        "rebuild_pending": impact.rehearsed.is_rebuild_pending,
        "changed_from": json_instant(impact.from_us),
        "conflicts_won": impact.rehearsed.conflicts[0],
        "conflicts_lost": impact.rehearsed.conflicts[1],
        "fragments": {
            "added": sum(fragment.state is FragmentState.ACTIVE for fragment in changes.added),
            "parked": sum(fragment.state is FragmentState.PARKED for fragment in changes.added),
            "cut": len(changes.cut),
            "dropped": len(changes.dropped),
            "released": len(changes.released),
        },
        "segments": [
            {
                "start": json_instant(unit.segment_us),
                "readings": unit.readings,
                "fragments": len(unit.fragments),
            }
            for unit in plan.units
        ],
        "spans": [
            {
                "metric": span.metric,
                "channel": span.channel,
                "from": json_instant(span.from_us),
                "to": json_instant(span.to_us),
                "first_old": span.old_first,
                "first_new": span.new_first,
                "old": span.old_last,
                "new": span.new_last,
                "delta": span.delta,
                "least": span.least,
                "greatest": span.greatest,
            }
            for span in preview.spans
        ],
        "totals": [asdict(total) for total in preview.totals],
        "buckets": [
            {
                "rollup": bucket.rollup,
                "channel": bucket.channel,
                "start": json_instant(bucket.bucket_us),
                "end": json_instant(bucket.bucket_end_us),
                "label": bucket.label,
            }
            for bucket in preview.buckets
        ],
        "bases_shifted": preview.bases_shifted,
        "readings_to_the_right": impact.readings_to_the_right,
    }


def _buckets(impact: Impact) -> Iterator[str]:
    starts: dict[str, list[int]] = {}
    for bucket in impact.rehearsed.impact.buckets:
        known = starts.setdefault(bucket.rollup, [])
        if bucket.bucket_us not in known:
            known.append(bucket.bucket_us)
    for rollup, found in starts.items():
        rest = len(found) - SHOWN_BUCKETS
        more = f" and {rest} more" if rest > 0 else ""
        shown = ", ".join(shown_instant(start) for start in found[:SHOWN_BUCKETS])
        yield f"  rollup {rollup}: {counted(len(found), 'bucket')} would change: {shown}{more}"
