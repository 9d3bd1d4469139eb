"""Cut bytes into lines at C speed, with every line accounted for and no line ever held beyond its cap.

A line is what ends in a newline byte, whatever quotes stand in it: a cell with a line break in it is two
damaged lines. Only so do lines mean the same from every starting point, which growth and byte ranges depend
on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from disarray.kernels.parsing.rejects import SAMPLE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_NEWLINE = 10


@dataclass(frozen=True, slots=True)
class Frame:
    """Whole lines, side by side: line i is `data[starts[i]:ends[i]]`, its newline stands at `ends[i]`."""

    data: bytes
    offset: int
    first_line: int
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def line(self, index: int) -> bytes:
        """The bytes of one line without its newline."""
        return self.data[self.starts[index] : self.ends[index]]

    def parts(self, most_lines: int) -> Iterator[Frame]:
        """The same lines in frames of at most so many."""
        if len(self) <= most_lines:
            yield self
            return
        for first in range(0, len(self), most_lines):
            starts, ends = self.starts[first : first + most_lines], self.ends[first : first + most_lines]
            begin = int(starts[0])
            data = self.data[begin : int(ends[-1]) + 1]
            yield Frame(data, self.offset + begin, self.first_line + first, starts - begin, ends - begin)


@dataclass(frozen=True, slots=True)
class OverlongLine:
    """A line beyond the cap, of which only the beginning was ever in memory."""

    offset: int
    number: int
    sample: bytes


@dataclass(slots=True)
class Framer:
    """Collects pieces of a file into frames; `line_start` is where the line in progress begins."""

    line_start: int
    line_number: int
    max_line_bytes: int
    seen: int = 0
    _carry: bytes = b""
    _overlong_sample: bytes | None = None
    _skipped: int = 0

    def feed(self, piece: bytes) -> Iterator[Frame | OverlongLine]:
        """Take the next bytes; what follows the last newline is carried over."""
        if self._overlong_sample is not None:
            end = piece.find(b"\n")
            if end < 0:
                self._skipped += len(piece)
                return
            yield self._finish_overlong(end + 1)
            piece = piece[end + 1 :]
        cut = piece.rfind(b"\n") + 1
        if cut:
            # One copy of the whole lines, none if they stand alone.
            alone = not self._carry and cut == len(piece)
            data = piece if alone else b"".join((self._carry, memoryview(piece)[:cut]))
            self._carry = piece[cut:]
            yield self._frame(data)
        else:
            self._carry += piece
        if len(self._carry) > self.max_line_bytes:
            self._overlong_sample = self._carry[:SAMPLE_BYTES]
            self._skipped = len(self._carry)
            self._carry = b""

    @property
    def has_tail(self) -> bool:
        """Whether bytes without a newline are left."""
        return bool(self._carry) or self._overlong_sample is not None

    def take_tail(self) -> Frame | OverlongLine:
        """Give out the unterminated last line as if it had its newline."""
        if self._overlong_sample is not None:
            return self._finish_overlong(0)
        carry, self._carry = self._carry, b""
        return self._frame(carry + b"\n")

    def _frame(self, data: bytes) -> Frame:
        ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == _NEWLINE)
        starts = np.empty_like(ends)
        starts[0] = 0
        np.add(ends[:-1], 1, out=starts[1:])
        frame = Frame(data, self.line_start, self.line_number, starts, ends)
        self.line_start += len(data)
        self.line_number += len(ends)
        self.seen += len(ends)
        return frame

    def _finish_overlong(self, rest: int) -> OverlongLine:
        line = OverlongLine(self.line_start, self.line_number, self._overlong_sample or b"")
        self._overlong_sample = None
        self.line_start += self._skipped + rest
        self.line_number += 1
        self.seen += 1
        return line
