"""`disarray demo`: a factory whose reports arrive in disarray, and numbers that stay right."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disarray.cli.support.options import AsJson
from disarray.cli.support.pass_report import pass_document, pass_sentence
from disarray.cli.support.printing import print_json
from disarray.demo.factory import (
    DATASET,
    LATE_TOOL,
    REPORT_HOURS,
    START,
    Factory,
    land,
    out_of_order_percent,
)
from disarray.demo.keep_running import METRIC, keep_running
from disarray.demo.screen import Figures, Progress, Screen, in_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from disarray.config import Config
    from disarray.demo.factory import Arrival
    from disarray.worker.workplace import Workplace

INSTANCE_NAME = "demo"
MINUTE = timedelta(minutes=1)
BATCHES = 24
PICTURE = "demo.svg"


def demo(
    *,
    tools: Annotated[int, typer.Option(min=8, max=80, help="How many tools.")] = 20,
    days: Annotated[int, typer.Option(min=7, max=39, help="Over how many days.")] = 24,
    seed: Annotated[int, typer.Option(help="Another seed, another factory.")] = 7,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Leave it running, with its URL, until Ctrl-C; its folder stays."),
    ] = False,
    picture: Annotated[
        Path, typer.Option(help="Where to draw the total of the late tool, before and after.")
    ] = Path(PICTURE),
    as_json: AsJson = False,
) -> None:
    """Run a factory of twenty tools whose reports come late, twice, half-written and weeks after their time."""
    from disarray.worker.process.local import open_workplace

    factory = Factory(tools, days, seed)
    with Screen(is_silent=as_json) as screen, _project(keep=keep) as folder:
        screen.say(
            f"{factory.tools} tools over {factory.days} days, each with a report every {REPORT_HOURS} hours; "
            "starting PostgreSQL and Spark …"
        )
        config = _configuration(folder)
        with open_workplace(config, instance_name=INSTANCE_NAME) as place:
            figures = _run(place, factory, screen, inbox=folder / "inbox", picture=picture)
            screen.say("backfill check makes all numbers once more, from the files, with our kernels …")
            started = time.monotonic()
            figures.check = _check(config, place)
            figures.check_seconds = time.monotonic() - started
            if as_json:
                print_json(asdict(figures))
            else:
                screen.show(figures)
            if keep:
                keep_running(config, place)
    if (figures.verify, figures.check) != ("identical", "identical"):
        raise typer.Exit(1)


@contextmanager
def _project(*, keep: bool) -> Iterator[Path]:
    from disarray import embedded

    folder = Path(tempfile.mkdtemp(prefix="disarray-demo-"))
    (folder / "inbox").mkdir()
    (folder / "disarray.toml").write_text(DATASET)
    try:
        yield folder
    finally:
        embedded.stop(folder / ".disarray")
        if not keep:
            import shutil

            shutil.rmtree(folder, ignore_errors=True)


def _configuration(folder: Path) -> Config:
    from disarray.config import Setting, load
    from disarray.engine.session import SHORT_LIVED

    # A free port: another one may run on this machine.
    config = load(folder, flags={"--port": "0"}, environment={})
    chosen = (Setting(name, value, "demo") for name, value in SHORT_LIVED.items())
    return replace(config, settings=(*config.settings, *chosen))


def _run(place: Workplace, factory: Factory, screen: Screen, *, inbox: Path, picture: Path) -> Figures:
    arrivals, backlog = factory.arrivals(), factory.backlog()
    figures = Figures(
        files=len({arrival.name for arrival in (*arrivals, *backlog)}) + 2,
        landings=len(arrivals) + len(backlog) + 2,
        out_of_order_percent=out_of_order_percent(arrivals),
        late_files=len(backlog),
        late_by=in_words(backlog[-1].at - backlog[-1].ends),
    )
    screen.say(
        f"{figures.files:,} files land: {figures.out_of_order_percent} % out of order, some twice, some half-written "
        "and growing …"
    )
    figures.seconds = _land_all(place, arrivals, screen, inbox=inbox)
    before = _totals(place, until=factory.end)
    screen.say(
        f"{LATE_TOOL} was offline for two days; its {figures.late_files} reports land {figures.late_by} late …"
    )
    started = time.monotonic()
    repairs = _take_in(place, inbox, backlog)
    figures.late_seconds = time.monotonic() - started
    figures.add_late(repairs)
    for repair in repairs:
        screen.say(f"  {pass_sentence(repair)}")
    _draw(picture, before, _totals(place, until=factory.end), backlog)
    figures.picture = f"{picture}: {LATE_TOOL} before and after the backlog"
    screen.say("a damaged file lands, and one from a time beyond the horizon …")
    _take_in(place, inbox, [factory.damaged(), factory.from_beyond_the_horizon()])
    _count(place, figures)
    screen.say("verify computes everything once more, from the files, with other code than our kernels …")
    started = time.monotonic()
    figures.verify = _verify(place)
    figures.verify_seconds = time.monotonic() - started
    return figures


def _land_all(place: Workplace, arrivals: Sequence[Arrival], screen: Screen, *, inbox: Path) -> float:
    """Let files land a few hundred at a time; the seconds that it took."""
    started = time.monotonic()
    progress = Progress(of=len(arrivals))
    size = -(-len(arrivals) // BATCHES)
    for first in range(0, len(arrivals), size):
        batch = arrivals[first : first + size]
        passes = _take_in(place, inbox, batch)
        progress.add(
            passes,
            landed=first + len(batch),
            at=batch[-1].at,
            held_up_minutes=max(
                (arrival.at - arrival.ends) / MINUTE for arrival in batch if not arrival.is_copy
            ),
        )
        screen.progress(progress)
    return time.monotonic() - started


def _take_in(place: Workplace, inbox: Path, arrivals: Sequence[Arrival]) -> list[dict[str, Any]]:
    """Land the files in order, each notified as it lands, and process what is queued."""
    from disarray.cli.support.notifying import notifications_of
    from disarray.control.files import enqueue_files
    from disarray.worker.process.scheduler import Scheduler

    paths = [str(land(inbox, arrival)) for arrival in arrivals]
    with place.pool.connection() as connection:
        enqueue_files(connection, notifications_of(paths, place.datasets), instance_name=INSTANCE_NAME)
    return [pass_document(place, done) for report in Scheduler(place).drain() for done in report.committed]


def _totals(place: Workplace, *, until: datetime) -> list[tuple[datetime, float]]:
    """What a user reads of the late tool now, every six hours and after its last report."""
    from disarray.model.segments import datetime_of, microseconds_of
    from disarray.queries.metric_values import series

    [dataset] = place.datasets.values()
    with place.pool.connection() as connection:
        found = series(
            connection,
            place.lake,
            dataset=dataset,
            subject_key=LATE_TOOL,
            metric=next(metric for metric in dataset.metrics if metric.name == METRIC),
            from_us=microseconds_of(START),
            to_us=microseconds_of(until + timedelta(hours=6)),
            every_us=6 * 3_600_000_000,
        )
    return [(datetime_of(value.at_us), value.number) for value in found.values if value.number is not None]


def _draw(
    picture: Path,
    before: Sequence[tuple[datetime, float]],
    after: Sequence[tuple[datetime, float]],
    backlog: Sequence[Arrival],
) -> None:
    from disarray.demo.picture import Picture

    late_by = in_words(backlog[-1].at - backlog[-1].ends)
    drawn = Picture(
        title=f"{LATE_TOOL}: parts in spec since the first reading",
        subtitle=f"{len(backlog)} reports of two days offline landed {late_by} late",
        before=before,
        after=after,
        missing=(backlog[0].ends - timedelta(hours=REPORT_HOURS), backlog[-1].ends),
    )
    picture.write_text(drawn.svg(), encoding="utf-8")


def _count(place: Workplace, figures: Figures) -> None:
    from disarray.cli.support.impact import describe, impact_of
    from disarray.cli.support.spans import describe_spans, ledger_spans
    from disarray.control.catalog import load_segments
    from disarray.control.files import list_files
    from disarray.control.quarantine import list_quarantine
    from disarray.control.values import all_subjects
    from disarray.model.segments import FIRST_US, LAST_US
    from disarray.queries.restatements import list_restatements
    from disarray.worker.passes.rehearsal import rehearse_release

    with place.pool.connection() as connection:
        counted: Counter[str] = Counter()
        for span in all_subjects(connection):
            for segment in load_segments(
                connection, span.dataset, span.subject_key, from_us=FIRST_US, to_us=LAST_US
            ):
                counted.update(readings=segment.readings, duplicates=segment.duplicates)
        figures.readings, figures.duplicates = counted["readings"], counted["duplicates"]
        found = list_restatements(connection, subject_key=LATE_TOOL)
        figures.restatements = [
            f"{noted.metric} {describe_spans(spans, verb='became', most=0)}"
            for noted, spans in ledger_spans(found.restatements)
        ]
        for waiting in list_quarantine(connection):
            figures.quarantined.append(
                f"{Path(waiting.source_uri).name}: {waiting.readings} readings from beyond the horizon wait; "
                "released, they would change"
            )
            rehearsal = rehearse_release(connection, waiting, datasets=place.datasets, lake=place.lake)
            impacts = [impact_of(connection, rehearsed) for rehearsed in rehearsal.plans]
            figures.quarantined += [line for impact in impacts for line in list(describe(impact))[3:]]
        figures.dead_letters = [
            f"{Path(file.source_uri).name}: {file.last_error}"
            for file in list_files(connection, status="failed")
        ]


def _verify(place: Workplace) -> str:
    from disarray.engine.verification.verify import verify

    with place.pool.connection() as connection:
        report = verify(connection, place.runner, place.datasets, lake=place.lake)
    return "identical" if report.is_identical(allow_vanished=False) else "DIFFERENT"


def _check(config: Config, place: Workplace) -> str:
    """What `disarray backfill check` does, with the engine that runs already."""
    import threading

    from disarray.backfill.serving_jobs import JobServer
    from disarray.backfill.starting import start_backfill
    from disarray.cli.support.backfill_check import check_spec
    from disarray.cli.support.backfill_work import lease_seconds
    from disarray.cli.support.project import database_dsn
    from disarray.queries.backfills import show_backfill
    from disarray.worker.process.backfill_kinds import WorkerKinds

    dsn = database_dsn(config)
    kinds = WorkerKinds(place, dsn)
    with place.pool.connection() as connection:
        spec = check_spec(
            connection, config, place.datasets, last=None, datasets=None, subjects=None, allow_vanished=False
        )
        job_id = start_backfill(dsn, spec, reason="demo", by=INSTANCE_NAME, open_kind=kinds)
        server = JobServer(dsn=dsn, holder=place.holder, lease_seconds=lease_seconds(config), open_kind=kinds)
        server.run_job(job_id, threading.Event(), threads=spec.processing.max_concurrency)
        job = show_backfill(connection, job_id=job_id)
    return "identical" if job.verdict == "verified" else "DIFFERENT"
