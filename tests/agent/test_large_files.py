"""Files that are larger than a scan may take: looked into a part at a time, refused beyond reason, left at once."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from disarray.agent.hashing import hash_file
from disarray.model.fingerprints import BLOCK_BYTES
from tests.agent.test_agent import LINE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.agent.conftest import Lab

BUDGET = 4 * BLOCK_BYTES


class StopLater(threading.Event):
    """As if a signal came after it was looked for so many times."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def is_set(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def sparse(path: Path, size: int) -> Path:
    os.truncate(path, size)
    return path


def content_hash(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return hash_file(descriptor).content.text
    finally:
        os.close(descriptor)


def test_a_file_beyond_all_reason_is_refused_unread_and_its_neighbours_are_announced(lab: Lab) -> None:
    sparse(lab.write("TOOL07/huge.csv", LINE), 8 << 40)
    lab.write("TOOL07/small.csv", LINE)
    roots = lab.agent.drain(is_final=True)
    assert [each.source_uri.rpartition("/")[2] for each in lab.transport.news()] == ["small.csv"]
    [(path, reason)] = roots.refused.items()
    assert path.endswith("huge.csv")
    assert "8,796,093,022,208 bytes" in reason
    assert lab.agent.counts.bytes_read < BLOCK_BYTES


def test_a_large_file_takes_its_share_of_several_scans_and_others_are_not_kept_waiting(lab: Lab) -> None:
    lab.start(replace(lab.settings, read_budget_bytes=BUDGET))
    path = sparse(lab.write("TOOL07/large.csv", LINE, age_s=60), 10 * BLOCK_BYTES + 7)
    lab.touch("TOOL07/large.csv", age_s=60)
    assert lab.after() == []
    lab.write("TOOL08/small.csv", LINE)
    announced = lab.after()
    assert [each.source_uri.rpartition("/")[2] for each in announced] == ["small.csv"]
    before = lab.agent.counts.bytes_read
    scans = 0
    while not (announced := lab.after()):
        scans += 1
        assert scans < 5
        assert lab.agent.counts.bytes_read - before <= BUDGET + 3 * BLOCK_BYTES
        before = lab.agent.counts.bytes_read
    [large] = announced
    assert large.metadata["content_hash"] == content_hash(path)
    assert large.metadata["size"] == 10 * BLOCK_BYTES + 7


def test_a_stop_is_heard_between_two_blocks_and_the_next_life_takes_the_file(lab: Lab) -> None:
    path = sparse(lab.write("TOOL07/large.csv", LINE), 30 * BLOCK_BYTES)
    roots = lab.agent.drain(is_final=True, stop=StopLater(5))
    assert not roots.is_complete
    assert lab.transport.news() == []
    lab.start()
    assert lab.agent.drain(is_final=True).is_complete
    [announced] = lab.transport.news()
    assert announced.metadata["content_hash"] == content_hash(path)


def test_what_was_hashed_of_a_file_that_was_written_to_since_is_not_believed(lab: Lab) -> None:
    lab.start(replace(lab.settings, read_budget_bytes=BUDGET))
    path = sparse(lab.write("TOOL07/large.csv", LINE), 10 * BLOCK_BYTES)
    assert lab.after() == []
    with path.open("r+b") as file:
        file.write(b"x" * len(LINE))
    lab.touch("TOOL07/large.csv")
    announced = [each for _ in range(5) for each in lab.after()]
    assert [each.metadata["content_hash"] for each in announced] == [content_hash(path)]
