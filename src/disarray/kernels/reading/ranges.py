"""A big file in several byte ranges, read by several tasks, with the result of one read.

A range takes the lines that start in it. Header and preamble come from the head of the file; line numbers
are counted from the range's own start and shifted when the ranges are joined. Three things can make a line
depend on what stands before its range: another header mid-file, a repeated local hour, and a line longer
than a stride. Joining finds them out, and the file is read again in one piece: rare, and never wrong.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from disarray.errors import DisarrayError, FragmentWriteError
from disarray.kernels.parsing.delimited import DelimitedParser
from disarray.kernels.parsing.framing import Framer, OverlongLine
from disarray.kernels.parsing.rejects import RejectLog
from disarray.kernels.reading.blocks import ReadCost, read_extent
from disarray.kernels.reading.file_reader import conclude, find_seam, guarded, inspect_head, takes_tail
from disarray.kernels.reading.opening import open_beneath
from disarray.kernels.reading.stretches import Stretch, join_stretches, read_stretch
from disarray.model.description.format import Compression, FileKind
from disarray.model.fingerprints import MAX_FILE_BYTES, STRIDE_BYTES, Checkpoint, ParserState, Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.kernels.fragments.fragment_writer import FragmentSink
    from disarray.kernels.reading.outcome import ReadOutcome, ReadRequest
    from disarray.model.seam import Seam

_LOOK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteRange:
    """One task's share of a file: the lines that start at or after `start` and before `end`."""

    start: Checkpoint
    end: int
    size: int
    is_first: bool


@dataclass(frozen=True, slots=True)
class RangePlan:
    """How a file is shared out; `cost` is what finding that out has cost."""

    seam: Seam
    ranges: tuple[ByteRange, ...]
    size: int
    cost: ReadCost


def split_ranges(request: ReadRequest, *, range_bytes: int) -> RangePlan | None:
    """Share a file out into ranges of about so many bytes; None where it has to be, or may as well be, one read."""
    if request.spec.format.kind is FileKind.PARQUET or request.whole:
        return None
    try:
        descriptor = open_beneath(request.path, request.roots)
    except (OSError, DisarrayError):
        return None
    try:
        return _split(request, descriptor, range_bytes)
    except (OSError, EOFError, DisarrayError):
        # Whatever it is, the one read meets it too and says so in its outcome.
        return None
    finally:
        os.close(descriptor)


def _split(request: ReadRequest, descriptor: int, range_bytes: int) -> RangePlan | None:
    size = os.fstat(descriptor).st_size
    if size > MAX_FILE_BYTES:
        return None
    cost = ReadCost()
    if inspect_head(request, descriptor, cost) is not Compression.NONE:
        return None
    seam = find_seam(request, descriptor, size, Compression.NONE, cost)
    step = max(1, range_bytes // STRIDE_BYTES) * STRIDE_BYTES
    edges = list(range((seam.position // STRIDE_BYTES) * STRIDE_BYTES + step, size, step))
    state = _body_state(request, descriptor, seam, min(size, STRIDE_BYTES)) if edges else None
    if state is None:
        return None
    first = ByteRange(start=seam.resume, end=edges[0], size=size, is_first=True)
    others = [
        ByteRange(start=Checkpoint(offset=begin, state=state), end=end, size=size, is_first=False)
        for begin, end in zip(edges, [*edges[1:], size], strict=True)
    ]
    return RangePlan(seam, (first, *others), size, cost)


def read_range(request: ReadRequest, part: ByteRange, sink: FragmentSink) -> Stretch | None:
    """Read one range; None if it cannot be read apart from the rest of the file."""
    try:
        descriptor = open_beneath(request.path, request.roots)
    except (OSError, DisarrayError):
        return None
    try:
        begin = part.start.offset if part.is_first else _first_line_start(descriptor, part)
        if begin is None:
            return None
        return read_stretch(
            request,
            descriptor,
            start=replace(part.start, offset=begin),
            hash_from=None if part.is_first else part.start.offset,
            size=part.size,
            end=part.end,
            take_tail=takes_tail(request, part.size),
            compression=Compression.NONE,
            sink=sink,
        )
    except FragmentWriteError:
        raise
    except (OSError, EOFError, DisarrayError):
        return None
    finally:
        os.close(descriptor)


def join_ranges(
    request: ReadRequest, plan: RangePlan, stretches: Sequence[Stretch | None]
) -> ReadOutcome | None:
    """The outcome of all ranges together, equal to that of one read; None if the file must be read in one piece.

    Every range must have begun in the state in which the one before it ended: by induction that is one read.
    """
    whole = [stretch for stretch in stretches if stretch is not None]
    if len(whole) < len(plan.ranges):
        return None
    if any(
        before.end.state != part.start.state or any(mark.folds for mark in before.end.parts)
        for before, part in zip(whole, plan.ranges[1:], strict=False)
    ):
        return None
    joined = join_stretches(whole)

    def concluded(_: int) -> ReadOutcome:
        packing = Compression.NONE
        return conclude(request, plan.seam, joined, size=plan.size, compression=packing, cost=plan.cost)

    return guarded(request, concluded)


def _first_line_start(descriptor: int, part: ByteRange) -> int | None:
    """Where the first line of a range begins; None if not within one stride, where its first checkpoint lies."""
    position = part.start.offset - 1
    end = min(position + STRIDE_BYTES, part.end)
    while position < end:
        piece = read_extent(descriptor, position, min(position + _LOOK_BYTES, end))
        newline = piece.find(b"\n")
        if newline >= 0:
            begin = position + newline + 1
            return begin if begin < part.end else None
        position += len(piece)
    return None


def _body_state(request: ReadRequest, descriptor: int, seam: Seam, head_bytes: int) -> ParserState | None:
    """The header and preamble in force after the file's head; None if the head does not get there."""
    if seam.resume.state.phase is Phase.BODY or request.spec.format.kind is FileKind.JSONL:
        return replace(seam.resume.state, phase=Phase.BODY)
    framer = Framer(0, 1, request.spec.format.max_line_bytes)
    parser = DelimitedParser(request.spec, ParserState())
    for item in framer.feed(read_extent(descriptor, 0, head_bytes)):
        if isinstance(item, OverlongLine):
            return None
        parser.parse(item, np.zeros(len(item), dtype=np.uint8), RejectLog())
    return parser.state if parser.state.phase is Phase.BODY else None
