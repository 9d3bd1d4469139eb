"""A stretch of a file's bytes, read by one task: the whole rest of the file, or one of several byte ranges."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from disarray.kernels.fragments.fragment_writer import Fragment, FragmentBuilder
from disarray.kernels.parsing.decoding import refuse_utf16
from disarray.kernels.parsing.rejects import MAX_LISTED_REJECTS, RejectLog
from disarray.kernels.reading.blocks import BlockReader, ReadCost, read_extent
from disarray.kernels.reading.decompression import Unpacker
from disarray.kernels.reading.line_reader import LineReader
from disarray.kernels.reading.splitting import Splitter, joined_marks
from disarray.model.description.format import Compression
from disarray.model.fingerprints import BLOCK_BYTES, STRIDE_BYTES, Checkpoint, LineCounts, PartMark, Tail

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.kernels.fragments.fragment_writer import FragmentSink
    from disarray.kernels.reading.outcome import ReadRequest

_BEYOND_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What the lines that start in one stretch gave; hashes are of its blocks on disk."""

    hashes: tuple[bytes, ...]
    checkpoints: tuple[Checkpoint, ...]
    end: Checkpoint
    counts: LineCounts
    first_us: int | None
    last_us: int | None
    tail: Tail
    fragments: tuple[Fragment, ...]
    log: RejectLog
    cost: ReadCost = field(default_factory=ReadCost)
    is_cut_off: bool = False
    parts: tuple[PartMark, ...] = ()  # of a file about several subjects
    part_fragments: Mapping[str, tuple[Fragment, ...]] = field(default_factory=dict)


def read_stretch(
    request: ReadRequest,
    descriptor: int,
    *,
    start: Checkpoint,
    size: int,
    end: int | None = None,
    hash_from: int | None = None,
    take_tail: bool,
    compression: Compression,
    sink: FragmentSink,
) -> Stretch:
    """Read the lines that start at or after a checkpoint (and before `end`), in one pass of bounded memory."""
    cost = ReadCost()
    builder = builder_for(request, sink, start=start.parts)
    lines = LineReader(request.spec, start, builder, latest_us=request.latest_us)
    begin = start.offset // BLOCK_BYTES * BLOCK_BYTES if hash_from is None else hash_from
    blocks = BlockReader(descriptor, begin, size if end is None else end, cost)
    checkpoints: list[Checkpoint] = []
    is_cut_off = False
    if compression is Compression.NONE:
        skip, position = start.offset - blocks.start, blocks.start
        for piece in blocks:
            position += len(piece)
            lines.feed(piece[skip:])
            skip = 0
            if position % STRIDE_BYTES == 0:
                checkpoints.append(lines.checkpoint())
        if end is not None and end < size:
            _complete_line(descriptor, lines, end, size, cost)
    else:
        unpacker = Unpacker(compression)
        for at, piece in enumerate(unpacker.unpack(blocks)):
            if at == 0:
                refuse_utf16(piece)
            lines.feed(piece)
        is_cut_off = unpacker.truncated
    ending = lines.checkpoint()
    tail, counts = lines.finish(take=take_tail, is_cut_off=is_cut_off)
    final = lines.checkpoint()
    return Stretch(
        hashes=tuple(blocks.hashes),
        checkpoints=tuple(checkpoints),
        end=ending,
        counts=counts,
        first_us=final.first_us,
        last_us=final.last_us,
        tail=tail,
        fragments=() if isinstance(builder, Splitter) else tuple(builder.fragments),
        log=lines.log,
        cost=cost,
        is_cut_off=is_cut_off,
        parts=final.parts,
        part_fragments=builder.fragments if isinstance(builder, Splitter) else {},
    )


def builder_for(
    request: ReadRequest, sink: FragmentSink, *, start: Sequence[PartMark] = ()
) -> FragmentBuilder | Splitter:
    """What takes the readings of a file, from where `start` says how far each of its subjects is."""
    if request.spec.subject_column is None:
        return FragmentBuilder(request.spec, sink)
    return Splitter(request.spec, sink, start=start, latest_us=request.latest_us, only=request.only_subject)


def _complete_line(descriptor: int, lines: LineReader, position: int, size: int, cost: ReadCost) -> None:
    """Read on to the end of the line that crosses into the next range, which begins after it."""
    while lines.has_tail and position < size:
        piece = read_extent(descriptor, position, min(position + _BEYOND_BYTES, size))
        cost.bytes_read += len(piece)
        position += len(piece)
        newline = piece.find(b"\n")
        lines.feed(piece if newline < 0 else piece[: newline + 1])


def join_stretches(stretches: Sequence[Stretch]) -> Stretch:
    """Neighbouring stretches as one: what each counted from its own start is counted from the first one's."""
    joined = stretches[0]
    for stretch in stretches[1:]:
        joined = _join(joined, stretch)
    return joined


def _join(before: Stretch, after: Stretch) -> Stretch:
    def shifted(point: Checkpoint) -> Checkpoint:
        return replace(
            point,
            line=point.line + before.end.line - 1,
            counts=before.end.counts + point.counts,
            first_us=least(before.first_us, point.first_us),
            last_us=greatest(before.last_us, point.last_us),
            parts=joined_marks(before.end.parts, point.parts),
        )

    shift = before.end.line - 1
    rejects = [replace(reject, line=reject.line + shift) for reject in after.log.listed]
    log = RejectLog(
        (before.log.listed + rejects)[:MAX_LISTED_REJECTS], before.log.by_reason + after.log.by_reason
    )
    return Stretch(
        hashes=before.hashes + after.hashes,
        checkpoints=before.checkpoints + tuple(map(shifted, after.checkpoints)),
        end=shifted(after.end),
        counts=before.counts + after.counts,
        first_us=least(before.first_us, after.first_us),
        last_us=greatest(before.last_us, after.last_us),
        tail=after.tail,
        fragments=before.fragments + after.fragments,
        log=log,
        cost=ReadCost(
            before.cost.bytes_read + after.cost.bytes_read, before.cost.bytes_hashed + after.cost.bytes_hashed
        ),
        parts=joined_marks(before.parts, after.parts),
        part_fragments={
            subject: (*before.part_fragments.get(subject, ()), *after.part_fragments.get(subject, ()))
            for subject in (*before.part_fragments, *after.part_fragments)
        },
    )


def least(first: int | None, second: int | None) -> int | None:
    """The smaller of those that are known."""
    return min((us for us in (first, second) if us is not None), default=None)


def greatest(first: int | None, second: int | None) -> int | None:
    """The greater of those that are known."""
    return max((us for us in (first, second) if us is not None), default=None)
