"""Which of some lines would be no readings, found out by the reader that takes them later; nothing is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from disarray.kernels.fragments.fragment_writer import FragmentBuilder, MemorySink
from disarray.kernels.parsing.rejects import MAX_LISTED_REJECTS
from disarray.kernels.reading.line_reader import LineReader
from disarray.model.description.read_spec import RejectLimits
from disarray.model.fingerprints import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.kernels.parsing.rejects import Reject
    from disarray.model.description.read_spec import ReadSpec


def refused_lines(lines: Sequence[bytes], spec: ReadSpec, *, latest_us: int | None) -> dict[int, Reject]:
    """The lines that are rejected, by index from 0; none of them has a newline in it."""
    unlimited = replace(spec, reject_limits=RejectLimits())
    refused: dict[int, Reject] = {}
    # A log lists so many rejects and no more.
    for first in range(0, len(lines), MAX_LISTED_REJECTS):
        part = lines[first : first + MAX_LISTED_REJECTS]
        reader = LineReader(unlimited, ORIGIN, FragmentBuilder(unlimited, MemorySink()), latest_us=latest_us)
        reader.feed(b"".join(line + b"\n" for line in part))
        refused |= {first + reject.line - ORIGIN.line: reject for reject in reader.log.listed}
    return refused
