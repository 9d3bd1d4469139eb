from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disarray.errors import DurationError
from disarray.model.duration import LONGEST, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("15 min", 900_000_000),
        ("1 h", 3_600_000_000),
        ("40 d", 40 * 86_400_000_000),
        ("1 h 30 min", 5_400_000_000),
        ("1.5h", 5_400_000_000),
        ("0 s", 0),
        ("250 ms", 250_000),
        ("7 µs", 7),
        ("2 weeks", 14 * 86_400_000_000),
        (" 1 hour ", 3_600_000_000),
    ],
)
def test_common_spellings_give_exact_microseconds(text: str, microseconds: int) -> None:
    assert parse_duration(text) == microseconds


@pytest.mark.parametrize(
    "text",
    ["", "   ", "15", "min", "-1 h", "1 month", "1 y", "1e3 s", "0.0000001 s", "1 h x", "nan s", "٣ s"],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(DurationError):
        parse_duration(text)


def test_an_absurdly_long_duration_is_refused() -> None:
    with pytest.raises(DurationError, match=r"1,000 years"):
        parse_duration("999999999999999999 w")


def test_a_negative_duration_has_no_text() -> None:
    with pytest.raises(DurationError, match="negative"):
        format_duration(-1)


@given(st.integers(min_value=0, max_value=LONGEST))
def test_the_canonical_text_gives_the_same_duration_back(microseconds: int) -> None:
    assert parse_duration(format_duration(microseconds)) == microseconds


@given(st.text(max_size=20))
def test_any_text_is_a_duration_or_a_clear_refusal(text: str) -> None:
    with suppress(DurationError):
        assert 0 <= parse_duration(text) <= LONGEST
