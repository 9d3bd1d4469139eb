"""Services: started together, ended together, and one that fails takes the others along."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from disarray.worker.process.duties import Duty, perform_duties
from disarray.worker.process.service import ThreadService, run_services

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.worker.workplace import Workplace
    from tests.plant import Plant


@pytest.fixture
def told() -> list[str]:
    """What the services of a test did, in order."""
    return []


@pytest.fixture
def patient(told: list[str]) -> Callable[[str, threading.Event], ThreadService]:
    """Builds services that wait until they are told to stop."""

    def build(name: str, stop: threading.Event) -> ThreadService:
        def run(stopping: threading.Event) -> None:
            stopping.wait(30)
            told.append(name)

        return ThreadService(name, run, ended=stop)

    return build


def test_the_last_to_start_is_the_first_to_end(
    told: list[str], patient: Callable[[str, threading.Event], ThreadService]
) -> None:
    stop = threading.Event()
    threading.Timer(0.05, stop.set).start()
    run_services({name: patient(name, stop) for name in ("web", "scheduler", "agent")}, stop)
    assert told == ["agent", "scheduler", "web"]


def test_one_that_fails_ends_the_others_and_its_error_is_raised(
    told: list[str], patient: Callable[[str, threading.Event], ThreadService]
) -> None:
    stop = threading.Event()

    def fail(_: threading.Event) -> None:
        raise LookupError("the schema is gone")

    with pytest.raises(LookupError, match="the schema is gone"):
        run_services(
            {"scheduler": patient("scheduler", stop), "bad": ThreadService("bad", fail, ended=stop)}, stop
        )
    assert told == ["scheduler"]


def test_one_that_does_not_end_in_time_is_pressed() -> None:
    stop, pressed = threading.Event(), threading.Event()

    def run(_: threading.Event) -> None:
        pressed.wait(30)

    service = ThreadService("slow", run, ended=stop, hurry=pressed.set, grace_seconds=0.05)
    stop.set()
    run_services({"slow": service}, stop)
    assert pressed.is_set()


def test_a_signal_that_another_thread_takes_ends_the_services_all_the_same() -> None:
    # As when SIGTERM follows SIGCONT: the main thread is not yet awake to take it.
    script = """
import signal, threading
from disarray.cli.support.signals import stop_on_signals
from disarray.worker.process.service import run_services
stop = stop_on_signals()
threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)).start()
run_services({}, stop)
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=30, check=False).returncode == 0


@pytest.mark.postgres
def test_a_duty_that_fails_keeps_no_other_from_being_done_and_is_tried_again(plant: Plant) -> None:
    stop = threading.Event()
    done: list[str] = []

    def fail(_: Workplace) -> None:
        done.append("tried")
        raise OSError("no space left")

    def do(_: Workplace) -> None:
        done.append("done")
        if len(done) == 4:
            stop.set()

    perform_duties(plant.place, stop, duties=[Duty("bad", fail), Duty("good", do)], every_seconds=0.01)
    assert done == ["tried", "done", "tried", "done"]
