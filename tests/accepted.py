"""What a plant has accepted of each file, kept beside it by a reader who follows the rules line by line."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from disarray.control.files import Reason
from disarray.model.description.conflict_rule import ConflictRule
from disarray.model.description.dataset import OnShrink
from disarray.model.segments import microseconds_of
from tests.kernels.scan_reference import Row
from tests.oracle import Said
from tests.reading_lines import HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from disarray.model.description.dataset import Dataset

# A number that is cut off may be another number, but never one that parsers read differently.
_LAST_CELL = re.compile(r"(|-?\d+(\.\d+)?(e-?\d+)?)")


class State(StrEnum):
    """What became of a reading."""

    ACTIVE = "active"
    PARKED = "parked"
    REJECTED = "rejected"


@dataclass
class Reading:
    """One line of one generation of a file."""

    row: Row
    state: State


def parse(uri: str, text: str, *, takes_tail: bool) -> Iterator[Row]:
    """The readings of a text; lines that are no readings are left out."""
    position = 0
    for number, line in enumerate(text.splitlines(keepends=True)):
        cells = line.rstrip("\n").split(",")
        if number and (line.endswith("\n") or takes_tail) and len(cells) == 5:
            with suppress(ValueError):
                yield _row(uri, position, cells)
        position += len(line)


def _row(uri: str, position: int, cells: list[str]) -> Row:
    time, sensor, part, work_order, volts = cells
    values = {
        "sensor": sensor,
        "part": int(part) if part else None,
        "work_order": work_order or None,
        "volts": float(volts) + 0.0 if volts else None,
    }
    return Row(microseconds_of(datetime.fromisoformat(time)), uri, position, 0, sensor, values)


@dataclass
class Source:
    """One file: what is on disk, what was taken of it, and what each of its readings counts for."""

    path: Path
    dataset: Dataset
    subject: str
    text: str = ""
    taken: str | None = None
    tail_is_taken: bool = False
    generation: int = 0
    arrival: int | None = None  # its number in the order of first announcements
    is_blacklisted: bool = False
    waits: bool = False  # a version that says less is parked
    waiting: str = ""  # and what it says
    rejected: str | None = None  # a version that says less, and that nobody wants
    readings: dict[int, dict[int, Reading]] = field(default_factory=dict)  # by generation and position
    withdrawn: dict[int, dict[int, Reading]] = field(
        default_factory=dict
    )  # what counted, waited or was rejected

    @property
    def can_go_quiet(self) -> bool:
        """Whether its last line, taken as it is, can only be read in one way."""
        tail = self.text.rpartition("\n")[2]
        cells = tail.split(",")
        return self.text.startswith(HEADER) and (len(cells) < 5 or bool(_LAST_CELL.fullmatch(cells[-1])))

    @property
    def is_parked(self) -> bool:
        """Whether an operator could decide about it."""
        return bool(self.parts)

    @property
    def parts(self) -> list[str]:
        """What of it waits for a decision; each is one of its own."""
        if self.is_blacklisted:
            return []
        return ["readings"] * bool(self._in(State.PARKED)) + ["version"] * self.waits

    def said(self) -> list[Said]:
        """The readings that count now."""
        return [
            Said(
                replace(each.row, priority=self._precedence),
                self.taken or "" if generation == self.generation else f"{self.path}{generation}",
            )
            for generation, readings in self.readings.items()
            for each in readings.values()
            if each.state is State.ACTIVE
        ]

    @property
    def _precedence(self) -> int:
        return (self.arrival or 0) if self.dataset.conflict.rule is ConflictRule.ARRIVAL else 0

    def remove(self) -> None:
        """Blacklisted: it counts for nothing, and what was decided about it is remembered."""
        self.is_blacklisted = True
        self.readings, self.withdrawn = {}, self.readings

    def reject(self, part: str) -> None:
        """An operator wants none of what is parked."""
        if part == "version":
            self.waits, self.rejected = False, self.waiting
            return
        for reading in self._in(State.PARKED):
            reading.state = State.REJECTED

    def process(
        self, reasons: AbstractSet[Reason], *, releases: AbstractSet[str] = frozenset(), high_us: int | None
    ) -> None:
        """What one pass does with the file, notified or decided about for these reasons."""
        if Reason.ALLOW in reasons:
            self.readings, self.withdrawn = self.withdrawn, {}
        if "readings" in releases:
            # Those that a new version replaces go all the same.
            for reading in self._in(State.PARKED):
                reading.state = State.ACTIVE
        releases_version = "version" in releases
        if reasons <= {Reason.RELEASE} and not releases_version:
            return
        is_again = Reason.REINGEST in reasons or (Reason.ALLOW in reasons and not self._has_readings)
        self._read(
            is_quiet=(Reason.QUIET in reasons or releases_version) and not is_again,
            is_again=is_again,
            replaces=releases_version or self.dataset.on_shrink is OnShrink.REPLACE,
            horizon_us=None if releases_version else high_us,
        )

    @property
    def _has_readings(self) -> bool:
        return any(self.readings.values())

    def _read(self, *, is_quiet: bool, is_again: bool, replaces: bool, horizon_us: int | None) -> None:
        text, taken = self.text, self.taken
        takes_tail = is_quiet or (self.tail_is_taken and taken is not None and len(taken) == len(text))
        rows = list(parse(self._uri(self.generation), text, takes_tail=takes_tail))
        seam = 0
        if taken is not None and not is_again:
            if text.startswith(taken):
                has_waited = is_quiet and not self.tail_is_taken and not taken.endswith("\n") and taken
                if text == taken and not has_waited:
                    self.waits = False
                    return
                seam = taken.rfind("\n") + 1
            else:
                verdict = self._judge(rows)
                if verdict == "less" and not replaces:
                    self.waits, self.waiting = text != self.rejected, text
                    return
                if verdict == "later":
                    self.generation += 1
                    rows = list(parse(self._uri(self.generation), text, takes_tail=takes_tail))
        self.waits = False
        self.taken, self.tail_is_taken = text, takes_tail and not text.endswith("\n")
        own = self.readings.setdefault(self.generation, {})
        gone = [position for position in own if position >= seam]
        replaced = {self._segment(own[at].row) for at in gone if own[at].state is State.ACTIVE}
        for position in gone:
            del own[position]
        for row in rows:
            if row.position >= seam:
                segment = self._segment(row)
                too_late = horizon_us is not None and segment < horizon_us and segment not in replaced
                own[row.position] = Reading(row, State.PARKED if too_late else State.ACTIVE)

    def _judge(self, rows: list[Row]) -> str:
        """Whether another text in the place of the one that was taken says as much, less, or something later."""
        assert self.taken is not None
        before = list(parse("", self.taken, takes_tail=self.tail_is_taken))
        if not before:
            return "as much"
        if not rows:
            return "less"
        old = [row.event_us for row in before]
        new = [row.event_us for row in rows]
        if min(new) > max(old):
            return "later"
        covers = min(new) <= min(old) and max(new) >= max(old) and len(new) >= len(old)
        return "as much" if covers else "less"

    def _in(self, state: State) -> list[Reading]:
        return [each for own in self.readings.values() for each in own.values() if each.state is state]

    def _uri(self, generation: int) -> str:
        return f"{self.path}\0{generation:08d}"

    def _segment(self, row: Row) -> int:
        return row.event_us // self.dataset.segment_length_us * self.dataset.segment_length_us
