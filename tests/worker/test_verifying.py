"""A worker verifies by itself while it has nothing else to do, and the verdict is told."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from disarray.control.hooks import register_hooks
from disarray.queries.verifications import show_verification
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
