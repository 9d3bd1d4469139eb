"""Strict decoding: every line is text by the first encoding that takes it whole, or it is rejected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from disarray.errors import UnreadableFileError
from disarray.kernels.parsing.rejects import RejectReason, RowRejected
from disarray.model.description.format import QuoteEscape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from disarray.kernels.parsing.framing import Frame
    from disarray.model.description.format import Format

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_HEAD_BYTES = 4096


def refuse_utf16(head: bytes) -> None:
    """Fail a file in UTF-16 with a clear word: byte by byte it would be a file of rejects."""
    head = head[:_HEAD_BYTES]
    # Half of all bytes are NUL in Latin text as UTF-16, on one side; damage does not look so regular.
    zeros = [head[side::2].count(0) / max(1, len(head[side::2])) for side in (0, 1)]
    if head.startswith(_UTF16_BOMS) or (len(head) >= 64 and max(zeros) > 0.8 and min(zeros) < 0.2):
        raise UnreadableFileError(
            "is UTF-16 text; export it as UTF-8, or convert it with: iconv -f UTF-16 -t UTF-8"
        )


def decode_line(raw: bytes, fmt: Format, *, at_start: bool = False) -> str:
    """One line as text, without carriage return and byte order mark, or `RowRejected`."""
    if len(raw) > fmt.max_line_bytes:
        raise RowRejected(RejectReason.LINE_TOO_LONG)
    if at_start and raw.startswith(_BOM):
        raw = raw[len(_BOM) :]
    if raw.endswith(b"\r"):
        raw = raw[:-1]
    if b"\0" in raw:
        raise RowRejected(RejectReason.NUL_BYTE)
    if b"\r" in raw:
        raise RowRejected(RejectReason.STRAY_CARRIAGE_RETURN)
    return _decode(raw, fmt.encodings)


def _decode(raw: bytes, encodings: Iterable[str]) -> str:
    for encoding in encodings:
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise RowRejected(RejectReason.UNDECODABLE)


@dataclass(frozen=True, slots=True)
class CleanLines:
    """The lines of a frame that Arrow can take: `data` is UTF-8, `lines[i]` is the frame's index of its line i."""

    data: bytes
    lines: NDArray[np.int64]
    starts: NDArray[np.int64]
    doubtful: NDArray[np.int64]  # lines left out, for the exact way

    def between(self, low: int, high: int) -> tuple[bytes, NDArray[np.int64]]:
        """The bytes and indexes of the clean lines among the frame's lines low to high - 1."""
        first, last = np.searchsorted(self.lines, [low, high]).tolist()
        end = self.starts[last] if last < len(self.starts) else len(self.data)
        begin = self.starts[first] if first < len(self.starts) else len(self.data)
        return self.data[begin:end], self.lines[first:last]


def clean_lines(frame: Frame, fmt: Format) -> CleanLines:
    """Set aside every line on which Arrow and the exact way could disagree, and turn the rest into UTF-8."""
    doubtful = set(_doubtful_lines(frame, fmt).tolist())
    replaced: dict[int, bytes] = {}
    if not frame.data.isascii():
        whole = _recode_whole(frame, fmt)
        if whole is not None:
            return _without(whole, frame, doubtful, replaced)
        for line in _lines_with(frame, np.frombuffer(frame.data, dtype=np.uint8) >= 0x80).tolist():
            try:
                replaced[line] = _decode(frame.line(line), fmt.encodings).encode() + b"\n"
            except RowRejected:
                doubtful.add(line)
    return _without(frame.data, frame, doubtful, replaced)


def _recode_whole(frame: Frame, fmt: Format) -> bytes | None:
    """All lines at once where the first encoding takes them all; None where they have to be taken one by one."""
    try:
        text = frame.data.decode(fmt.encodings[0])
    except UnicodeDecodeError:
        return None
    if fmt.encodings[0] == "utf-8":
        return frame.data
    encoded = text.encode()
    return encoded if encoded.count(b"\n") == len(frame) else None


def _without(data: bytes, frame: Frame, doubtful: set[int], replaced: dict[int, bytes]) -> CleanLines:
    lines = np.arange(len(frame), dtype=np.int64)
    left_out = np.array(sorted(doubtful), dtype=np.int64)
    starts = frame.starts
    if len(data) != len(frame.data):
        starts = _starts_of(data)
    if doubtful or replaced:
        pieces: list[bytes] = []
        at = 0
        for line in sorted(doubtful | replaced.keys()):
            end = int(starts[line + 1]) if line + 1 < len(starts) else len(data)
            pieces += [data[at : starts[line]], b"" if line in doubtful else replaced[line]]
            at = end
        data = b"".join([*pieces, data[at:]])
        lines = np.delete(lines, left_out)
        starts = _starts_of(data)
    return CleanLines(data, lines, starts, left_out)


def _starts_of(data: bytes) -> NDArray[np.int64]:
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == 10)
    return np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends


def _doubtful_lines(frame: Frame, fmt: Format) -> NDArray[np.int64]:
    data = frame.data
    codes = np.frombuffer(data, dtype=np.uint8)
    found: list[NDArray[np.int64]] = []
    lengths = frame.ends - frame.starts
    if lengths.max() > fmt.max_line_bytes:
        found.append(np.flatnonzero(lengths > fmt.max_line_bytes))
    if frame.offset == 0 and data.startswith(_BOM):
        found.append(np.array([0], dtype=np.int64))
    if b"\0" in data:
        found.append(_lines_with(frame, codes == 0))
    if b"\r" in data:
        stray = codes == 13
        stray[frame.ends[frame.ends > 0] - 1] = False
        if stray.any():
            found.append(_lines_with(frame, stray))
    if fmt.quote and fmt.quote.encode() in data:
        counts = np.bincount(_line_of(frame, codes == ord(fmt.quote)), minlength=len(frame))
        found.append(np.flatnonzero(counts % 2))
    if fmt.quote and fmt.quote_escape is QuoteEscape.BACKSLASH and b"\\" in data:
        found.append(_lines_with(frame, codes == ord("\\")))
    if fmt.comment:
        found.append(np.flatnonzero(codes[frame.starts] == fmt.comment.encode()[0]))
    return np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)


def _line_of(frame: Frame, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.searchsorted(frame.ends, np.flatnonzero(mask))


def _lines_with(frame: Frame, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.unique(_line_of(frame, mask))
