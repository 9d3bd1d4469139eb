"""`disarray up --once`: one scan of the roots, everything in it taken in, and a summary."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from disarray.cli.ingest import sentence_of, sentence_of_rejects, told_of, told_rejects
from disarray.cli.tables import Table, is_terminal, print_parts
from disarray.cli.words import counted, print_json, shown_instant, shown_number

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from disarray.agent.agent import Agent
    from disarray.worker.scheduler import Scheduler
    from disarray.worker.work import Workplace

SHOWN_SUBJECTS = 5
SHOWN_FAILURES = 20


@dataclass
class Summary:
    """What one run did, and what it could not do."""

    files: int = 0
    announced: int = 0
    processed: int = 0
    passes: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    quarantined: list[str] = field(default_factory=list)
    waiting: int = 0
    unreadable: bool = False
    stopped: bool = False
    seconds: float = 0.0

    @property
    def is_all_well(self) -> bool:
        """Whether everything that was there is in."""
        return not (self.failures or self.quarantined or self.waiting or self.unreadable or self.stopped)


def take_all_in(
    place: Workplace, watcher: Agent, *, scheduler: Scheduler, stop: threading.Event, as_json: bool
) -> int:
    """Scan, process until nothing is left, and tell; the exit code."""
    summary = Summary()
    began = time.monotonic()
    parked_before = _quarantined(place)
    # No file is waited for: its last line counts, with or without an end of line.
    summary.unreadable = not watcher.drain(is_final=True)
    summary.files, summary.announced = watcher.counts.files, watcher.counts.notifications
    with _shown_progress(_backlog(place), is_quiet=as_json) as advance:
        for report in _drained(scheduler, stop):
            told = [told_of(place, committed) for committed in report.committed]
            summary.passes += told
            summary.failures += report.failed.values()
            summary.rejected += map(told_rejects, report.rejects)
            summary.processed += len(report.completed)
            advance(len(report.completed) + len(report.failed), told)
    scheduler.release_held()
    summary.stopped = stop.is_set()
    summary.quarantined = sorted(_quarantined(place) - parked_before)
    summary.waiting = _backlog(place)
    summary.seconds = round(time.monotonic() - began, 3)
    if as_json:
        print_json({**vars(summary), "ok": summary.is_all_well})
    else:
        print_parts(_described(place, summary))
    return 0 if summary.is_all_well else 1


def _drained(scheduler: Scheduler, stop: threading.Event) -> Iterator[Any]:
    while not stop.is_set() and (report := scheduler.process_batch()) is not None:
        yield report


def _backlog(place: Workplace) -> int:
    from disarray.control.status import queue_status

    with place.pool.connection() as connection:
        return int(queue_status(connection)["queue"]["available"])


def _quarantined(place: Workplace) -> set[str]:
    from disarray.control.quarantine import list_quarantine

    with place.pool.connection() as connection:
        return {each.source_uri for each in list_quarantine(connection, limit=10_000)}


@contextmanager
def _shown_progress(total: int, *, is_quiet: bool) -> Iterator[Callable[[int, list[dict[str, Any]]], None]]:
    """A bar on a terminal, a sentence for each subject elsewhere."""
    if is_quiet:
        yield lambda _count, _told: None
        return
    if not is_terminal():
        yield _tell_plainly
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("files", total=total)

        def advance(count: int, told: list[dict[str, Any]]) -> None:
            newest = f"{told[-1]['subject']}: {told[-1]['arrival']}" if told else "files"
            bar.update(task, advance=count, description=newest)

        yield advance


def _tell_plainly(_count: int, told: list[dict[str, Any]]) -> None:
    for each in told:
        typer.echo(sentence_of(each))


def _described(place: Workplace, summary: Summary) -> Iterator[Table | str]:
    passes = summary.passes
    late = [each for each in passes if each["arrival"] == "late"]
    yield Table(
        ["", ""],
        [
            [
                "files",
                f"{summary.files:,} there, {summary.announced:,} new or changed, {summary.processed:,} taken in",
            ],
            [
                "subjects",
                f"{len({each['subject'] for each in passes}):,} changed, {len(late):,} by late data",
            ],
            ["scanned", counted(sum(each["readings_scanned"] for each in passes), "reading")],
            ["shifted", counted(sum(each["bases_shifted"] for each in late), "base")],
            [
                "failed",
                f"{len(summary.failures):,} files; {summary.waiting:,} wait in the queue for another try",
            ],
            ["quarantine", f"{len(summary.quarantined):,} files wait for a decision"],
            ["seconds", f"{summary.seconds:.1f}"],
        ],
    )
    numbers = list(_numbers(place, sorted({(each["dataset"], each["subject"]) for each in passes})))
    if numbers:
        yield Table(["subject", "metric", "value", "as of"], numbers)
        yield f"Next: disarray value {numbers[0][0]} {numbers[0][1]}    disarray status    disarray db stop"
    for each in summary.rejected[:SHOWN_FAILURES]:
        yield sentence_of_rejects(each)
    if len(summary.rejected) > SHOWN_FAILURES:
        yield f"{len(summary.rejected) - SHOWN_FAILURES:,} more files have rejected rows; --json lists all."
    for failure in summary.failures[:SHOWN_FAILURES]:
        yield f"failed: {failure}"
    for uri in summary.quarantined[:SHOWN_FAILURES]:
        yield f"{uri} is in quarantine, all or part of it. See: disarray quarantine preview {uri}"
    if summary.stopped:
        yield "Stopped before the end: what was taken in is committed, the rest is queued. Run it again."


def _numbers(place: Workplace, changed: list[tuple[str, str]]) -> Iterator[list[str]]:
    from disarray.store.values import value_at

    with place.pool.connection() as connection:
        for name, subject in changed[:SHOWN_SUBJECTS]:
            for metric in place.datasets[name].metrics:
                found = value_at(
                    connection, place.lake, dataset=place.datasets[name], subject_key=subject, metric=metric
                )
                for each in found.values[:1]:
                    yield [
                        f"{subject}/{each.channel}" if each.channel else subject,
                        metric.name,
                        shown_number(each.number, metric.unit),
                        shown_instant(each.reading_us),
                    ]
