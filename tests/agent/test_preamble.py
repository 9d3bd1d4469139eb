"""The subject in a preamble, found in the head of plain and packed files alike."""

from __future__ import annotations

import gzip
import os
import sys
from typing import TYPE_CHECKING

import pytest
import zstandard

from disarray.agent.preamble import read_subject
from disarray.errors import DisarrayError, UnreadableFileError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.agent.conftest import Lab

WHOLE = b"Cycler 7\r\nSerial: CELL42\r\ntime,value\r\n" + b"2024-01-01T00:00:00Z,1\r\n" * 100_000


def subject_of(lab: Lab, content: bytes) -> str | None:
    path: Path = lab.folder / "head"
    path.write_bytes(content)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return read_subject(descriptor, len(content), uri="file:///head", dataset=lab.datasets[1])
    finally:
        os.close(descriptor)


def test_it_is_found_in_plain_and_packed_files_and_behind_a_byte_order_mark(lab: Lab) -> None:
    assert subject_of(lab, WHOLE) == "CELL42"
    assert subject_of(lab, gzip.compress(WHOLE)) == "CELL42"
    assert subject_of(lab, b"\xef\xbb\xbf" + WHOLE) == "CELL42"


@pytest.mark.parametrize("length", [0, 5, 12, 24])
def test_as_long_as_its_line_is_not_complete_nothing_is_said(lab: Lab, length: int) -> None:
    assert subject_of(lab, WHOLE[:length]) is None


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"time,value\n", id="no serial"),
        pytest.param(b"Serial: \x01\x02\ntime,value\n", id="control characters"),
        pytest.param(b"Serial: " + b"x" * 300 + b"\n", id="too long"),
        pytest.param(b"note\n" * 30, id="no end within its limit"),
        pytest.param(b"x" * (2 << 20), id="a line without end"),
        pytest.param(b"PK\x03\x04 and so on", id="a zip archive"),
        pytest.param(gzip.compress(WHOLE)[:10] + b"\xff" * 500, id="a damaged stream"),
    ],
)
def test_a_head_that_names_no_usable_subject_is_refused(lab: Lab, content: bytes) -> None:
    with pytest.raises(DisarrayError):
        subject_of(lab, content)


def test_a_zstd_file_is_refused_by_name_where_nothing_can_unpack_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = zstandard.compress(WHOLE)
    assert subject_of(lab, packed) == "CELL42"
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UnreadableFileError, match="Install the package 'zstandard'"):
        subject_of(lab, packed)
