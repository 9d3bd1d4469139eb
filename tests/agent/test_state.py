"""The state file: all or nothing, one agent at a time, and no harm if it is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.agent.hashing import ContentHash
from disarray.agent.records import Finding, Known
from disarray.agent.state import StateFile
from disarray.errors import StateFileBusyError
from disarray.model.notification import Notification, Reason

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = Known(
    dataset="tool",
    subject="TOOL07",
    size=3,
    mtime_ns=5,
    inode=2**63 - 1,
    changed_us=7,
    announced_us=11,
    hashed_us=13,
    is_quiet=True,
)


def finding(name: str = "a.csv", *, metadata: object = None) -> Finding:
    notification = Notification(f"file:///data/{name}", "TOOL07", Reason.QUIET, {"size": metadata})
    return Finding("/data", name, KNOWN, ContentHash(3, b"h" * 16), notification)


def test_what_is_committed_is_there_after_a_new_start(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "state.sqlite")
    state.commit([finding()])
    first = state.waiting(10)
    state.close()
    again = StateFile(tmp_path / "state.sqlite")
    assert list(again.files()) == [("/data/a.csv", KNOWN)]
    assert again.content("/data/a.csv") == ContentHash(3, b"h" * 16)
    assert again.waiting(10) == first
    again.close()


def test_a_commit_that_fails_leaves_neither_the_file_nor_its_notification(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "state.sqlite")
    with pytest.raises(TypeError):
        state.commit([finding("good.csv"), finding("bad.csv", metadata=object())])
    assert list(state.files()) == []
    assert (state.waiting(10), state.spooled_bytes) == ([], 0)
    state.close()


def test_ids_are_never_used_again(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "state.sqlite")
    state.commit([finding()])
    [first] = state.waiting(10)
    state.sent([first.id])
    state.commit([finding()])
    assert state.waiting(10)[0].id != first.id
    state.close()


def test_subjects_that_are_held_are_passed_over(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "state.sqlite")
    state.commit([finding()])
    assert state.waiting(10, except_subjects={"TOOL07"}) == []
    assert len(state.waiting(10, except_subjects={"TOOL08"})) == 1
    state.close()


@pytest.mark.parametrize("damage", [b"not a database at all", b""])
def test_a_damaged_or_empty_file_is_set_aside_and_rebuilt(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "state.sqlite"
    path.write_bytes(damage)
    state = StateFile(path)
    assert list(state.files()) == []
    state.close()
    assert (tmp_path / "state.sqlite.damaged").exists() == bool(damage)


def test_a_file_damaged_in_its_middle_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    state = StateFile(path)
    state.commit([finding(f"{number}.csv") for number in range(2_000)])
    state.close()
    with path.open("r+b") as file:
        file.seek(8_192)
        file.write(b"\xa5" * 40_000)
    state = StateFile(path)
    assert list(state.files()) == []
    state.close()


def test_a_second_agent_is_told_that_the_file_is_taken(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "state.sqlite")
    with pytest.raises(StateFileBusyError, match="another agent"):
        StateFile(tmp_path / "state.sqlite")
    state.commit([finding()])
    state.close()
