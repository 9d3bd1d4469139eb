from __future__ import annotations

import math
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from disarray.kernels.parsing.numbers import NumberSyntax
from disarray.kernels.parsing.rejects import RejectReason, RowRejected
from disarray.model.description.format import ColumnType
from tests.kernels.conftest import column, parse, spec_of

PLAIN = NumberSyntax()
digits = st.text("0123456789", min_size=1, max_size=40)
decimal_texts = st.builds(
    lambda sign, whole, fraction, exponent: f"{sign}{whole}.{fraction}{exponent}",
    st.sampled_from(["", "-", "+"]),
    digits,
    digits,
    st.one_of(st.just(""), st.integers(-340, 310).map(lambda power: f"e{power}")),
)
hostile_texts = st.one_of(
    decimal_texts,
    st.floats(allow_nan=True).map(repr),
    st.text("0123456789.,eE+-_xX infaNty\t٣", max_size=12),
    st.sampled_from(
        ["1e999", "-1e999", "nan(1)", "0x10", "1_000", "9" * 400, "-0", "1e-400", ".", "5.", ".5"]
    ),
)


def bits(value: float | None) -> bytes | None:
    return None if value is None else struct.pack("<d", value)


def exactly(text: str, syntax: NumberSyntax = PLAIN) -> float | None:
    try:
        return syntax.exact_float(text)
    except RowRejected:
        return None


@given(st.lists(decimal_texts, min_size=1, max_size=20))
@example(["9007199254740993.0", "2.2250738585072011e-308", "1.7976931348623158e308", "0.1", "5e-324"])
def test_a_column_of_decimals_has_the_bits_that_correct_rounding_gives(texts: list[str]) -> None:
    column_way = PLAIN.column_of_floats(pa.array(texts)).to_pylist()
    for text, value in zip(texts, column_way, strict=True):
        assert value == float(Decimal(text)) or abs(Decimal(text)) > Decimal("1.79e308")
        assert bits(value + 0.0) == bits(exactly(text))


@given(st.lists(hostile_texts, min_size=1, max_size=20))
def test_what_the_column_way_accepts_the_exact_way_accepts_with_the_same_bits(texts: list[str]) -> None:
    for text, value in zip(texts, PLAIN.column_of_floats(pa.array(texts)).to_pylist(), strict=True):
        if value is not None and math.isfinite(value):
            assert bits(value + 0.0) == bits(exactly(text))
    for text, value in zip(texts, PLAIN.column_of_ints(pa.array(texts)).to_pylist(), strict=True):
        if value is not None:
            assert value == PLAIN.exact_int(text)


@pytest.mark.parametrize("text", ["1_000", "٣", "0x10", "1d5", "", ".", "e5", "1e", "--1", "1 2", "1,5", "½"])
def test_what_is_no_decimal_number_is_refused(text: str) -> None:
    with pytest.raises(RowRejected) as caught:
        PLAIN.exact_float(text)
    assert caught.value.reason is RejectReason.BAD_NUMBER


@pytest.mark.parametrize("text", ["inf", "-Infinity", "NaN", "nan(7)", "1e999", "9" * 400])
def test_what_is_not_finite_is_told_apart_from_what_is_no_number(text: str) -> None:
    assert not math.isfinite(PLAIN.exact_float(text))


def test_minus_zero_is_zero() -> None:
    assert bits(PLAIN.exact_float("-0.0")) == bits(0.0)


@pytest.mark.parametrize(
    ("text", "value"),
    [("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63)), ("+007", 7), (" 5\t", 5)],
)
def test_integers_stay_integers(text: str, value: int) -> None:
    assert PLAIN.exact_int(text) == value


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "9" * 5000])
def test_an_integer_that_does_not_fit_is_an_overflow(text: str) -> None:
    with pytest.raises(RowRejected) as caught:
        PLAIN.exact_int(text)
    assert caught.value.reason is RejectReason.INTEGER_OVERFLOW


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.234.567,5", 1234567.5),
        ("0,25", 0.25),
        ("1234,5", 1234.5),
        ("12.34,5", None),
        ("1,2,3", None),
        ("1.5", None),
    ],
)
def test_decimal_comma_and_grouping_are_taken_by_the_rule(text: str, value: float | None) -> None:
    german = NumberSyntax(decimal=",", thousands=".")
    assert exactly(text, german) == value
    assert german.column_of_floats(pa.array([text])).to_pylist() == [value]


@settings(max_examples=50)
@given(st.lists(hostile_texts.filter(lambda text: not set(text) & set(",\n\r")), min_size=1, max_size=10))
def test_a_row_reads_the_same_whatever_rows_stand_beside_it(texts: list[str]) -> None:
    """Arrow's own conversion while parsing, the text columns and the exact way must agree row by row."""
    spec = spec_of(column("value"), column("count", ColumnType.INT64))
    lines = [f"2024-01-01T00:00:{at:02d},{text},{text}" for at, text in enumerate(texts)]

    def read(chosen: list[str]) -> list[tuple[object, object]]:
        table, _ = parse(("time,value,count\n" + "".join(f"{line}\n" for line in chosen)).encode(), spec)
        return [(bits(row["value"]), row["count"]) for row in table.to_pylist()]

    assert read(lines) == [reading for line in lines for reading in read([line])]
