"""How long blocks of segments are in the tests: short, so that a few segments already make several."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from disarray.control.connections import Connection

SEGMENTS_PER_BLOCK = int(os.environ.get("DISARRAY_TEST_SEGMENTS_PER_BLOCK", "3"))


def set_block_length(connection: Connection, segments: int = SEGMENTS_PER_BLOCK) -> None:
    """Let subjects that are new to a database have blocks of this length; the oracle goes by that of the tests."""
    connection.execute(
        f"""
        create or replace function disarray.segments_per_block() returns integer language sql immutable
        as 'select {segments}'
        """.encode()
    )
