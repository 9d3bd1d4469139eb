"""Both runners raise what a kernel raised, where it matters what it was."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from disarray.errors import FragmentWriteError

if TYPE_CHECKING:
    from disarray.engine.runner import Runner


def find_no_room(number: int) -> int:
    raise FragmentWriteError.at(f"/lake/{number}", OSError(errno.ENOSPC, "No space left on device"))


def test_a_lake_without_room_is_told_from_a_kernel_that_failed(runner: Runner) -> None:
    with pytest.raises(
        FragmentWriteError, match=r"^the lake cannot be written: /lake/7: No space left on device\."
    ):
        runner.run(find_no_room, [7])
