from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import zstandard

from disarray.errors import UnreadableFileError
from disarray.kernels.parsing.rejects import RejectReason
from disarray.kernels.reading.decompression import Unpacker, detect_compression
from disarray.kernels.reading.outcome import ReadReason, ReadStatus
from disarray.model.description.format import Compression
from disarray.model.fingerprints import STRIDE_BYTES
from disarray.model.seam import Change
from tests.kernels.test_reading import HEADER, lines

if TYPE_CHECKING:
    from tests.kernels.conftest import Desk

Pack = Callable[[bytes], bytes]
PACKERS = [
    pytest.param(lambda data: gzip.compress(data, mtime=0), id="gzip"),
    pytest.param(zstandard.compress, id="zstd"),
]


@pytest.fixture(params=PACKERS)
def pack(request: pytest.FixtureRequest) -> Pack:
    chosen: Pack = request.param
    return chosen


def test_a_packed_file_is_read_as_what_it_holds(desk: Desk, pack: Pack) -> None:
    data = HEADER + lines(0, 500)
    outcome = desk.write(pack(data)).read()
    assert (outcome.status, desk.values()) == (ReadStatus.READ, list(range(500)))
    assert desk.readings is not None
    assert desk.readings.column("_position").to_pylist()[0] == len(HEADER)
    assert desk.read().status is ReadStatus.UNCHANGED


def test_concatenated_members_are_one_file(desk: Desk, pack: Pack) -> None:
    data = HEADER + lines(0, 100)
    desk.write(pack(data[:1000]) + pack(data[1000:])).read()
    assert desk.values() == list(range(100))


def test_a_packed_file_that_changed_is_read_from_the_start(desk: Desk, pack: Pack) -> None:
    desk.write(pack(HEADER + lines(0, 10))).read()
    outcome = desk.write(pack(HEADER + lines(0, 10)) + pack(lines(10, 12))).read()
    assert (outcome.change, outcome.seam_position) == (Change.GROWN, 0)
    assert desk.values() == list(range(12))


def test_what_is_whole_of_a_truncated_file_is_kept_and_the_rest_waits(desk: Desk, pack: Pack) -> None:
    data = HEADER + lines(0, 20_000)
    packed = pack(data)
    outcome = desk.write(packed[: len(packed) * 2 // 3]).read()
    assert (outcome.status, outcome.counts.waiting) == (ReadStatus.READ, 1)
    assert "cut off" in (outcome.message or "")
    assert 0 < len(desk.values()) < 20_000
    assert desk.values() == list(range(len(desk.values())))
    desk.write(packed).read()
    assert desk.values() == list(range(20_000))


def test_the_line_at_the_cut_is_never_taken_for_a_reading(desk: Desk, pack: Pack) -> None:
    packed = pack(HEADER + lines(0, 20_000))
    outcome = desk.write(packed[: len(packed) * 2 // 3]).read(ReadReason.QUIET)
    assert outcome.rejects_by_reason == {RejectReason.TRUNCATED_STREAM: 1}


def test_damage_inside_the_stream_fails_the_file(desk: Desk) -> None:
    packed = bytearray(gzip.compress(HEADER + lines(0, 5000), mtime=0))
    packed[len(packed) // 2] ^= 0xFF
    outcome = desk.write(bytes(packed)).read()
    assert outcome.status is ReadStatus.FAILED
    assert "damaged" in (outcome.message or "")
    assert outcome.fragments == ()


def test_zeros_after_a_gzip_file_are_padding(desk: Desk) -> None:
    desk.write(gzip.compress(HEADER + lines(0, 5), mtime=0) + b"\0" * 500).read()
    assert desk.values() == list(range(5))


def test_a_bomb_is_refused(pack: Pack) -> None:
    bomb = pack(bytes(100 << 20))
    unpacker = Unpacker(detect_compression(bomb, Compression.AUTO))
    with pytest.raises(UnreadableFileError, match="bomb"):
        max(len(piece) for piece in unpacker.unpack([bomb]))


def test_a_bomb_fails_its_file_alone(desk: Desk) -> None:
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as packed:
        for _ in range(100):
            packed.write(bytes(1 << 20))
    assert desk.write(stream.getvalue()).read().status is ReadStatus.FAILED


def test_pieces_come_in_strides_whatever_the_members() -> None:
    data = zlib.crc32(b"seed").to_bytes(4, "big") * (3 * STRIDE_BYTES // 8)
    packed = gzip.compress(data[:1000], 1) + gzip.compress(data[1000:], 1)
    pieces = list(Unpacker(Compression.GZIP).unpack([packed[:100], packed[100:]]))
    assert [len(piece) for piece in pieces] == [STRIDE_BYTES, len(data) - STRIDE_BYTES]
    assert b"".join(pieces) == data


@pytest.mark.parametrize(
    ("head", "declared", "complaint"),
    [
        (b"PK\x03\x04rest", Compression.AUTO, "zip archive"),
        (gzip.compress(b"x", mtime=0), Compression.NONE, "is gzip"),
        (b"plain", Compression.ZSTD, "is none"),
    ],
)
def test_another_wrapping_than_the_format_says_fails_the_file(
    head: bytes, declared: Compression, complaint: str
) -> None:
    with pytest.raises(UnreadableFileError, match=complaint):
        detect_compression(head, declared)


def test_an_empty_file_of_a_packed_format_is_empty_and_not_wrong(desk: Desk) -> None:
    desk.spec = replace(desk.spec, format=replace(desk.spec.format, compression=Compression.GZIP))
    assert desk.write(b"").read().status is ReadStatus.READ
    desk.write(gzip.compress(HEADER + lines(0, 3), mtime=0)).read()
    assert desk.values() == [0, 1, 2]
