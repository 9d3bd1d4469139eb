"""What a look over parsed readings shows: span, rhythm, repeats, and the key and segment they suggest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from disarray.model.duration import DAY, HOUR, MINUTE, SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# 10 k to 250 k readings a segment: small enough to scan again for one late file, large enough to be few.
FEWEST, MOST, BEST = 10_000, 250_000, 50_000
LADDER = (
    SECOND * 10,
    MINUTE,
    5 * MINUTE,
    15 * MINUTE,
    HOUR,
    6 * HOUR,
    DAY,
    7 * DAY,
    30 * DAY,
    90 * DAY,
    365 * DAY,
)
_FEWEST_STEPS = 20
# What people call the thing that is measured; a column of such a name that has a few values names subjects.
_SUBJECT_WORDS = ("tool", "machine", "equipment", "asset", "station", "instrument", "subject")
_MOST_SUBJECTS = 1_000
_SMALL = 1_000_000
_SHOWN_SUBJECTS = 5
_RECORD_NAMES = ("rec", "record", "record_id", "datapoint", "data_point", "index", "id", "point", "dataset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Figures about readings; times in µs, `key` None for all columns, `channel` None for a single series."""

    readings: int
    first_us: int | None
    last_us: int | None
    interval_us: int | None
    repeated_stamps: int
    out_of_order: int
    key: tuple[str, ...] | None
    channel: str | None
    segment_us: int
    subject: str | None = None  # the column that names a subject in each line; None: the file is about one
    subjects: tuple[str, ...] = ()  # the first of its values

    @property
    def per_segment(self) -> int:
        """About how many readings a segment of the suggested length holds."""
        if self.first_us is None or self.last_us is None or self.last_us == self.first_us:
            return self.readings
        return round(self.readings * self.segment_us / (self.last_us - self.first_us))


def survey(
    event_us: Sequence[int], columns: Mapping[str, Sequence[object]], *, may_be_split: bool = True
) -> Survey:
    """Look at readings in file order; `columns` are those that can be a key: whole numbers and text.

    Where it is known what the file is about, it is not looked for in its lines.
    """
    stamps = Counter(event_us)
    distinct = sorted(stamps)
    steps = [later - earlier for earlier, later in pairwise(distinct)]
    subject = _subject(columns) if may_be_split else None
    channel = _channel(event_us, stamps, columns)
    if channel == subject:
        channel = None
    rate_span = distinct[-1] - distinct[0] if len(distinct) > 1 else 0
    return Survey(
        readings=len(event_us),
        first_us=distinct[0] if distinct else None,
        last_us=distinct[-1] if distinct else None,
        interval_us=int(median(steps)) if steps else None,
        repeated_stamps=len(event_us) - len(distinct),
        out_of_order=sum(1 for earlier, later in pairwise(event_us) if later < earlier),
        key=_key(
            event_us,
            columns,
            always=[columns[name] for name in (subject, channel) if name is not None],
            is_regular=_is_regular(steps),
        ),
        channel=channel,
        segment_us=suggest_segment(len(event_us), rate_span),
        subject=subject,
        subjects=() if subject is None else _texts(columns[subject])[:_SHOWN_SUBJECTS],
    )


def suggest_segment(readings: int, span_us: int) -> int:
    """The length of the ladder that comes nearest to a good number of readings a segment."""
    if readings < 2 or span_us <= 0:
        return DAY
    per_us = readings / span_us
    fitting = [length for length in LADDER if FEWEST <= length * per_us <= MOST]
    if not fitting:
        return LADDER[-1] if LADDER[-1] * per_us < FEWEST else LADDER[0]
    return min(fitting, key=lambda length: max(length * per_us / BEST, BEST / (length * per_us)))


def _subject(columns: Mapping[str, Sequence[object]]) -> str | None:
    """A column that is called like a thing and names a few of them, each in several lines."""
    for name in sorted(columns, key=lambda each: next(iter(_subject_words_in(each)), len(_SUBJECT_WORDS))):
        values = columns[name]
        kinds = set(values)
        if (
            _subject_words_in(name)
            and 1 < len(kinds) <= _MOST_SUBJECTS
            and None not in kinds
            and len(values) >= 2 * len(kinds)
            and all(isinstance(value, str) or 0 <= int(str(value)) < _SMALL for value in kinds)
        ):
            return name
    return None


def _subject_words_in(name: str) -> list[int]:
    words = name.lower().split("_")
    return [place for place, word in enumerate(_SUBJECT_WORDS) if word in words]


def _texts(values: Sequence[object]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(value).strip() for value in values))


def _channel(
    event_us: Sequence[int], stamps: Counter[int], columns: Mapping[str, Sequence[object]]
) -> str | None:
    """A column that tells apart readings of one stamp, where most stamps come once for each of its values."""
    repeats = len(event_us) / max(len(stamps), 1)
    if repeats < 1.8:
        return None
    for name in sorted(columns, key=lambda each: not isinstance(next(iter(columns[each]), None), str)):
        values = columns[name]
        kinds = len(set(values))
        even = 1 < kinds <= 10_000 and 0.5 <= repeats / kinds <= 1.0
        if even and None not in values and _is_unique(event_us, [values]):
            return name
    return None


def _key(
    event_us: Sequence[int],
    columns: Mapping[str, Sequence[object]],
    *,
    always: Sequence[Sequence[object]],
    is_regular: bool,
) -> tuple[str, ...] | None:
    """A column that counts readings; else the stamp alone, but only of a logger that keeps its rhythm.

    Stamps that merely happen to differ in this file prove nothing: as a key they would drop readings of another.
    """
    counting = [name for name in _RECORD_NAMES if name in columns and _is_distinct(columns[name])]
    for name in counting:
        if _is_unique(event_us, [*always, columns[name]]):
            return (name,)
    if _is_unique(event_us, always):
        return () if is_regular else None
    numbered = [name for name in columns if all(isinstance(value, int) for value in columns[name])]
    for name in sorted(numbered):
        if _is_unique(event_us, [*always, columns[name]]):
            return (name,)
    return None


def _is_distinct(values: Sequence[object]) -> bool:
    return None not in values and len(set(values)) >= 0.99 * len(values)


def _is_regular(steps: Sequence[int]) -> bool:
    """Whether nine of ten steps are as long as the middle one, to a hundredth."""
    if len(steps) < _FEWEST_STEPS:
        return False
    usual = median(steps)
    return sum(1 for step in steps if abs(step - usual) <= usual * 0.01) >= 0.9 * len(steps)


def _is_unique(event_us: Sequence[int], others: Sequence[Sequence[object]]) -> bool:
    return len(set(zip(event_us, *others, strict=True))) == len(event_us)
