"""`disarray up --once`: one scan of the roots, everything in it taken in, and a summary."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from disarray.cli.support import waiting
from disarray.cli.support.pass_report import pass_document, pass_sentence, rejects_document, rejects_sentence
from disarray.cli.support.printing import print_json
from disarray.cli.support.rendering import conflicts_line, counted, shown_instant, shown_number
from disarray.cli.support.terminal import open_console
from disarray.cli.support.text_tables import Table, is_terminal, print_parts
from disarray.cli.support.waiting import PlantState
from disarray.model.documents import plain

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping

    from disarray.agent.agent import Agent
    from disarray.worker.process.scheduler import Scheduler
    from disarray.worker.workplace import Workplace

SHOWN_SUBJECTS = 5
SHOWN_CHANNELS = 5
SHOWN_FAILURES = 20


@dataclass
class Summary:
    """What one run did, and what it left."""

    files: int = 0
    announced: int = 0
    events: int = 0  # of the inbox, delivered
    rows: int = 0  # of table sources, delivered
    unread_sources: dict[str, str] = field(default_factory=dict)  # and why each could not be read
    processed: int = 0
    failed: int = 0
    passes: list[dict[str, Any]] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    state: PlantState = field(default_factory=PlantState)
    loads: int = 0  # of subjects into destinations
    sinks: list[dict[str, Any]] = field(default_factory=list)  # how far each destination has come
    conflicts: dict[str, int] = field(default_factory=dict)  # readings, and pairs of files, that disagree
    stopped: bool = False
    seconds: float = 0.0

    @property
    def is_all_well(self) -> bool:
        """Whether everything that there is, is in."""
        is_loaded = all(
            each["state"] in ("current", "paused") and not each["held_back"] for each in self.sinks
        )
        return self.state.is_clear and is_loaded and not self.stopped and not self.unread_sources

    @property
    def is_run_well(self) -> bool:
        """Whether this run did all that it could: what waited before, or waits for a person, is no fault of it."""
        state = self.state
        return state.is_sent and not (
            self.failed or self.stopped or self.unread_sources or state.count("unreadable")
        )

    def document(self) -> dict[str, Any]:
        """The summary for programs."""
        did = {name: value for name, value in vars(self).items() if name != "state"}
        return did | {"waits": waiting.document(self.state), "ok": self.is_all_well}


def take_all_in(
    place: Workplace,
    watcher: Agent,
    *,
    scheduler: Scheduler,
    stop: threading.Event,
    allow_waiting: bool,
    as_json: bool,
) -> int:
    """Scan, process until nothing is left, and print a summary; the exit code."""
    summary = Summary()
    began = time.monotonic()
    # No file is waited for: its last line counts, with or without an end of line.
    roots = watcher.drain(is_final=True, stop=stop)
    summary.files, summary.announced = watcher.counts.files, watcher.counts.notifications
    for drained in place.inbox.drain() if place.inbox is not None else ():
        summary.events += drained.delivered
        if stop.is_set():
            break
    if place.puller is not None:
        from disarray.worker.process.pulling import pull_all

        summary.rows, summary.unread_sources = pull_all(place.puller, stop)
    if (loads := place.initial_loader(spares_a_core=False)) is not None:
        from disarray.worker.process.initial_loading import load_all

        rows, unfinished = load_all(loads, stop)
        summary.rows += rows
        summary.unread_sources = unfinished | summary.unread_sources
    with _shown_progress(_backlog(place), is_quiet=as_json) as advance:
        for report in _drained(scheduler, stop):
            passes = [pass_document(place, committed) for committed in report.committed]
            summary.passes += passes
            summary.failed += len(report.failed)
            summary.rejected += map(rejects_document, report.rejects)
            summary.processed += len(report.completed)
            advance(len(report.completed) + len(report.failed), passes)
    scheduler.release_held()
    _load_destinations(place, summary, stop)
    summary.stopped = stop.is_set()
    from disarray.control.status import queue_status

    with place.pool.connection() as connection:
        summary.state = waiting.plant_state(connection, roots)
        summary.conflicts = queue_status(connection)["conflicts"]
    summary.seconds = round(time.monotonic() - began, 3)
    if as_json:
        print_json(summary.document())
    else:
        print_parts(_described(place, summary))
    is_well = summary.is_run_well if allow_waiting else summary.is_all_well
    return 0 if is_well else 1


def _load_destinations(place: Workplace, summary: Summary, stop: threading.Event) -> None:
    """Load what is due, once; one that is away is told of, and the others are loaded."""
    from disarray.errors import DestinationError
    from disarray.queries.sinks import list_sinks

    for loader in place.loaders():
        try:
            for _ in loader.load_due():
                summary.loads += 1
                if stop.is_set():
                    return
        except DestinationError:
            continue  # the database has kept why
    described = {each.name for each in place.destinations}
    if described:
        with place.pool.connection() as connection:
            summary.sinks = [plain(each) for each in list_sinks(connection).sinks if each.name in described]


def _drained(scheduler: Scheduler, stop: threading.Event) -> Iterator[Any]:
    while not stop.is_set() and (report := scheduler.process_batch()) is not None:
        yield report


def _backlog(place: Workplace) -> int:
    from disarray.control.status import queue_status

    with place.pool.connection() as connection:
        return int(queue_status(connection)["queue"]["available"])


@contextmanager
def _shown_progress(total: int, *, is_quiet: bool) -> Iterator[Callable[[int, list[dict[str, Any]]], None]]:
    """A bar on a terminal, a sentence for each subject elsewhere."""
    if is_quiet:
        yield lambda _count, _passes: None
        return
    if not is_terminal():
        yield _print_passes
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    # Names are text: one that looks like markup must not be taken for it.
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=open_console(), transient=True) as bar:
        task = bar.add_task("files", total=total)

        def advance(count: int, passes: list[dict[str, Any]]) -> None:
            newest = f"{passes[-1]['subject']}: {passes[-1]['arrival']}" if passes else "files"
            bar.update(task, advance=count, description=newest)

        yield advance


def _print_passes(_count: int, passes: list[dict[str, Any]]) -> None:
    for each in passes:
        typer.echo(pass_sentence(each))


def _described(place: Workplace, summary: Summary) -> Iterator[Table | str]:
    passes, state = summary.passes, summary.state
    late = [each for each in passes if each["arrival"] == "late"]
    given_up = counted(state.count("failed"), "file")
    left_out = (
        f"{state.count('unmatched'):,} without a dataset, {state.count('refused'):,} refused, "
        f"{state.count('rejected', 'headerless'):,} without a reading"
    )
    yield Table(
        ["", ""],
        [
            [
                "files",
                f"{summary.files:,} there, {summary.announced:,} new or changed, {summary.processed:,} taken in",
            ],
            [
                "subjects",
                f"{_subjects(passes):,} changed, {_subjects(late):,} by late data",
            ],
            ["scanned", counted(sum(each["readings_scanned"] for each in passes), "reading")],
            ["shifted", counted(sum(each["bases_shifted"] for each in late), "base")],
            [
                "failed",
                f"{given_up} given up; {state.count('retrying', 'queued'):,} in the queue",
            ],
            ["quarantine", f"{counted(state.count('parked'), 'file', verb='wait')} for a decision"],
            ["not taken", left_out],
            *(
                [["destinations", f"{len(summary.sinks):,}, {counted(summary.loads, 'load')} of a subject"]]
                if summary.sinks
                else []
            ),
            ["seconds", f"{summary.seconds:.1f}"],
        ],
    )
    # A dataset that was renamed has passes as well, in which its files leave it; nobody can ask it for numbers.
    changed: dict[str, set[str]] = defaultdict(set)
    for each in passes:
        if each["dataset"] in place.datasets:
            changed[each["subject"]].add(each["dataset"])
    numbers = list(_numbers(place, changed))
    if numbers:
        yield Table(["subject", "metric", "value", "as of"], numbers)
        subject, metric = numbers[0][0].partition("/")[0], numbers[0][1]
        yield f"Next: disarray value {subject} {metric}    disarray status    disarray db stop"
    for each in summary.rejected[:SHOWN_FAILURES]:
        yield rejects_sentence(each)
    if len(summary.rejected) > SHOWN_FAILURES:
        yield f"{counted(len(summary.rejected) - SHOWN_FAILURES, 'more file')} with rejected rows; --json lists all."
    if summary.conflicts["readings"]:
        yield conflicts_line(summary.conflicts)
    for each in summary.sinks:
        if each["state"] not in ("current", "paused") or each["held_back"]:
            why = each["pause_reason"] or each["last_error"]
            reason = f": {why}" if why else ""
            commits = counted(each["lag_commits"], "commit")
            yield f"Destination {each['name']} is {commits} behind{reason}. See: disarray sink show {each['name']}"
    yield from waiting.described(state)
    yield from summary.unread_sources.values()
    if summary.stopped:
        yield "Stopped before the end: what was taken in is committed, the rest is queued. Run it again."


def _subjects(passes: list[dict[str, Any]]) -> int:
    """How many subjects: one that has several datasets has a pass for each of them."""
    return len({each["subject"] for each in passes})


def _numbers(place: Workplace, changed: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """The newest values of the first subjects, those of one subject together; `changed` are their datasets."""
    from disarray.queries.metric_values import value_at

    with place.pool.connection() as connection:
        for subject in sorted(changed)[:SHOWN_SUBJECTS]:
            datasets = [place.datasets[name] for name in sorted(changed[subject])]
            for dataset, metric in [(each, metric) for each in datasets for metric in each.metrics]:
                found = value_at(connection, place.lake, dataset=dataset, subject_key=subject, metric=metric)
                for each in found.values[:SHOWN_CHANNELS]:
                    yield [
                        f"{subject}/{each.channel}" if each.channel else subject,
                        metric.name,
                        shown_number(each.number, metric.unit),
                        shown_instant(each.reading_us),
                    ]
                if len(found.values) > SHOWN_CHANNELS:
                    rest = counted(len(found.values) - SHOWN_CHANNELS, "more channel")
                    yield [f"{subject}: {rest}", metric.name, "", ""]
