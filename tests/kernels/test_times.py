from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disarray.kernels.parsing.columns import stamps_of
from disarray.kernels.parsing.layouts import exact_stamp
from disarray.kernels.parsing.numbers import NumberSyntax
from disarray.kernels.parsing.rejects import RowRejected
from disarray.kernels.parsing.times import parse_stamp, parse_stamps
from disarray.model.description.format import LayoutKind, TimeLayout, TimeUnit
from tests.kernels.conftest import ISO, parse, spec_of

NUMBERS = NumberSyntax()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PATTERNS = (
    "%m/%d/%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%m/%d/%Y %I:%M:%S %p",
    "%d-%b-%Y %H:%M:%S.%f",
    "%Y%m%d%H%M%S",
    "%y-%m-%d %H:%M:%S",
    "%B %d %Y %I %p",
    "%Y-%m-%dT%H:%M:%S%z",
)
moments = st.integers(0, 3_124_223_999_999_999).map(lambda us: EPOCH + timedelta(microseconds=us))
damaged = st.text("0123456789/:-.T Z+APMapm", max_size=22)


def textual(pattern: str) -> TimeLayout:
    return TimeLayout(LayoutKind.STRPTIME, pattern)


def us_of(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


@given(st.sampled_from(PATTERNS), st.lists(moments, min_size=1, max_size=20))
def test_a_column_of_stamps_means_what_strptime_says(pattern: str, chosen: list[datetime]) -> None:
    texts = [moment.strftime(pattern) for moment in chosen]
    column = parse_stamps(pa.array(texts), [textual(pattern)], numbers=NUMBERS, start_us=None)
    expected = [datetime.strptime(text, pattern) for text in texts]  # noqa: DTZ007
    assert column.ok.all()
    assert column.us.tolist() == [us_of(stamp.replace(tzinfo=UTC)) for stamp in expected]
    assert column.is_local.tolist() == ["%z" not in pattern] * len(texts)


@given(
    st.lists(
        st.one_of(damaged, moments.map(lambda moment: moment.strftime("%m/%d/%Y %H:%M:%S"))), max_size=20
    ),
    st.lists(st.sampled_from([ISO, *map(textual, PATTERNS)]), min_size=1, max_size=3),
)
def test_the_column_way_agrees_with_the_exact_way_on_anything(
    texts: list[str], layouts: list[TimeLayout]
) -> None:
    column = parse_stamps(pa.array(texts, pa.string()), layouts, numbers=NUMBERS, start_us=None)
    for at, text in enumerate(texts):
        stamps = [stamp for layout in layouts if (stamp := exact_stamp(text, layout))]
        assert bool(column.ok[at]) == bool(stamps)
        if stamps:
            assert (int(column.us[at]), bool(column.is_local[at])) == (stamps[0].us, stamps[0].is_local)


@given(
    st.lists(st.one_of(st.text("0123456789-:T .Z+", max_size=30), moments.map(str)), min_size=1, max_size=8)
)
def test_arrow_and_the_exact_way_agree_on_iso_stamps_row_by_row(texts: list[str]) -> None:
    lines = [f"{text},1.0\n" for text in texts]

    def times(chosen: list[str]) -> list[object]:
        table, _ = parse(("time,value\n" + "".join(chosen)).encode(), spec_of())
        return [row["_event_us"] for row in table.to_pylist()]

    assert times(lines) == [stamp for line in lines for stamp in times([line])]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
        ("2024-01-01 05", datetime(2024, 1, 1, 5, tzinfo=UTC)),
        ("2024-01-01T05:06:07.25Z", datetime(2024, 1, 1, 5, 6, 7, 250000, tzinfo=UTC)),
        ("2024-01-01T05:06:07,25", datetime(2024, 1, 1, 5, 6, 7, 250000, tzinfo=UTC)),
        ("2024-01-01T05:06:07.123456789Z", datetime(2024, 1, 1, 5, 6, 7, 123456, tzinfo=UTC)),
        (
            "2024-01-01 05:06-03:30",
            datetime(2024, 1, 1, 5, 6, tzinfo=timezone(-timedelta(hours=3, minutes=30))),
        ),
    ],
)
def test_iso_stamps_are_read_to_the_microsecond(text: str, moment: datetime) -> None:
    assert parse_stamp(text, [ISO], numbers=NUMBERS, start_us=None).us == us_of(moment)


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("2023-02-29", ISO),
        ("2024-01-01 24:00", ISO),
        ("2024-01-01 23:59:60", ISO),
        ("2024-01-01 00:00+24:00", ISO),
        ("31.04.2024 00:00", textual("%d.%m.%Y %H:%M")),
        ("01/01/2024 13:00:00 PM", textual("%m/%d/%Y %I:%M:%S %p")),
        ("01/01/2024 00:00:00 AM", textual("%m/%d/%Y %I:%M:%S %p")),
        ("٠١/01/2024", textual("%d/%m/%Y")),
        ("1e400", TimeLayout(LayoutKind.EPOCH)),
        ("nan", TimeLayout(LayoutKind.EPOCH)),
    ],
)
def test_a_moment_that_no_clock_shows_is_refused(text: str, layout: TimeLayout) -> None:
    with pytest.raises(RowRejected):
        parse_stamp(text, [layout], numbers=NUMBERS, start_us=None)
    assert not parse_stamps(pa.array([text]), [layout], numbers=NUMBERS, start_us=None).ok.any()


@given(st.integers(-2_000_000_000_000_000, 4_000_000_000_000_000), st.sampled_from(list(TimeUnit)))
def test_numeric_stamps_are_exact_to_the_microsecond(us: int, unit: TimeUnit) -> None:
    us = us // 1_000_000 * 1_000_000 if unit in (TimeUnit.MINUTES, TimeUnit.HOURS) else us
    layout = TimeLayout(LayoutKind.EPOCH, unit=unit)
    whole, part = divmod(abs(us), unit.microseconds)
    width = len(str(unit.microseconds)) - 1
    text = f"{'-' if us < 0 else ''}{whole}" + (
        f".{part:0{width}d}" if width and unit.microseconds < 10**7 else ""
    )
    if unit in (TimeUnit.MINUTES, TimeUnit.HOURS):
        us = (-whole if us < 0 else whole) * unit.microseconds
        text = f"{'-' if us < 0 else ''}{whole}"
    assert parse_stamp(text, [layout], numbers=NUMBERS, start_us=None).us == us
    assert parse_stamps(pa.array([text]), [layout], numbers=NUMBERS, start_us=None).us.tolist() == [us]


def test_relative_stamps_count_from_the_start() -> None:
    layout = TimeLayout(LayoutKind.RELATIVE, unit=TimeUnit.SECONDS)
    assert parse_stamps(pa.array(["0", "1.5"]), [layout], numbers=NUMBERS, start_us=100).us.tolist() == [
        100,
        1500100,
    ]


def test_the_first_layout_that_fits_wins_row_by_row() -> None:
    layouts = [textual("%m/%d/%Y"), textual("%d/%m/%Y")]
    column = parse_stamps(pa.array(["02/03/2024", "13/03/2024"]), layouts, numbers=NUMBERS, start_us=None)
    assert column.us.tolist() == [
        us_of(datetime(2024, 2, 3, tzinfo=UTC)),
        us_of(datetime(2024, 3, 13, tzinfo=UTC)),
    ]


@given(
    st.lists(st.one_of(st.none(), st.integers(-(10**9), 10**9)), max_size=12),
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.sampled_from([None, "UTC", "Europe/Berlin"]),
    st.integers(0, 3),
)
def test_stamps_that_come_typed_are_the_same_with_and_without_empty_ones_among_them(
    ticks: list[int | None], unit: str, zone: str | None, skipped: int
) -> None:
    column = pa.array(ticks, pa.timestamp(unit, tz=zone))[skipped:]  # one that does not begin with its buffer
    # With an empty stamp at the end, no shortcut is taken.
    whole = stamps_of(pa.concat_arrays([column, pa.nulls(1, column.type)]))
    stamps = stamps_of(column)
    assert stamps.ok.tolist() == whole.ok[:-1].tolist() == [tick is not None for tick in ticks[skipped:]]
    assert stamps.us.tolist() == whole.us[:-1].tolist()
    assert stamps.is_local.tolist() == [zone is None] * len(column)
    if unit != "ns":
        us = {"s": 1_000_000, "ms": 1_000, "us": 1}[unit]
        assert stamps.us.tolist() == [(tick or 0) * us for tick in ticks[skipped:]]
