"""The files of two cyclers: `python3 generate.py` writes them into inbox/ and later/, the same ones every time."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CALIFORNIA, GERMANY = ZoneInfo("America/Los_Angeles"), ZoneInfo("Europe/Berlin")
UTC = ZoneInfo("UTC")
TEST_BEGIN = datetime(2025, 10, 30, 16, 0, tzinfo=UTC)
MACCOR_HEADER = (
    "Today's Date 11/03/2025  Date of Test:\t10/30/2025\t Filename:\tC:\\Tests\\cell17.070 Procedure: life.000\t"
    "Comment/Barcode: CELL-17\n"
)
MACCOR_COLUMNS = (
    *("Rec#", "Cyc#", "Step", "Test (Sec)", "Step (Sec)", "Amp-hr"),
    *("Watt-hr", "Amps", "Volts", "State", "ES", "DPt Time"),
)


@dataclass(frozen=True)
class Record:
    """What a cycler writes down at one moment."""

    at: datetime
    cycle: int
    step: int
    state: str
    amps: float
    volts: float


def step(
    begin: datetime, minutes: int, *, cycle: int, number: int, state: str, amps: float, every: int = 1
) -> Iterator[Record]:
    """A step at constant current: a record at its begin, every so many minutes, and at its end."""
    noise = random.Random(f"{cycle}/{number}/{begin}")  # noqa: S311 - a cell, not a secret
    for minute in range(0, minutes + 1, every):
        volts = (
            3.6 + (0.5 if amps > 0 else -0.5 if amps < 0 else 0) * minute / minutes + noise.gauss(0, 0.001)
        )
        yield Record(begin + timedelta(minutes=minute), cycle, number, state, amps, round(volts, 4))


def first_cycle() -> list[Record]:
    """Rest, charge, rest, discharge: 2 A for an hour each way, 4 Ah in all."""
    begin = TEST_BEGIN
    hour, rest = timedelta(hours=1), timedelta(minutes=10)
    return [
        *step(begin, 10, cycle=1, number=1, state="R", amps=0.0),
        *step(begin + rest, 60, cycle=1, number=2, state="C", amps=2.0),
        *step(begin + rest + hour, 10, cycle=1, number=3, state="R", amps=0.0),
        *step(begin + rest + hour + rest, 60, cycle=1, number=4, state="D", amps=-2.0),
    ]


def second_cycle() -> list[Record]:
    """The same once more, paused for three hours in the middle of its charge."""
    begin = TEST_BEGIN + timedelta(days=1)
    resumed = begin + timedelta(minutes=30, hours=3)
    return [
        *step(begin, 30, cycle=2, number=2, state="C", amps=2.0),
        *step(resumed, 30, cycle=2, number=2, state="C", amps=2.0),
        *step(resumed + timedelta(minutes=30), 60, cycle=2, number=4, state="D", amps=-2.0),
    ]


def night_of_the_clock_change() -> list[Record]:
    """1 A for four hours, through the night in which 02:00 to 03:00 came twice in Germany."""
    return list(
        step(
            datetime(2025, 10, 25, 23, 0, tzinfo=UTC),
            240,
            cycle=1,
            number=1,
            state="CC DChg",
            amps=-1.0,
            every=10,
        )
    )


def maccor(
    records: Sequence[Record], *, first: int, digits: int = 10, columns: Sequence[str] = MACCOR_COLUMNS
) -> str:
    """The text export; how many digits and which order of columns is a matter of the software's version."""
    lines = [MACCOR_HEADER, "\t".join(columns) + "\n"]
    for number, record in enumerate(records, first):
        seconds = (record.at - TEST_BEGIN).total_seconds()
        cells = {
            "Rec#": f"{number}",
            "Cyc#": f"{record.cycle}",
            "Step": f"{record.step}",
            "Test (Sec)": f"{seconds:.4f}",
            "Step (Sec)": f"{seconds:.4f}",
            "Amp-hr": f"{0.0:.{digits}f}",
            "Watt-hr": f"{0.0:.{digits}f}",
            "Amps": f"{record.amps:.{digits}f}",
            "Volts": f"{record.volts:.{max(4, digits - 2)}f}",
            "State": record.state,
            "ES": "1",
            "DPt Time": f"{record.at.astimezone(CALIFORNIA):%m/%d/%Y %H:%M:%S}",
        }
        lines.append("\t".join(cells[column] for column in columns) + "\n")
    return "".join(lines)


def neware(records: Sequence[Record]) -> str:
    """The record export, in mA as this lab has set it; its last line has no end."""
    lines = ["DataPoint,Cycle Index,Step Index,Step Type,Current(mA),Voltage(V),Date"]
    for number, record in enumerate(records, 1):
        at = record.at.astimezone(GERMANY)
        measured = f"{record.amps * 1000:.1f},{record.volts:.4f}"
        lines.append(
            f"{number},{record.cycle},{record.step},{record.state},{measured},{at:%Y-%m-%d %H:%M:%S}"
        )
    return "\n".join(lines)


def write(name: str, text: str, *, newline: str = "\n") -> None:
    """Put a file where it lands."""
    path = Path(__file__).parent / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="windows-1252", newline=newline)
    print(f"{name}: {len(text.splitlines())} lines")  # noqa: T201 - somebody looks on


def main() -> None:
    """Two files that are there, and two that come later."""
    first, second = first_cycle(), second_cycle()
    write("inbox/maccor/CELL-17_2025-10-31.txt", maccor(second, first=1 + len(first)))
    write("inbox/neware/CELL-42_2025-10-26.csv", neware(night_of_the_clock_change()))
    write("later/CELL-17_2025-10-30.txt", maccor(first, first=1))
    # The same test, exported by the next version of the software.
    newer = ("Rec#", "DPt Time", *(column for column in MACCOR_COLUMNS if column not in ("Rec#", "DPt Time")))
    again = maccor([*first, *second], first=1, digits=4, columns=newer)
    write("later/CELL-17_exported-again.txt", again, newline="\r\n")


if __name__ == "__main__":
    main()
