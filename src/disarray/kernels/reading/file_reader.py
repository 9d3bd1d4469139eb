"""Read one file: open it safely, find what is new, and turn that into fragments, rejects and a fingerprint."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from disarray.errors import DisarrayError, FragmentWriteError, UnreadableFileError
from disarray.kernels.parsing.decoding import refuse_utf16
from disarray.kernels.reading.blocks import ReadCost, combine_hashes, hash_block, read_extent
from disarray.kernels.reading.decompression import detect_compression
from disarray.kernels.reading.opening import open_beneath
from disarray.kernels.reading.outcome import (
    ReadOutcome,
    ReadReason,
    ReadRequest,
    ReadStatus,
    part_outcome,
)
from disarray.kernels.reading.parquet_file import read_parquet
from disarray.kernels.reading.splitting import PartRead, with_cut_parts
from disarray.kernels.reading.stretches import Stretch, read_stretch
from disarray.model.description.dataset import OnShrink
from disarray.model.description.format import Compression, FileKind
from disarray.model.file_parts import is_part_too_long, part_uri
from disarray.model.fingerprints import (
    BLOCK_BYTES,
    MAX_FILE_BYTES,
    ORIGIN,
    STRIDE_BYTES,
    Fingerprint,
    PartMark,
    Tail,
)
from disarray.model.seam import (
    NEW_FILE,
    READ_AGAIN,
    Change,
    Replacement,
    Seam,
    judge_replacement,
    locate_seam,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.kernels.fragments.fragment_writer import FragmentSink

_HEAD_BYTES = 4096


def read_file(request: ReadRequest, sink: FragmentSink) -> ReadOutcome:
    """Read what is new of one file. A bad file is an outcome, never an exception; only a failing lake raises."""
    return guarded(request, lambda descriptor: _read_open(request, descriptor, sink))


def guarded(request: ReadRequest, read: Callable[[int], ReadOutcome]) -> ReadOutcome:
    """Open the file, and turn whatever goes wrong with it into an outcome."""
    try:
        descriptor = open_beneath(request.path, request.roots)
    except FileNotFoundError:
        message = "the file is gone; what was read of it stays"
        return ReadOutcome(path=request.path, status=ReadStatus.VANISHED, message=message)
    except (OSError, DisarrayError) as error:
        return _failed(request, error, is_retryable=isinstance(error, OSError))
    try:
        return read(descriptor)
    except FragmentWriteError:
        raise
    except DisarrayError as error:
        return _failed(request, error)
    except (OSError, EOFError) as error:
        return _failed(request, error, is_retryable=True)
    except Exception as error:
        return _failed(request, error)
    finally:
        os.close(descriptor)


def _failed(request: ReadRequest, error: Exception, *, is_retryable: bool = False) -> ReadOutcome:
    is_expected = isinstance(error, DisarrayError | EOFError | OSError)
    text = str(error) if is_expected else f"unexpected {type(error).__name__}: {error}"
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        text = f"the file cannot be read: {reason}; what was read of it stays, and it is tried again"
    message = " ".join(text.split())[:500]
    return ReadOutcome(
        path=request.path, status=ReadStatus.FAILED, message=message, is_retryable=is_retryable
    )


def _read_open(request: ReadRequest, descriptor: int, sink: FragmentSink) -> ReadOutcome:
    size = os.fstat(descriptor).st_size
    if size > MAX_FILE_BYTES:
        raise UnreadableFileError(
            f"has {size:,} bytes, more than {MAX_FILE_BYTES:,}; cut it into several files"
        )
    cost = ReadCost()
    compression = inspect_head(request, descriptor, cost)
    seam = find_seam(request, descriptor, size, compression, cost)
    if is_settled(request, seam):
        return unchanged(request, cost)
    if request.spec.format.kind is FileKind.PARQUET:
        stretch = read_parquet(request, descriptor, size, sink)
    else:
        stretch = read_stretch(
            request,
            descriptor,
            start=seam.resume,
            size=size,
            take_tail=takes_tail(request, size),
            compression=compression,
            sink=sink,
        )
    return conclude(request, seam, stretch, size=size, compression=compression, cost=cost)


def inspect_head(request: ReadRequest, descriptor: int, cost: ReadCost) -> Compression:
    """What wraps the bytes; encodings that can only give rejects are refused here."""
    head = os.pread(descriptor, _HEAD_BYTES, 0)
    cost.bytes_read += len(head)
    if request.spec.format.kind is FileKind.PARQUET:
        return Compression.NONE
    compression = detect_compression(head, request.spec.format.compression)
    if compression is Compression.NONE:
        refuse_utf16(head)
    return compression


def find_seam(
    request: ReadRequest, descriptor: int, size: int, compression: Compression, cost: ReadCost
) -> Seam:
    """Compare the file with its stored fingerprint, block by block as far as the rule asks."""
    stored = request.stored
    if stored is None:
        return NEW_FILE
    is_read_otherwise = stored.parse_version != request.spec.parse_version and not request.is_moved
    if request.reason is ReadReason.REINGEST or is_read_otherwise:
        return READ_AGAIN
    known: dict[int, bool] = {}

    def is_same(index: int) -> bool:
        if index not in known:
            begin, end = stored.block_extent(index)
            block = read_extent(descriptor, begin, end)
            cost.bytes_read += len(block)
            cost.bytes_hashed += len(block)
            known[index] = hash_block(block) == stored.hashes[index]
        return known[index]

    is_packed = compression is not Compression.NONE or stored.compression != compression.value
    whole = request.whole or request.is_moved or is_packed or request.spec.format.kind is FileKind.PARQUET
    seam = locate_seam(
        stored,
        size,
        is_same=is_same,
        thorough=request.is_thorough,
        whole=whole,
        back_correction_us=request.back_correction_us,
    )
    if request.is_moved and seam.change is Change.UNCHANGED:
        return READ_AGAIN
    if whole and seam.change is Change.UNCHANGED:
        return Seam(Change.UNCHANGED, ORIGIN)
    return seam


def takes_tail(request: ReadRequest, size: int) -> bool:
    """Whether the unterminated last line is read: once the file is quiet, and from then on while it stays so."""
    stored = request.stored
    already = stored is not None and stored.tail is Tail.TAKEN and stored.size == size
    return request.reason is ReadReason.QUIET or already


def is_settled(request: ReadRequest, seam: Seam) -> bool:
    """Whether there is nothing to read: no byte changed, and no line has waited long enough."""
    assert request.stored is not None or seam.change is Change.NEW
    if seam.change is not Change.UNCHANGED or request.stored is None:
        return False
    return not (request.stored.tail is Tail.WAITING and request.reason is ReadReason.QUIET)


def unchanged(request: ReadRequest, cost: ReadCost) -> ReadOutcome:
    """The outcome of a file that is as it was."""
    stored = request.stored
    assert stored is not None
    return ReadOutcome(
        path=request.path,
        status=ReadStatus.UNCHANGED,
        change=Change.UNCHANGED,
        seam_position=stored.end.offset if stored.tail is not Tail.TAKEN else stored.size,
        fingerprint=stored,
        cost=cost,
    )


def conclude(
    request: ReadRequest, seam: Seam, stretch: Stretch, *, size: int, compression: Compression, cost: ReadCost
) -> ReadOutcome:
    """Put together what was read now and what is known of the part before the seam, and judge the whole."""
    fingerprint = _fingerprint(request, seam, stretch, size, compression)
    counts = fingerprint.counts
    if request.spec.reject_limits.exceeded_by(counts.rejected, counts.kept + counts.rejected):
        raise UnreadableFileError(
            f"{counts.rejected} of {counts.kept + counts.rejected} rows are rejected, more than the dataset allows"
        )
    replacement = Replacement.REPLACES
    if request.stored is not None:
        replacement = judge_replacement(
            request.stored, seam, kept=counts.kept, first_us=fingerprint.first_us, last_us=fingerprint.last_us
        )
    if replacement is Replacement.NEW_GENERATION:
        fingerprint = replace(fingerprint, generation=fingerprint.generation + 1)
    parked = replacement is Replacement.TAKES_READINGS_AWAY and request.on_shrink is OnShrink.PARK
    outcome = ReadOutcome(
        path=request.path,
        status=ReadStatus.PARKED if parked else ReadStatus.READ,
        message=_remark(request, stretch, fingerprint, parked=parked),
        change=seam.change,
        replacement=replacement,
        seam_position=seam.position,
        counts=stretch.counts,
        fingerprint=fingerprint,
        fragments=stretch.fragments,
        rejects=tuple(stretch.log.listed),
        rejects_by_reason=dict(stretch.log.by_reason),
        cost=ReadCost(
            cost.bytes_read + stretch.cost.bytes_read, cost.bytes_hashed + stretch.cost.bytes_hashed
        ),
        parts=_parts(request, stretch, replacement, seam),
    )
    if request.only_subject is None:
        return outcome
    whole = {part.subject_key: part for part in outcome.parts or ()}
    nothing = PartRead(PartMark(subject_key=request.only_subject))
    return part_outcome(outcome, whole.get(request.only_subject, nothing))


def _parts(
    request: ReadRequest, stretch: Stretch, replacement: Replacement, seam: Seam
) -> tuple[PartRead, ...] | None:
    if request.spec.subject_column is None:
        return None
    for mark in stretch.parts:
        uri = part_uri(request.path, column=request.spec.subject_column, subject_key=mark.subject_key)
        if is_part_too_long(uri):
            raise UnreadableFileError(
                f"the name of its part about {mark.subject_key[:60]!r} is too long; give the file a shorter path"
            )
    # What an earlier generation said stays.
    is_kept = request.stored is None or replacement is Replacement.NEW_GENERATION
    return with_cut_parts(
        stretch.parts,
        stretch.part_fragments,
        stored=() if is_kept or request.stored is None else request.stored.parts,
        seam_position=seam.position,
    )


def _fingerprint(
    request: ReadRequest, seam: Seam, stretch: Stretch, size: int, compression: Compression
) -> Fingerprint:
    stored = request.stored
    first_block = seam.position // BLOCK_BYTES
    hashes = (stored.hashes[:first_block] if stored else ()) + stretch.hashes
    kept_points = first_block * BLOCK_BYTES // STRIDE_BYTES
    return Fingerprint(
        size=size,
        hashes=hashes,
        content_hash=combine_hashes(size, hashes),
        checkpoints=(stored.checkpoints[:kept_points] if stored else ()) + stretch.checkpoints,
        end=stretch.end,
        counts=seam.resume.counts + stretch.counts,
        first_us=stretch.first_us,
        last_us=stretch.last_us,
        parse_version=request.spec.parse_version,
        tail=stretch.tail,
        compression=compression.value,
        generation=stored.generation if stored else 0,
        parts=stretch.parts,
    )


def _remark(request: ReadRequest, stretch: Stretch, fingerprint: Fingerprint, *, parked: bool) -> str | None:
    if parked and request.stored is not None:
        return (
            f"the new version has {fingerprint.counts.kept} readings where {request.stored.counts.kept} were known, "
            "or covers less time; it is parked, and the known readings stay until it is released"
        )
    if stretch.is_cut_off:
        return f"the {fingerprint.compression} stream is cut off; the {stretch.counts.kept} whole readings are kept"
    return None
