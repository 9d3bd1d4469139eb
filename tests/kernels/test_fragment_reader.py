"""Bytes of the lake are those that were written, or they are an error: whichever bit it is."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from blake3 import blake3

from disarray.errors import FragmentDamagedError
from disarray.kernels.fragments.fragment_reader import FragmentReader, read_fragment
from disarray.kernels.fragments.fragment_writer import FragmentWriter
from disarray.kernels.fragments.ordering import digest_table
from tests.kernels.test_fragments import SPEC, readings

if TYPE_CHECKING:
    from pathlib import Path

ROW_GROUPS = 3


class Written:
    """A file of three fragments, their digests and what they hold."""

    def __init__(self, path: Path, *, seed: int = 0) -> None:
        self.path = path
        writer = FragmentWriter(str(path), SPEC)
        draw = random.Random(seed)
        for at in range(ROW_GROUPS):
            rows = [(at * 10 + row, draw.random(), draw.randrange(9), draw.choice("abc")) for row in range(5)]
            writer.write(readings(*rows))
        file = writer.close()
        assert file is not None
        self.checksum = file.checksum
        self.digests = {number: writer.digest_of(number) for number in range(ROW_GROUPS)}
        self.content = [digest_table(read_fragment(str(path), number)) for number in range(ROW_GROUPS)]
        self.bytes = path.read_bytes()

    def read(self, number: int) -> str:
        """The content of one fragment, if its bytes are right."""
        return digest_table(read_fragment(str(self.path), number, digest=self.digests[number]))


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path / "part.parquet")


def test_a_flipped_bit_anywhere_in_the_file_is_an_error_of_its_row_group_and_of_no_other(
    written: Written,
) -> None:
    draw = random.Random(12)
    footer_start = len(written.bytes) - 8 - int.from_bytes(written.bytes[-8:-4], "little")
    hit: list[set[int]] = []
    for at in range(len(written.bytes)):
        damaged = bytearray(written.bytes)
        damaged[at] ^= 1 << draw.randrange(8)
        written.path.write_bytes(damaged)
        refused = set()
        for number in range(ROW_GROUPS):
            try:
                assert written.read(number) == written.content[number]
            except FragmentDamagedError:
                refused.add(number)
        assert len(refused) == (ROW_GROUPS if at >= footer_start else 1), f"byte {at}"
        hit.append(refused)
    # From the first byte on: the magic, page headers and pages of one row group after the other, the footer.
    assert [min(each) for each in hit[:footer_start]] == sorted(min(each) for each in hit[:footer_start])
    assert {min(each) for each in hit[:footer_start]} == set(range(ROW_GROUPS))


def test_without_digests_the_checksum_of_the_whole_file_stands_for_every_bit(written: Written) -> None:
    draw = random.Random(13)
    for at in draw.sample(range(len(written.bytes)), 60):
        damaged = bytearray(written.bytes)
        damaged[at] ^= 1 << draw.randrange(8)
        written.path.write_bytes(damaged)
        with pytest.raises(FragmentDamagedError):
            read_fragment(str(written.path), 1, checksum=written.checksum)
    written.path.write_bytes(written.bytes)
    assert blake3(written.bytes).hexdigest() == written.checksum
    assert digest_table(read_fragment(str(written.path), 1, checksum=written.checksum)) == written.content[1]


@pytest.mark.parametrize("kept", [0, 3, 8, 100, -300, -9, -1])
def test_a_file_that_was_cut_short_is_an_error(written: Written, kept: int) -> None:
    written.path.write_bytes(written.bytes[:kept])
    with pytest.raises(FragmentDamagedError):
        written.read(0)


def test_another_file_under_the_name_is_an_error(written: Written, tmp_path: Path) -> None:
    other = Written(tmp_path / "other.parquet", seed=1)
    assert other.bytes != written.bytes
    written.path.write_bytes(other.bytes)
    with pytest.raises(FragmentDamagedError):
        written.read(0)


def test_a_row_group_that_the_file_does_not_have_is_an_error(written: Written) -> None:
    with pytest.raises(FragmentDamagedError, match="it has 3 row groups"):
        read_fragment(str(written.path), ROW_GROUPS)


def test_all_damaged_row_groups_of_a_read_are_named_at_once(written: Written) -> None:
    damaged = bytearray(written.bytes)
    damaged[0] ^= 1
    third = pq.ParquetFile(written.path).metadata.row_group(2).column(0)
    damaged[third.data_page_offset] ^= 1
    written.path.write_bytes(damaged)
    with FragmentReader() as reader, pytest.raises(FragmentDamagedError) as told:
        reader.read(str(written.path), [0, 1, 2], digests=written.digests)
    assert told.value.row_groups == (0, 2)


def test_other_readers_find_a_checksum_on_every_page(written: Written) -> None:
    draw = random.Random(14)
    chunk = pq.ParquetFile(written.path).metadata.row_group(1).column(2)
    end = chunk.data_page_offset + chunk.total_compressed_size
    damaged = bytearray(written.bytes)
    damaged[end - 1 - draw.randrange(4)] ^= 1 << draw.randrange(8)
    written.path.write_bytes(damaged)
    with pytest.raises(OSError, match="CRC checksum"):
        pq.ParquetFile(written.path, page_checksum_verification=True).read()
