"""What every file said, line by line, against what is stored: lost, duplicated, unexpected."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa


class Said(NamedTuple):
    """One reading, as a line says it."""

    subject: str
    at_us: int
    part: int
    work_order: str
    width: float

    @property
    def is_in_spec(self) -> bool:
        """What the metric of the demo counts."""
        return 9.9 < self.width < 10.1


@dataclass(frozen=True)
class Balance:
    """The sums of the comparison, with a few of each kind to look at."""

    readings: int
    lost: int
    duplicated: int
    unexpected: int
    wrong_totals: int
    samples: tuple[str, ...] = ()

    @property
    def is_even(self) -> bool:
        """Whether all is there, once, and nothing else."""
        return not (self.lost or self.duplicated or self.unexpected or self.wrong_totals)


def said_by(name: str, text: str) -> Iterator[Said]:
    """The readings of a file that has a line break behind each."""
    subject = name.partition("/")[0]
    for line in text.splitlines()[1:]:
        at, part, work_order, width = line.split(",")
        moment = datetime.fromisoformat(at)
        yield Said(subject, int(moment.timestamp()) * 1_000_000, int(part), work_order, float(width))


def stored_in(table: pa.Table) -> Iterator[tuple[Said, int]]:
    """The readings of an export with the running total of parts in spec."""
    columns = ("subject_key", "event_time", "part", "work_order", "width", "in_spec_total")
    event_us = table.column("event_time").cast("int64").to_pylist()
    others = {name: table.column(name).to_pylist() for name in columns if name != "event_time"}
    for subject, at_us, part, order, width, total in zip(
        others["subject_key"],
        event_us,
        others["part"],
        others["work_order"],
        others["width"],
        others["in_spec_total"],
        strict=True,
    ):
        yield Said(subject, at_us, part, order, width), total


def compare(accepted: Mapping[str, str], stored: Iterable[tuple[Said, int]]) -> Balance:
    """Texts by name that count, against what can be read back; copies of a reading count once."""
    expected = {said for name, text in accepted.items() for said in said_by(name, text)}
    found: Counter[Said] = Counter()
    wrong: list[str] = []
    totals: Counter[str] = Counter()
    for said, total in stored:
        found[said] += 1
        totals[said.subject] += said.is_in_spec
        if total != totals[said.subject]:
            wrong.append(f"total {total} instead of {totals[said.subject]} at {said}")
    lost = expected - found.keys()
    unexpected = found.keys() - expected
    duplicated = [said for said, count in found.items() if count > 1]
    return Balance(
        readings=len(expected),
        lost=len(lost),
        duplicated=len(duplicated),
        unexpected=len(unexpected),
        wrong_totals=len(wrong),
        samples=(
            *(f"lost {said}" for said in sorted(lost)[:5]),
            *(f"duplicated {said}" for said in sorted(duplicated)[:5]),
            *(f"unexpected {said}" for said in sorted(unexpected)[:5]),
            *wrong[:5],
        ),
    )
