"""The catalogue of files that must not hurt: each ends kept, waiting, rejected, parked or failed, with a reason."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from disarray.kernels.reading.outcome import ReadReason, ReadStatus
from disarray.model.description.format import ColumnType, Format, Header
from disarray.model.fingerprints import NO_LINES, LineCounts
from tests.kernels.conftest import Desk, column, spec_of
from tests.kernels.test_reading import HEADER, lines

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.model.description.read_spec import ReadSpec

GOOD = HEADER + lines(0, 3)


@dataclass(frozen=True)
class Case:
    """One bad file and where its lines must go."""

    name: str
    data: bytes
    counts: LineCounts = NO_LINES
    status: ReadStatus = ReadStatus.READ
    reasons: dict[str, int] = field(default_factory=dict)
    message: str = ""
    spec: ReadSpec = field(default_factory=spec_of)
    reason: ReadReason = ReadReason.NOTIFICATION


def kept(count: int, **others: int) -> LineCounts:
    """So many readings under a header, and so many other lines."""
    total = count + 1 + sum(others.values())
    return LineCounts(**({"seen": total, "kept": count, "preamble": 1} | others))


CASES = [
    Case("empty", b"", LineCounts()),
    Case("header only", HEADER, kept(0)),
    Case("half a header", b"time,va", LineCounts(seen=1, waiting=1)),
    Case("a byte order mark", b"\xef\xbb\xbf" + GOOD, kept(3)),
    Case("a byte order mark alone", b"\xef\xbb\xbf", LineCounts(seen=1, waiting=1)),
    Case("CRLF", GOOD.replace(b"\n", b"\r\n"), kept(3)),
    Case("mixed line ends", GOOD.replace(b"\n", b"\r\n", 2), kept(3)),
    Case("only carriage returns", GOOD.replace(b"\n", b"\r"), LineCounts(seen=1, waiting=1)),
    Case("a header in another order", b"value,time\n1,2024-01-01\n", kept(1)),
    Case(
        "a header mid-file", GOOD + HEADER + lines(3, 5), kept(5, rejected=1), reasons={"repeated_header": 1}
    ),
    Case(
        "another header mid-file, expected",
        GOOD + b"value,time\n9,2024-01-01\n",
        LineCounts(seen=6, kept=4, preamble=2),
        spec=spec_of(fmt=Format(name="csv", header=Header(repeats=True))),
    ),
    Case("NUL bytes", GOOD + b"2024-01-01,\x001\n", kept(3, rejected=1), reasons={"nul_byte": 1}),
    Case("NUL-only lines", GOOD + b"\0\0\0\n\0\n", kept(3, rejected=2), reasons={"nul_byte": 2}),
    Case("invalid UTF-8", GOOD + b"2024-01-01,\xff\n", kept(3, rejected=1), reasons={"undecodable": 1}),
    Case(
        "mixed encodings",
        b"time,value,text\n2024-01-01,1,\xc3\xa9\n2024-01-01,1,\xe9\n",
        kept(2),
        spec=spec_of(
            column("value"),
            column("text", ColumnType.STRING),
            fmt=Format(name="csv", encodings=("utf-8", "iso-8859-1")),
        ),
    ),
    Case("UTF-16", GOOD.decode().encode("utf-16"), status=ReadStatus.FAILED, message="UTF-16"),
    Case(
        "UTF-16 without a mark", GOOD.decode().encode("utf-16-le"), status=ReadStatus.FAILED, message="UTF-16"
    ),
    Case("blank lines", HEADER + b"\n \t\n" + lines(0, 1) + b"\r\n", kept(1, blank=3)),
    Case(
        "a stray quote",
        GOOD + b'2024-01-01,"1\n' + lines(3, 4),
        kept(4, rejected=1),
        reasons={"unterminated_quote": 1},
    ),
    Case("an odd quote in the last line", GOOD + b'"', kept(3, waiting=1)),
    Case(
        "ragged rows",
        GOOD + b"1\n1,2,3\n",
        kept(3, rejected=2),
        reasons={"too_few_cells": 1, "too_many_cells": 1},
    ),
    Case(
        "a line beyond the cap",
        GOOD + b"x" * (2 << 20) + b"\n" + lines(3, 4),
        kept(4, rejected=1),
        reasons={"line_too_long": 1},
    ),
    Case("a line beyond the cap without newline", GOOD + b"x" * (2 << 20), kept(3, waiting=1)),
    Case(
        "a line beyond the cap without newline, quiet",
        GOOD + b"x" * (2 << 20),
        kept(3, rejected=1),
        reasons={"line_too_long": 1},
        reason=ReadReason.QUIET,
    ),
    Case(
        "a million columns", b"a," * 1_000_000 + b"\n1,2\n", status=ReadStatus.FAILED, message="longer than"
    ),
    Case(
        "a million columns below the header",
        GOOD + b"1," * 1_000_000 + b"\n",
        kept(3, rejected=1),
        reasons={"line_too_long": 1},
    ),
    Case(
        "a hundred thousand columns",
        b"time,value" + b",a" * 100_000 + b"\n2024-01-01,1" + b",2" * 100_000 + b"\n",
        kept(1),
    ),
    Case(
        "another file altogether",
        b"\x7fELF" + bytes(range(256)) * 10,
        status=ReadStatus.FAILED,
        message="header",
    ),
    Case(
        "numbers that are none",
        HEADER
        + b"".join(
            b"2024-01-01,%s\n" % text
            for text in (b"1e999", b"NaN", b"-0", b"1_000", b"9" * 400, "٣".encode())
        ),
        kept(1, rejected=5),
        reasons={"nonfinite": 3, "bad_number": 2},
    ),
    Case("stamps of 1970", HEADER + b"1970-01-01T00:00:00,1\n", kept(1)),
    Case(
        "stamps of the far future",
        HEADER + b"2199-12-31,1\n2200-01-01,1\n",
        kept(1, rejected=1),
        reasons={"time_out_of_range": 1},
    ),
    Case(
        "stamps beyond the clock",
        HEADER + b"2024-01-01,1\n2199-12-31,1\n",
        kept(1, rejected=1),
        reasons={"in_future": 1},
        spec=spec_of(future_tolerance_us=0),
    ),
    Case(
        "stamps in a lost local hour",
        HEADER + b"2024-03-31 01:59,1\n2024-03-31 02:30,2\n2024-03-31 03:00,3\n",
        kept(2, rejected=1),
        reasons={"nonexistent_local_time": 1},
        spec=spec_of(zone="Europe/Berlin"),
    ),
    Case("repeated stamps and disorder", HEADER + lines(5, 8) + lines(0, 3) + lines(0, 3), kept(9)),
    Case("a zip archive", b"PK\x03\x04" + GOOD, status=ReadStatus.FAILED, message="zip"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_bad_file_ends_as_the_catalogue_says(case: Case, tmp_path: Path) -> None:
    outcome = Desk(tmp_path, case.spec).write(case.data).read(case.reason)
    assert outcome.status is case.status, outcome.message
    assert case.message in (outcome.message or "")
    assert "\n" not in (outcome.message or "")
    assert outcome.counts == case.counts
    assert {reason.value: count for reason, count in outcome.rejects_by_reason.items()} == case.reasons


def test_the_same_bytes_under_two_names_have_one_content_hash(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        found.append(Desk(tmp_path / name, spec_of(), name=f"{name}.csv").write(GOOD).read().fingerprint)
    assert found[0] == found[1]


def test_a_deleted_and_recreated_file_goes_on_from_what_is_known(desk: Desk) -> None:
    desk.write(GOOD).read()
    desk.path.unlink()
    assert desk.read().status is ReadStatus.VANISHED
    desk.write(GOOD + lines(3, 5)).read()
    assert desk.values() == [0, 1, 2, 3, 4]


def test_readings_of_a_repeated_hour_in_autumn_are_told_apart(tmp_path: Path) -> None:
    desk = Desk(tmp_path, spec_of(zone="Europe/Berlin"))
    desk.write(HEADER + b"2023-10-29 02:30,1\n2023-10-29 02:59,2\n2023-10-29 02:30,3\n").read()
    assert [
        us // 60_000_000 for us in (desk.times()[1] - desk.times()[0], desk.times()[2] - desk.times()[1])
    ] == [29, 31]


@pytest.mark.parametrize(
    "build",
    [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/etc/hostname")],
    ids=["FIFO", "directory", "link"],
)
def test_what_is_no_regular_file_fails_with_a_word(desk: Desk, build: object) -> None:
    assert callable(build)
    build(desk.path)
    outcome = desk.read()
    assert (outcome.status, outcome.is_retryable) == (ReadStatus.FAILED, False)


def test_an_unreadable_name_fails_with_a_word(desk: Desk) -> None:
    desk.name = "new\nline.csv"
    assert "line break" in (desk.read().message or "")


def test_a_64_megabyte_line_without_newline_is_not_held_in_memory(tmp_path: Path) -> None:
    desk = Desk(tmp_path, spec_of())
    with desk.path.open("wb") as stream:
        stream.write(GOOD)
        for _ in range(64):
            stream.write(b"x" * (1 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = desk.read()
    assert outcome.counts == kept(3, waiting=1)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 * 1024


@pytest.mark.long
def test_half_a_gigabyte_is_read_in_what_a_fragment_takes(tmp_path: Path) -> None:
    # Memory grows until the first fragments are written, at some 250 MB of this file, and no further: 1.5 GB if it
    # did. `benchmarks.parse` reads two gigabytes, and holds them to less than one of memory.
    path = tmp_path / "big.csv"
    block = lines(0, 20 * 1440) * 4
    with path.open("wb") as stream:
        stream.write(HEADER)
        while stream.tell() < 1 << 29:
            stream.write(block)
    script = (
        "from pathlib import Path\n"
        "from tests.kernels.conftest import Desk, spec_of\n"
        "from tests.kernels.memory_probe import peak_mb\n"
        "from disarray.kernels.reading.file_reader import read_file\n"
        f"desk = Desk(Path({str(tmp_path)!r}), spec_of(segment_length_us=86_400_000_000), name='big.csv')\n"
        "writer = desk.writer()\n"
        "outcome = read_file(desk.request(), writer)\n"
        "assert outcome.status == 'read', outcome.message\n"
        "print(peak_mb())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert float(done.stdout) < 1_024


def test_a_spec_with_another_cap_is_obeyed(desk: Desk) -> None:
    desk.spec = replace(desk.spec, format=replace(desk.spec.format, max_line_bytes=25))
    outcome = desk.write(GOOD + b"2024-01-01T00:00:00.000000,1\n").read()
    assert {reason.value for reason in outcome.rejects_by_reason} == {"line_too_long"}
