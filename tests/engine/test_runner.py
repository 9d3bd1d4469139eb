"""Both runners raise what a kernel raised, where it matters what it was."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from disarray.engine.runner import InProcessRunner
from disarray.errors import FragmentWriteError

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.engine.runner import Runner


def find_no_room(number: int) -> int:
    raise FragmentWriteError.at(f"/lake/{number}", OSError(errno.ENOSPC, "No space left on device"))


def test_a_lake_without_room_is_told_from_a_kernel_that_failed(runner: Runner) -> None:
    with pytest.raises(
        FragmentWriteError, match=r"^the lake cannot be written: /lake/7: No space left on device\."
    ):
        runner.run(find_no_room, [7])


def wait_for(path: str) -> str:
    """Ends when there is such a file, or at once where none is named."""
    while path and not Path(path).exists():
        time.sleep(0.05)
    return path


def test_the_pulse_of_a_job_that_hangs_stands_still_while_others_get_on(
    runner: Runner, tmp_path: Path
) -> None:
    other = runner.beside("loads")
    if isinstance(runner, InProcessRunner):
        before = runner.pulse()
        other.run(wait_for, ["", ""])
        assert (runner.pulse(), other.pulse()) == (before, 2)
        return
    hung, slow = (str(tmp_path / name) for name in ("hung", "slow"))
    threads = [
        threading.Thread(target=runner.run, args=(wait_for, [hung])),
        threading.Thread(target=other.run, args=(wait_for, ["", slow])),
    ]
    try:
        threads[0].start()
        before = until(runner.pulse, lambda pulse: len(pulse) == 1)
        threads[1].start()
        until(other.pulse, lambda pulse: 1 in pulse.values())
        assert runner.pulse() == before
    finally:
        for path in (hung, slow):
            Path(path).touch()
        for thread in threads:
            thread.join()
    assert (runner.pulse(), other.pulse()) == ({}, {})


def until(ask: Callable[[], Any], is_it: Callable[[Any], bool]) -> Any:
    """The first answer that is the one waited for."""
    while not is_it(answer := ask()):
        time.sleep(0.05)
    return answer
