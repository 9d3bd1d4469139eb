"""Unpack gzip and zstd as a stream: bounded memory, bounded expansion, and honest about a missing end."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from disarray.errors import UnreadableFileError
from disarray.model.description.format import Compression
from disarray.model.fingerprints import STRIDE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MAGICS = ((b"\x1f\x8b", Compression.GZIP), (b"\x28\xb5\x2f\xfd", Compression.ZSTD))
_ZIP = b"PK\x03\x04"
# No instrument's text shrinks two-hundredfold; a bomb does. Below the floor the ratio of a short file means
# nothing.
_MAX_RATIO = 200
_RATIO_FLOOR_BYTES = 64 << 20
_OUTPUT_BYTES = 1 << 20
# zstandard knows no limit on output; four bytes can say 128 KiB, so short inputs are what bounds it.
_INPUT_BYTES = {Compression.GZIP: 1 << 16, Compression.ZSTD: 1 << 12}
_ZSTD_MAX_WINDOW = 128 << 20


def detect_compression(head: bytes, declared: Compression) -> Compression:
    """What wraps the bytes, judged by the first of them; a wrapping the format rules out fails the file."""
    if head.startswith(_ZIP):
        raise UnreadableFileError("is a zip archive; unpack it beside the archive and the files are read")
    if not head:
        # A file that has just been created: nothing to unpack, and nothing to blame it for.
        return Compression.NONE
    found = next((kind for magic, kind in _MAGICS if head.startswith(magic)), Compression.NONE)
    if declared in (Compression.AUTO, found):
        return found
    raise UnreadableFileError(f"is {found.value} by its first bytes, the format says {declared.value}")


@dataclass(slots=True)
class Unpacker:
    """Turns raw pieces into unpacked ones that end at multiples of the stride."""

    kind: Compression
    truncated: bool = False
    _packed: int = 0
    _unpacked: int = 0

    def unpack(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the unpacked bytes; `truncated` is set if the stream ends before its own end mark.

        Damage inside the stream fails the file: what follows a wrong byte cannot be trusted. A missing end
        does not: what came before it is whole, and the rest may still be on its way.
        """
        buffer = bytearray()
        for piece in self._members(pieces):
            self._guard(len(piece))
            buffer += piece
            while len(buffer) >= STRIDE_BYTES:
                yield bytes(buffer[:STRIDE_BYTES])
                del buffer[:STRIDE_BYTES]
        if buffer:
            yield bytes(buffer)

    def _members(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        stream: _Stream | None = None
        for raw in _sliced(pieces, _INPUT_BYTES[self.kind]):
            self._packed += len(raw)
            pending = raw
            while pending:
                # gzip files are padded with zeros when a tape or a block device was in between.
                if stream is None and self.kind is Compression.GZIP and not pending.strip(b"\0"):
                    break
                stream = stream or _open_stream(self.kind)
                try:
                    piece, pending = stream.decompress(pending)
                except zlib.error as error:
                    raise UnreadableFileError(f"the {self.kind.value} stream is damaged: {error}") from error
                if piece:
                    yield piece
                if stream.eof:
                    stream = None
        self.truncated = stream is not None

    def _guard(self, more: int) -> None:
        self._unpacked += more
        if self._unpacked > _RATIO_FLOOR_BYTES and self._unpacked > _MAX_RATIO * self._packed:
            raise UnreadableFileError(
                f"unpacks to more than {_MAX_RATIO} times its size ({self._unpacked} bytes so far) and looks like "
                "a decompression bomb; nothing of it is kept"
            )


class _Stream(Protocol):
    @property
    def eof(self) -> bool: ...
    def decompress(self, data: bytes) -> tuple[bytes, bytes]: ...


class _GzipStream:
    def __init__(self) -> None:
        self._object = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._object.eof

    def decompress(self, data: bytes) -> tuple[bytes, bytes]:
        piece = self._object.decompress(data, _OUTPUT_BYTES)
        return piece, self._object.unused_data if self.eof else self._object.unconsumed_tail


class _ZstdStream:
    def __init__(self) -> None:
        # Here alone: an agent reads the heads of plain and gzip files, and carries no zstandard.
        try:
            import zstandard
        except ImportError as error:
            raise UnreadableFileError(
                "is packed with zstd, and this installation cannot unpack it. Install the package 'zstandard' here"
            ) from error

        self._damaged = zstandard.ZstdError
        self._object = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW).decompressobj()

    @property
    def eof(self) -> bool:
        return self._object.eof

    def decompress(self, data: bytes) -> tuple[bytes, bytes]:
        try:
            return self._object.decompress(data), self._object.unused_data if self.eof else b""
        except self._damaged as error:
            raise zlib.error(str(error)) from error


def _open_stream(kind: Compression) -> _Stream:
    return _ZstdStream() if kind is Compression.ZSTD else _GzipStream()


def _sliced(pieces: Iterable[bytes], step: int) -> Iterator[bytes]:
    for piece in pieces:
        for at in range(0, len(piece), step):
            yield piece[at : at + step]
