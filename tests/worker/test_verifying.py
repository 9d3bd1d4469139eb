"""A worker verifies by itself while it has nothing else to do, and the verdict is told."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from disarray.control.hooks import register_hooks
from disarray.engine.runner import InProcessRunner
from disarray.engine.verification import ranges, recompute
from disarray.engine.verification import verify as verify_module
from disarray.engine.verification.range_check import check_ranges
from disarray.engine.verification.record import VerificationRecord
from disarray.engine.verification.verify import verify
from disarray.errors import HandedBackError
from disarray.queries.verifications import show_verification
from disarray.sinks.hook_verification import note_failed_verification
from disarray.worker.process import verifying
from disarray.worker.process.settings import VerificationSettings
from disarray.worker.process.verifying import verify_once
from tests.cli.test_verify import HOOK

if TYPE_CHECKING:
    from disarray.engine.verification.verification_report import VerificationReport
    from disarray.queries.verifications import Verification
    from tests.plant import Plant

pytestmark = pytest.mark.postgres

LINES = "time,watts,good\n2026-10-01T00:00:00Z,1,1\n2026-10-01T00:01:00Z,2,1\n"


def verified(plant: Plant, *, every: timedelta = timedelta(0)) -> VerificationReport | None:
    return verify_once(plant.place, VerificationSettings(every=every), threading.Event())


def told(plant: Plant) -> Verification:
    with plant.pool.connection() as connection:
        return show_verification(connection)


def test_an_idle_worker_verifies_once_in_a_while_and_says_what_differs(plant: Plant) -> None:
    with plant.pool.connection() as connection:
        register_hooks(connection, [HOOK])
    plant.ingest(plant.write("T1/a.csv", LINES), plant.write("T2/a.csv", LINES))
    assert told(plant).subjects_never == 2
    first = verified(plant)
    assert first is not None
    assert first.is_identical()
    assert verified(plant, every=timedelta(days=1)) is None
    state = told(plant)
    assert (state.subjects_identical, state.subjects_never, state.last_ended_at is None) == (2, 0, False)
    plant.rows("update disarray.segment set digest = reverse(digest) where subject_key = 'T2' returning 1")
    again = verified(plant)
    assert again is not None
    assert [each.what for each in again.differences] == ["segment digest"]
    assert told(plant).different == ["T2"]
    assert plant.rows("select subject_key from disarray.side_effect") == [("T2",)]


def test_a_worker_that_has_something_to_do_or_ends_does_not_verify(plant: Plant) -> None:
    plant.ingest(plant.write("T1/a.csv", LINES))
    plant.notify(plant.write("T1/b.csv", LINES))
    assert verified(plant) is None
    plant.drain()
    ending = threading.Event()
    ending.set()
    report = verify_once(plant.place, VerificationSettings(every=timedelta(0)), ending)
    assert report is not None
    assert (report.subjects, report.subjects_left) == (0, 1)


@dataclass
class Meddling(InProcessRunner):
    """Announces a file when the first range of a subject has been recomputed."""

    plant: Plant | None = None
    waves: list[int] = field(default_factory=list)

    def run(self, kernel: Any, tasks: Any) -> list[Any]:
        found = super().run(kernel, tasks)
        if kernel is check_ranges:
            self.waves.append(len(tasks))
            if len(self.waves) == 1 and self.plant is not None:
                self.plant.notify(self.plant.inbox / "T1" / "b.csv")
        return found


@dataclass(eq=False)
class Draining(threading.Event):
    """Whoever waits for it lets the worker do what is queued."""

    meddling: Meddling
    seen: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def wait(self, timeout: float | None = None) -> bool:
        self.seen.append(len(self.meddling.waves))
        assert self.meddling.plant is not None
        self.meddling.plant.drain()
        return False


@pytest.fixture
def meddling(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> Meddling:
    """A subject of six ranges, and a runner in whose first one another of its files comes."""
    monkeypatch.setattr(ranges, "RANGE_READINGS", 1)
    monkeypatch.setattr(recompute, "TASK_READINGS", 1)
    hours = "".join(f"2026-10-01T{hour:02}:30:00Z,{hour},1\n" for hour in range(6))
    plant.ingest(plant.write("T1/a.csv", f"time,watts,good\n{hours}"))
    plant.write("T1/b.csv", "time,watts,good\n2026-10-01T03:10:00Z,7,1\n")
    return Meddling(plant=plant)


def test_a_subject_under_way_waits_while_there_is_something_else_to_do_and_goes_on(
    plant: Plant, meddling: Meddling
) -> None:
    stop = Draining(meddling)
    place = replace(plant.place, runner=meddling)
    report = verify_once(place, VerificationSettings(every=timedelta(0)), stop)
    assert report is not None
    # One task at a time, where there are two cores; the file is in before the next one.
    assert (stop.seen, meddling.waves) == ([1], [1] * 6)
    assert plant.rows("select status from disarray.file_info where source_uri like '%b.csv'") == [
        ("processed",)
    ]
    # Compared is what was stored when the subject's turn began.
    assert (report.is_identical(), report.readings, report.subjects_left) == (True, 6, 0)


def test_a_verification_that_waits_for_too_long_is_given_up_and_the_subject_stays_due(
    plant: Plant, meddling: Meddling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "MOST_WAITING_SECONDS", 0.0)
    place = replace(plant.place, runner=meddling)
    with pytest.raises(HandedBackError, match="the verification was given up"):
        verify_once(place, VerificationSettings(every=timedelta(0)), threading.Event())
    assert len(meddling.waves) == 1
    assert told(plant).subjects_never == 1


class Ending(InProcessRunner):
    """Breaks off at the first task about the second subject."""

    def run(self, kernel: Any, tasks: Any) -> list[Any]:
        if any(each.subject_key == "T2" for task in tasks for each in getattr(task, "ranges", ())):
            raise HandedBackError("killed")
        return super().run(kernel, tasks)


def test_what_a_run_found_before_it_was_broken_off_is_told_once(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_module, "SUBJECTS_AT_ONCE", 1)
    with plant.pool.connection() as connection:
        register_hooks(connection, [HOOK])
    plant.ingest(plant.write("T1/a.csv", LINES), plant.write("T2/a.csv", LINES))
    plant.rows("update disarray.segment set digest = reverse(digest) returning 1")
    place = replace(plant.place, runner=Ending())
    with pytest.raises(HandedBackError):
        verify_once(place, VerificationSettings(every=timedelta(0)), threading.Event())
    noted = "select subject_key, details -> 'finding_count' from disarray.side_effect order by 1"
    assert plant.rows(noted) == [("T1", 1)]
    # The run goes on: what was told is not told again, and the rest is.
    [(run_id,)] = plant.rows("select verification_id from disarray.verification")
    assert isinstance(run_id, uuid.UUID)
    plant.rows("delete from disarray.subject_verification returning 1")
    with plant.pool.connection() as connection:
        tell = partial(note_failed_verification, connection, verification_id=run_id)
        report = verify(
            connection,
            plant.place.runner,
            plant.datasets,
            lake=plant.place.lake,
            record=VerificationRecord(run_id, {}, is_resumed=True),
            on_found=tell,
        )
    assert len(report.differences) == 2
    assert plant.rows(noted) == [("T1", 1), ("T2", 1)]
