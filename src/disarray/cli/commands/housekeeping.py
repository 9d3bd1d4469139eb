"""`disarray housekeeping`: small fragments merged, old readings dropped, dead files deleted, history forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.options import AsJson, DryRun
from disarray.cli.support.printing import print_failures, print_json
from disarray.cli.support.project import chosen_dataset, configuration, extra_installed
from disarray.cli.support.rendering import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disarray.worker.upkeep.housekeeping import HousekeepingReport
    from disarray.worker.upkeep.subject_upkeep import KeptSubject

INSTANCE_NAME = "housekeeping"


def housekeeping(
    context: typer.Context,
    *,
    dry_run: DryRun = False,
    dataset: Annotated[
        str | None, typer.Option(help="Only compaction and retention of this dataset.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="Only compaction and retention of this subject.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Keep the lake and the catalog small, once; a worker does so every hour. No number changes."""
    with extra_installed("worker", purpose="`housekeeping`"):
        from disarray.queries.project import configured_datasets
        from disarray.worker.process.local import open_house, open_workplace
        from disarray.worker.process.scheduler import Scheduler
        from disarray.worker.upkeep.housekeeping import keep_house
    config = configuration(context)
    if dataset is not None:
        chosen_dataset(configured_datasets(config), dataset)
    kept: list[KeptSubject] = []
    failures: list[str] = []
    with open_house(config) as house:
        report = keep_house(house, dataset=dataset, subject_key=subject, is_rehearsal=dry_run)
    if report is not None and report.subjects and not dry_run:
        with open_workplace(config, instance_name=INSTANCE_NAME) as place:
            for done in Scheduler(place).drain():
                kept += done.kept
                failures += done.failed.values()
    if as_json:
        print_json(
            {
                "is_rehearsal": dry_run,
                "is_done_elsewhere": report is None,
                "found": report,
                "subjects": kept,
                "failures": failures,
            }
        )
    else:
        for line in _lines(report, kept, is_rehearsal=dry_run):
            typer.echo(line)
    print_failures(failures, as_json=as_json)


def _lines(
    report: HousekeepingReport | None, kept: Sequence[KeptSubject], *, is_rehearsal: bool
) -> Iterator[str]:
    if report is None:
        yield "Another instance is keeping house. Nothing was done."
        return
    would = "would be " if is_rehearsal else ""
    if is_rehearsal:
        for needs in report.subjects:
            if needs.cold_segments:
                yield (
                    f"{needs.subject_key}: {counted(needs.cold_segments, 'segment')} of "
                    f"{counted(needs.cold_fragments, 'fragment')} would be compacted"
                )
            if needs.expired_segments:
                yield (
                    f"{needs.subject_key}: {counted(needs.expired_segments, 'segment')} would be sealed, "
                    f"{counted(needs.expired_readings, 'reading')} dropped"
                )
    for each in kept:
        if each.segments_sealed:
            yield f"{each.subject_key}: {counted(each.segments_sealed, 'segment')} sealed, the numbers stay"
        if each.segments_compacted:
            yield (
                f"{each.subject_key}: {counted(each.segments_compacted, 'segment')} compacted, "
                f"{counted(each.row_groups_before, 'row group')} became {each.row_groups_after:,} "
                f"({counted(each.fragments_before, 'fragment')} {each.fragments_after:,})"
            )
        if each.segments_left:
            yield (
                f"{each.subject_key}: {counted(each.segments_left, 'segment')} left: what can be moved of them lies in "
                "as few row groups as it can"
            )
    forgotten = report.forgotten
    for number, noun, size in (
        (report.dead_files, "file that nothing needs", report.dead_bytes),
        (report.orphans, "orphan of a dead run", report.orphan_bytes),
    ):
        if number:
            first, _, rest = noun.partition(" ")
            yield f"{counted(number, first)} {rest} {would}deleted, {size:,} bytes"
    if report.spent_bytes:
        yield f"deliveries of which nothing counts any more {would}deleted, {report.spent_bytes:,} bytes"
    if any(
        (
            forgotten.dirty_ranges,
            forgotten.runs,
            forgotten.fragments,
            report.commits,
            report.inbox_events,
            report.side_effects,
            report.backfills,
            report.event_months,
        )
    ):
        yield (
            f"{would}forgotten: {counted(forgotten.dirty_ranges, 'resolved range')}, "
            f"{counted(forgotten.runs, 'run')}, {counted(forgotten.fragments, 'dropped fragment')}, "
            f"{counted(report.commits, 'notice')} of commits, "
            f"{counted(report.inbox_events, 'event')} of the inbox, "
            f"{counted(report.side_effects, 'message')} to hooks, {counted(report.backfills, 'backfill')}, "
            f"{counted(report.event_months, 'month')} of events"
        )
    if (
        not kept
        and report == type(report)(subjects=report.subjects)
        and not (is_rehearsal and report.subjects)
    ):
        yield "There was nothing to do."
