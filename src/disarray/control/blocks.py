"""Blocks of segments, over which bases are carried: what is stored of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.calls import call, fetch_records, fetch_rows

if TYPE_CHECKING:
    from disarray.control.connections import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricBlock:
    """What is stored of a metric in a block of segments."""

    dataset: str
    subject_key: str
    metric: str
    channel: str
    block_us: int
    kind: str
    first_us: int | None
    first_float: float | None
    first_int: int | None
    first_break: str | None
    first_reset: str | None
    restarts: bool
    offset_float: float | None
    offset_int: int | None
    total_float: float | None
    total_int: int | None
    last_us: int | None
    last_float: float | None
    last_int: int | None
    last_break: str | None
    last_reset: str | None
    head_segment_us: int | None
    base_float: float | None
    base_int: int | None
    before_float: float | None
    before_int: int | None
    prior_us: int | None
    prior_float: float | None
    prior_int: int | None
    prior_break: str | None


def load_metric_blocks(connection: Connection, subject_key: str) -> list[MetricBlock]:
    """The blocks of a subject, series by series and in the order of time."""
    return fetch_records(
        connection, MetricBlock, "select * from disarray.load_metric_blocks(%s)", (subject_key,)
    )


def load_block_lengths(connection: Connection, subject_key: str) -> dict[str, int]:
    """How long the blocks of segments of a subject are, by dataset."""
    rows = fetch_rows(connection, "select * from disarray.load_block_lengths(%s)", (subject_key,))
    return {str(dataset): int(length_us) for dataset, length_us in rows}


def make_blocks(connection: Connection) -> None:
    """Make blocks of what was stored before there were any, and hold them against the bases of then."""
    call(connection, "select disarray.make_blocks()")
