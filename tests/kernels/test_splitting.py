"""A file about several subjects, read once: each subject gets what a file of its own would have given it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from disarray.formats.loader import load_datasets
from disarray.kernels.fragments.fragment_writer import MemorySink
from disarray.kernels.reading import splitting
from disarray.kernels.reading.file_reader import read_file
from disarray.kernels.reading.outcome import ReadReason, ReadRequest, ReadStatus
from disarray.kernels.reading.ranges import join_ranges, read_range, split_ranges
from disarray.model.fingerprints import STRIDE_BYTES, Fingerprint
from disarray.model.seam import Change

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from disarray.kernels.reading.outcome import ReadOutcome

BLOCK = """
[[dataset]]
name = "mix"
roots = ["."]
files = ["*.csv"]
format = "csv"
subject = { column = "tool" }
event_time = { from = "time", layouts = ["%Y-%m-%d %H:%M:%S"] }
zone = "Europe/Berlin"
segment = "1 h"
[dataset.columns]
tool = { type = "int64" }
watts = { type = "float64" }
"""
HEADER = "time,tool,watts\n"


def request(folder: Path, text: str, *, block: str = BLOCK, stored: Fingerprint | None = None) -> ReadRequest:
    (folder / "disarray.toml").write_text(block)
    path = folder / "all.csv"
    path.write_text(text)
    [dataset] = load_datasets(folder / "disarray.toml")
    return ReadRequest.for_dataset(
        dataset, str(path), reason=ReadReason.QUIET, now_us=1_900_000_000_000_000, stored=stored
    )


def readings(asked: ReadRequest) -> dict[int, list[tuple[int, int, float]]]:
    """Event time, position and value of the readings of each tool."""
    sink = MemorySink()
    outcome = read_file(asked, sink)
    assert outcome.status is ReadStatus.READ, outcome.message
    found: dict[int, list[tuple[int, int, float]]] = {}
    for table in sink.tables:
        for row in table.to_pylist():
            own = found.setdefault(row["tool"], [])
            own.append((row["_event_us"], row["_position"], row["watts"]))
    return {tool: sorted(rows) for tool, rows in found.items()}


def test_a_repeated_local_hour_is_told_apart_for_each_subject(tmp_path: Path) -> None:
    # Tool 1 writes both hours, and only then comes all that tool 2 says: time runs backwards between them.
    first = [("02:10:00", 1), ("02:50:00", 1), ("02:20:00", 1)]
    second = [("02:15:00", 2), ("02:45:00", 2)]
    text = HEADER + "".join(f"2026-10-25 {clock},{tool},1.0\n" for clock, tool in [*first, *second])
    together = readings(request(tmp_path, text))
    for tool, lines in ((1, first), (2, second)):
        alone = HEADER + "".join(f"2026-10-25 {clock},{tool},1.0\n" for clock, _ in lines)
        assert [us for us, *_ in together[tool]] == [
            us for us, *_ in readings(request(tmp_path, alone))[tool]
        ]


def test_positions_are_those_of_the_file(tmp_path: Path) -> None:
    text = HEADER + "2026-09-01 00:00:00,1,1.0\n2026-09-01 00:00:00,2,2.0\n2026-09-01 00:01:00,1,3.0\n"
    found = readings(request(tmp_path, text))
    assert {
        text.encode()[position:].split(b"\n")[0].split(b",")[1:] == [str(tool).encode(), str(watts).encode()]
        for tool, rows in found.items()
        for _, position, watts in rows
    } == {True}


def test_a_part_alone_says_what_the_split_says_of_it(tmp_path: Path) -> None:
    text = HEADER + "".join(f"2026-09-01 00:{minute:02d}:00,{minute % 3},1.5\n" for minute in range(60))
    asked = request(tmp_path, text)
    assert readings(replace(asked, only_subject="2")) == {2: readings(asked)[2]}
    alone = read_file(replace(asked, only_subject="2"), MemorySink())
    assert alone.fingerprint is not None
    assert alone.fingerprint.counts.kept == alone.fingerprint.counts.seen == 20
    assert alone.parts is None


def test_what_is_remembered_of_parts_survives_being_stored(tmp_path: Path) -> None:
    text = HEADER + "".join(f"2026-10-25 02:{minute:02d}:00,{minute % 3},1.5\n" for minute in range(60))
    outcome = read_file(request(tmp_path, text), MemorySink())
    assert outcome.fingerprint is not None
    assert Fingerprint.from_bytes(outcome.fingerprint.to_bytes()) == outcome.fingerprint
    assert [mark.kept for mark in outcome.fingerprint.parts] == [20, 20, 20]


def test_growth_reads_the_tail_and_names_the_subjects_in_it(tmp_path: Path) -> None:
    first = HEADER + "".join(f"2026-09-01 00:{minute:02d}:00,{minute % 3},1.5\n" for minute in range(30))
    before = read_file(request(tmp_path, first), MemorySink())
    more = "2026-09-01 01:00:00,1,2.5\n2026-09-01 01:01:00,7,2.5\n"
    after = read_file(request(tmp_path, first + more, stored=before.fingerprint), MemorySink())
    assert (after.change, after.seam_position, after.counts.kept) == (Change.GROWN, len(first), 2)
    assert after.parts is not None
    assert {part.subject_key: part.mark.kept for part in after.parts} == {"1": 11, "7": 1}


def test_a_column_of_numbers_without_end_is_refused_as_subject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splitting, "MAX_SUBJECTS_PER_FILE", 10)
    text = HEADER + "".join(f"2026-09-01 00:00:00,{number},1.5\n" for number in range(11))
    outcome = read_file(request(tmp_path, text), MemorySink())
    assert outcome.status is ReadStatus.FAILED
    assert "names more than 10 subjects" in str(outcome.message)


def test_a_big_file_in_ranges_is_split_as_in_one_piece(tmp_path: Path) -> None:
    line = "2026-09-01 00:{:02d}:{:02d},{},1.5" + " " * 400 + "\n"
    lines = [line.format(at // 60 % 60, at % 60, at % 5) for at in range(3 * STRIDE_BYTES // 425)]
    asked = request(tmp_path, HEADER + "".join(lines))
    plan = split_ranges(asked, range_bytes=STRIDE_BYTES)
    assert plan is not None
    joined = join_ranges(asked, plan, [read_range(asked, part, MemorySink()) for part in plan.ranges])
    assert joined is not None
    assert facts(joined) == facts(read_file(asked, MemorySink()))


def facts(outcome: ReadOutcome) -> tuple[object, ...]:
    assert outcome.fingerprint is not None
    assert outcome.parts is not None
    return (
        outcome.fingerprint,
        outcome.counts,
        [(part.mark, sum(fragment.readings for fragment in part.fragments)) for part in outcome.parts],
    )
