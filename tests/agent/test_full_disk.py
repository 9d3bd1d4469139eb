"""An agent whose own disk is full: it lives on, forgets nothing, and announces what waited once there is room."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from disarray.agent.state import StateFile
from disarray.errors import StateFileUnusableError
from tests.agent.conftest import DATASETS, Lab
from tests.agent.test_agent import LINE, told
from tests.disks import fill_disk, grow_disk, tiny_disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def cramped(tmp_path: Path) -> Iterator[Lab]:
    """A lab whose state file has a disk of its own."""
    (tmp_path / "disarray.toml").write_text(DATASETS)
    (tmp_path / "share").mkdir()
    with tiny_disk(tmp_path / ".disarray", size="4m"):
        lab = Lab(tmp_path)
        lab.start()
        lab.agent.step()
        yield lab
        assert lab.state is not None
        lab.state.close()


def write_many(lab: Lab, count: int) -> None:
    for number in range(count):
        lab.write(f"TOOL07/{number}.csv", os.urandom(8).hex() + LINE)


def test_files_wait_where_they_are_and_are_announced_once_there_is_room(
    cramped: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    cramped.write("TOOL07/first.csv", LINE)
    assert len(cramped.after()) == 1
    fill_disk(cramped.state_path.parents[1])
    write_many(cramped, 300)
    assert cramped.after() == []
    assert cramped.after(20) == []
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith(
        f"the state file {cramped.state_path} cannot be used: database or disk is full."
    )
    assert "files wait where they are. Free space on its disk, or mend it" in warning

    grow_disk(cramped.state_path.parents[1], size="16m")
    assert len(cramped.after(20)) == 300
    assert cramped.after(20) == []
    assert cramped.agent.backlog_bytes == 0
    assert caplog.messages.count("the state file can be used again") == 1


def test_what_is_known_survives_a_start_on_a_full_disk(cramped: Lab) -> None:
    cramped.write("TOOL07/first.csv", LINE)
    assert told(cramped.after()) == [("first.csv", "file_notification")]
    assert cramped.state is not None
    disk = cramped.state_path.parents[1]
    fill_disk(disk)
    cramped.start()
    assert cramped.after() == []
    assert not cramped.state_path.with_name("state.sqlite.damaged").exists()
    grow_disk(disk, size="16m")
    cramped.write("TOOL07/second.csv", LINE)
    assert told(cramped.after(20)) == [("second.csv", "file_notification")]


def test_a_first_start_on_a_full_disk_says_so_and_the_next_one_works(cramped: Lab) -> None:
    disk = cramped.state_path.parents[1]
    fill_disk(disk)
    other = disk / "another" / "state.sqlite"
    with pytest.raises(StateFileUnusableError, match=r"database or disk is full\. What is in it stays"):
        StateFile(other)
    grow_disk(disk, size="16m")
    StateFile(other).close()
    assert not other.with_name("state.sqlite.damaged").exists()


def test_what_could_not_be_noted_as_sent_is_sent_again_and_not_lost(cramped: Lab) -> None:
    cramped.transport.is_away = True
    write_many(cramped, 300)
    assert cramped.after() == []
    waiting = cramped.agent.backlog_bytes
    disk = cramped.state_path.parents[1]
    fill_disk(disk)
    cramped.transport.is_away = False
    first = told(cramped.after(60))
    grow_disk(disk, size="16m")
    second = told(cramped.after(60))
    assert waiting > 0
    assert cramped.agent.backlog_bytes == 0
    assert {*first, *second} == {(f"{number}.csv", "file_notification") for number in range(300)}
