"""Whatever somebody sends, decoding it takes work in proportion to its size.

A sender chooses the bytes, so a decoder that is quadratic in some of them can be held up for minutes by a small
message, and with it everything else in the process. No limit in seconds is asserted: eight times the bytes may cost
some twenty times the processor time at most, and only what costs enough to measure is looked at.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import pytest

from disarray.broker.messages import decode_message
from disarray.errors import DisarrayError
from disarray.formats.guess import guess
from disarray.formats.loader import shipped_descriptions
from disarray.kernels.reading.preview import preview_file
from disarray.model.api_token import read_token
from disarray.model.description.format import FileKind
from disarray.web.problems import Problem
from disarray.web.request_reader import read_body, read_query
from disarray.web.routes import ROUTES
from tests.kernels.conftest import JSONL, Desk, spec_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LARGE = 64 << 10
# Linear is 8, quadratic 64. Below this a large input is decoded before anybody notices.
MOST_TIMES = 24.0
MEASURABLE_SECONDS = 0.1

SIGNS = "\"\\[{]},:\n \t0-.eaé&=%;'\0"
UNITS = [*SIGNS, *("".join(pair) for pair in product('"\\[{},:\n0-.a&=', repeat=2)), '"a":', '{"a":', "1e9,"]
FILE_UNITS = [
    *SIGNS,
    *('"\\', '\\"', '",', ',"', '""', "\r\n", "\n\n", '{"a":', "0.", "1,", "a:", " :", "::", "2024-"),
]
OPENINGS = ("", '"', '{"version":1,"files":[', '{"a":"')


def excess(
    decode: Callable[[bytes], object], unit: str, *, opening: str = "", most_bytes: int = LARGE
) -> float:
    """By how much a large input costs more than a small one; 0 where it costs next to nothing."""

    def cost(size: int) -> float:
        data = (opening + unit * (size // len(unit.encode()))).encode()
        begun = time.process_time()
        with suppress(DisarrayError, Problem):
            decode(data)
        return time.process_time() - begun

    found = float("inf")
    # The least of several: others on the machine, and the collector of garbage, only ever add.
    for _ in range(3):
        large = cost(most_bytes)
        if large < MEASURABLE_SECONDS:
            return 0.0
        found = min(found, large / max(min(cost(most_bytes // 8) for _ in range(3)), 1e-6))
        if found <= MOST_TIMES:
            break
    return found


def assert_linear(decode: Callable[[bytes], object], units: list[str], openings: tuple[str, ...]) -> None:
    cases = [(opening, unit) for opening in openings for unit in units]
    found = {case: excess(decode, case[1], opening=case[0]) for case in cases}
    assert {case: times for case, times in found.items() if times > MOST_TIMES} == {}


def test_a_decoder_that_starts_over_at_each_quote_is_noticed() -> None:
    text = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
    assert excess(lambda data: text.sub(b"", data), '\\"', most_bytes=8 << 10) > MOST_TIMES
    assert excess(lambda data: text.sub(b"", data), "a") == 0


def test_messages_are_decoded_in_proportion_to_their_size() -> None:
    assert_linear(decode_message, UNITS, OPENINGS)


def test_bodies_of_requests_are_read_in_proportion_to_their_size() -> None:
    posted = [route.asks for route in ROUTES if route.method == "POST"]
    assert posted
    for kind in posted[:3]:
        assert_linear(lambda data, kind=kind: read_body(kind, data), UNITS, ("", '{"reason":"'))  # type: ignore[misc]


def test_queries_of_requests_are_read_in_proportion_to_their_size() -> None:
    [kind] = [route.asks for route in ROUTES if route.path.endswith("/series")]

    def read(data: bytes) -> object:
        return read_query(kind, parse_qsl(data.decode("utf-8", "replace"), keep_blank_values=True))

    assert_linear(read, FILE_UNITS, ("", "from=", "every="))
    distinct = "&".join(f"{number:x}=" for number in range(10_000))
    # Names that all differ are no repetition of anything.
    assert excess(lambda data: read(distinct[: len(data)].encode()), "x") <= MOST_TIMES


def test_tokens_are_read_in_proportion_to_their_size() -> None:
    assert_linear(lambda data: read_token(data.decode("utf-8", "replace")), FILE_UNITS, ("", "dsr_"))


def test_heads_of_files_are_guessed_at_in_proportion_to_their_size() -> None:
    known = shipped_descriptions()
    assert_linear(lambda data: guess(data, known), FILE_UNITS, ("", "time,value\n", '"'))


# A Parquet file is read by pyarrow: tests/kernels/test_parquet_file.py mutates some.
TEXT_FORMATS = [
    name for name, known in shipped_descriptions().items() if known.format.kind is not FileKind.PARQUET
]


@pytest.mark.parametrize("name", sorted(TEXT_FORMATS))
def test_files_are_read_in_proportion_to_their_size(name: str, tmp_path: Path) -> None:
    described = shipped_descriptions()[name].format
    more: dict[str, Any] = {"fmt": JSONL if described.kind is FileKind.JSONL else described}
    desk = Desk(tmp_path, spec_of(**more))

    def read(data: bytes) -> object:
        desk.path.write_bytes(data)
        return preview_file(desk.request())

    assert_linear(read, FILE_UNITS, ("", "time,value\n2024-01-01T00:00:00,"))
