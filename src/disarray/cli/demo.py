"""`disarray demo`: a factory whose reports arrive in disarray, and numbers that stay right."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disarray.cli.demo_factory import DATASET, LATE_TOOL, Factory, land
from disarray.cli.words import AsJson, print_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from disarray.cli.demo_factory import Arrival
    from disarray.config import Config
    from disarray.engine.verification import VerificationReport
    from disarray.worker.work import Workplace

INSTANCE_NAME = "demo"
BATCHES = 8


@dataclass
class Figures:
    """What the demo counted."""

    files: int = 0
    notifications: int = 0
    readings: int = 0
    duplicates: int = 0
    out_of_order_percent: int = 0
    late_files: int = 0
    late_readings_scanned: int = 0
    late_bases_shifted: int = 0
    late_readings_to_the_right: int = 0
    seconds: float = 0
    late_seconds: float = 0
    restatements: list[str] = field(default_factory=list)
    quarantined: list[str] = field(default_factory=list)
    dead_letters: list[str] = field(default_factory=list)
    verify: str = ""


def demo(
    *,
    tools: Annotated[int, typer.Option(min=8, max=99, help="How many tools.")] = 20,
    days: Annotated[int, typer.Option(min=7, max=39, help="Over how many days.")] = 24,
    seed: Annotated[int, typer.Option(help="Another seed, another factory.")] = 7,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave its folder and database to look around in.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a factory of twenty tools whose reports come late, twice, half-written and weeks after their time."""
    say = _say_nothing if as_json else _say
    with _project(keep=keep) as folder:
        figures = _run(folder, Factory(tools, days, seed), say)
        if as_json:
            print_json(asdict(figures))
        else:
            _show(figures)
        if keep:
            say(f"\nLook around:  cd {folder}  and try: disarray value {LATE_TOOL} in_spec_total")
    if figures.verify != "identical":
        raise typer.Exit(1)


def _say(text: str) -> None:
    typer.echo(text)


def _say_nothing(_: str) -> None:
    """Leave standard output to the figures."""


@contextmanager
def _project(*, keep: bool) -> Iterator[Path]:
    from disarray.control import embedded

    folder = Path(tempfile.mkdtemp(prefix="disarray-demo-"))
    (folder / "inbox").mkdir()
    (folder / "disarray.toml").write_text(DATASET)
    try:
        yield folder
    finally:
        if not keep:
            import shutil

            embedded.stop(folder / ".disarray")
            shutil.rmtree(folder, ignore_errors=True)


def _run(folder: Path, factory: Factory, say: Callable[[str], None]) -> Figures:
    from disarray.config import load
    from disarray.worker.local import open_workplace

    config = load(folder, flags={}, environment={})
    arrivals, backlog = factory.arrivals(), factory.backlog()
    figures = Figures(
        files=len({arrival.name for arrival in (*arrivals, *backlog)}) + 2,
        notifications=len(arrivals) + len(backlog) + 2,
        late_files=len(backlog),
        out_of_order_percent=_out_of_order(arrivals),
    )
    say(
        f"{factory.tools} tools, {factory.days} days, {figures.files:,} reports; starting PostgreSQL and Spark …"
    )
    with open_workplace(config, instance_name=INSTANCE_NAME) as place:
        started = time.monotonic()
        size = -(-len(arrivals) // BATCHES)
        for first in range(0, len(arrivals), size):
            batch = arrivals[first : first + size]
            _take_in(place, folder / "inbox", batch)
            say(
                f"  {batch[-1].at:%d %b}: {len(batch):4d} files landed, {first + len(batch):5,} of {len(arrivals):,}"
            )
        figures.seconds = time.monotonic() - started
        say(
            f"{LATE_TOOL} was offline for two days; its {len(backlog)} reports land {factory.days - 4} days late …"
        )
        started = time.monotonic()
        for told in _take_in(place, folder / "inbox", backlog):
            figures.late_readings_scanned += told["readings_scanned"]
            figures.late_bases_shifted += told["bases_shifted"]
            figures.late_readings_to_the_right = max(
                figures.late_readings_to_the_right, told["readings_to_the_right"]
            )
        figures.late_seconds = time.monotonic() - started
        _take_in(place, folder / "inbox", [factory.damaged(), factory.from_beyond_the_horizon()])
        _count(place, figures)
        say("computing everything once more from the files, in another way …")
        figures.verify = _verify(place, config)
    return figures


def _take_in(place: Workplace, inbox: Path, arrivals: Sequence[Arrival]) -> list[dict[str, Any]]:
    """Land the files in order, each notified as it lands, and process what is queued."""
    from disarray.cli.ingest import told_of
    from disarray.cli.notifying import notifications_of
    from disarray.control.files import enqueue_files
    from disarray.worker.scheduler import Scheduler

    paths = [str(land(inbox, arrival)) for arrival in arrivals]
    with place.pool.connection() as connection:
        enqueue_files(connection, notifications_of(paths, place.datasets), instance_name=INSTANCE_NAME)
    return [told_of(place, done) for report in Scheduler(place).drain() for done in report.committed]


def _out_of_order(arrivals: Sequence[Arrival]) -> int:
    """The share of reports that land after one with a later time."""
    whole = [arrival.name.rpartition("_")[0] + arrival.name[-6:] for arrival in arrivals]
    newest, late = "", 0
    for name in (name.partition("report_")[2] for name in whole):
        late += name < newest
        newest = max(newest, name)
    return round(100 * late / max(1, len(arrivals)))


def _count(place: Workplace, figures: Figures) -> None:
    from disarray.control.catalog import load_segments
    from disarray.control.files import list_files
    from disarray.control.quarantine import list_quarantine
    from disarray.control.values import list_restatements, list_subjects
    from disarray.model.segments import FIRST_US, LAST_US

    with place.pool.connection() as connection:
        counted: Counter[str] = Counter()
        for span in list_subjects(connection):
            for segment in load_segments(
                connection, span.dataset, span.subject_key, from_us=FIRST_US, to_us=LAST_US
            ):
                counted.update(readings=segment.readings, duplicates=segment.duplicates)
        figures.readings, figures.duplicates = counted["readings"], counted["duplicates"]
        figures.restatements = [
            f"{noted.metric} {noted.old:,.10g} became {noted.new:,.10g} from {noted.changed_from:%d %b} on"
            for noted in list_restatements(connection, subject_key=LATE_TOOL)
            if noted.old is not None and noted.new is not None
        ]
        figures.quarantined = [
            f"{Path(waiting.source_uri).name}: {waiting.readings} readings wait for a decision"
            for waiting in list_quarantine(connection)
        ]
        figures.dead_letters = [
            f"{Path(file.source_uri).name}: {file.last_error}"
            for file in list_files(connection, status="failed")
        ]


def _verify(place: Workplace, config: Config) -> str:
    from disarray.engine.runner import SparkRunner
    from disarray.engine.verification import verify

    assert isinstance(place.runner, SparkRunner)
    with place.pool.connection() as connection:
        report: VerificationReport = verify(
            connection, place.runner.session, place.datasets, lake=place.lake, subject_key=None, dataset=None
        )
    return "identical" if report.is_identical(allow_vanished=False) else "DIFFERENT"


def _show(figures: Figures) -> None:
    rows = [
        (
            "files",
            f"{figures.files:,} in {figures.notifications:,} landings, {figures.out_of_order_percent} % out of order",
        ),
        (
            "readings",
            f"{figures.readings:,} kept, {figures.duplicates:,} duplicates absorbed, {figures.seconds:.1f} s",
        ),
        ("late repair", f"{figures.late_files} files in {figures.late_seconds:.1f} s"),
        (
            "",
            f"{figures.late_readings_scanned:,} readings scanned, {figures.late_bases_shifted:,} bases shifted",
        ),
        ("", f"{figures.late_readings_to_the_right:,} readings to the right untouched"),
        *(("restated", text) for text in figures.restatements),
        *(("quarantine", text) for text in figures.quarantined),
        *(("dead letter", text) for text in figures.dead_letters),
    ]
    typer.echo()
    for name, text in rows:
        typer.echo(f"{name:<12} {text}")
    typer.echo(f"\nverify: {figures.verify}")
