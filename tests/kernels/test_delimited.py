from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disarray.errors import UnreadableFileError
from disarray.kernels.parsing.rejects import RejectReason
from disarray.model.description.format import (
    Alternative,
    ColumnType,
    EventTime,
    Format,
    Header,
    LayoutKind,
    Nonfinite,
    Origin,
    Preamble,
    PreambleField,
    QuoteEscape,
    ShortRows,
    Source,
    StartStamp,
    TimeLayout,
)
from tests.kernels.conftest import column, parse, spec_of

START = 1_704_067_200_000_000  # 2024-01-01
TEXT = column("text", ColumnType.STRING)


def rows(data: str | bytes, *columns: Any, **options: Any) -> list[dict[str, Any]]:
    raw = data.encode() if isinstance(data, str) else data
    table, _ = parse(raw, spec_of(*columns, **options))
    return [
        {name: value for name, value in row.items() if name != "_position"}
        | {"_event_us": row["_event_us"] - START}
        for row in table.to_pylist()
    ]


def values(data: str | bytes, *columns: Any, **options: Any) -> list[Any]:
    last = (columns or (column("value"),))[-1].name
    return [row[last] for row in rows(data, *columns, **options)]


def reasons(data: str | bytes, *columns: Any, **options: Any) -> list[tuple[int, str]]:
    raw = data.encode() if isinstance(data, str) else data
    _, lines = parse(raw, spec_of(*columns, **options))
    return [(reject.line, reject.reason.value) for reject in lines.log.listed]


def test_a_plain_file_gives_its_readings_with_their_byte_positions() -> None:
    table, _ = parse(b"time,value\n2024-01-01,1.5\n2024-01-02,-2\n", spec_of())
    assert table.to_pylist() == [
        {"_event_us": START, "_position": 11, "value": 1.5},
        {"_event_us": START + 86_400_000_000, "_position": 26, "value": -2.0},
    ]


def test_columns_are_found_by_name_and_unknown_ones_ignored() -> None:
    assert values("x,value,time\njunk,1,2024-01-01\n") == [1.0]


def test_a_column_may_come_under_another_header_in_another_unit() -> None:
    amps = column("amps", alternatives=(Alternative(source=Source(("mA",)), scale=0.001),))
    assert values("time,mA\n2024-01-01,250\n", amps) == [0.25]


def test_an_optional_column_that_is_missing_is_null_and_a_required_one_fails_the_file() -> None:
    assert values("time\n2024-01-01\n", column("value", required=False)) == [None]
    with pytest.raises(UnreadableFileError, match="no column value"):
        values("time\n2024-01-01\n")


def test_preamble_by_count_with_fields_units_row_and_byte_order_mark() -> None:
    fmt = Format(
        name="lab",
        delimiter=";",
        decimal=",",
        preamble=Preamble(lines=2, fields=(PreambleField("serial", r"SN: (\d+)"),)),
        header=Header(units_row=True),
    )
    serial = column("serial", ColumnType.INT64, origin=Origin.PREAMBLE)
    data = "\ufeffsep=;\r\n;SN: 17 \r\ntime;value\r\n[s];[kWh]\r\n2024-01-01;1,5\r\n"
    assert rows(data, serial, column("value"), fmt=fmt) == [{"_event_us": 0, "serial": 17, "value": 1.5}]


def test_a_units_row_is_no_reading_however_long_it_is() -> None:
    fmt = Format(name="lab", header=Header(units_row=True), max_line_bytes=30)
    for length in (25, 35, 5_000_000):
        data = "time,value\n" + "u" * length + "\n2024-01-01,1\n"
        assert (values(data, fmt=fmt), reasons(data, fmt=fmt)) == ([1.0], [])


def test_the_header_is_found_by_pattern_after_any_preamble() -> None:
    fmt = Format(name="lab", header=Header(pattern="^time,"))
    _, lines = parse(b"hello\n\nworld\ntime,value\n2024-01-01,1\n", spec_of(fmt=fmt))
    assert (lines.counts.preamble, lines.counts.blank, lines.counts.kept) == (3, 1, 1)


def test_a_file_of_another_format_fails_instead_of_being_all_preamble() -> None:
    fmt = Format(name="lab", header=Header(pattern="^Rec#"), preamble=Preamble(max_lines=5))
    with pytest.raises(UnreadableFileError, match="first 5 lines"):
        values("a\n" * 10, fmt=fmt)


def test_cells_are_named_by_position_where_there_is_no_header() -> None:
    fmt = Format(name="bare", header=Header(names=("time", "value")))
    assert values("\ufeff2024-01-01,1\n2024-01-02,2\n", fmt=fmt) == [1.0, 2.0]


def test_a_repeated_header_takes_effect_where_the_format_allows_it() -> None:
    fmt = Format(name="sessions", header=Header(repeats=True))
    data = "time,value\n2024-01-01,1\ntime,value\n2024-01-02,2\nvalue,extra,time\n3,x,2024-01-03\n4,y,2024-01-04\n"
    assert values(data, fmt=fmt) == [1.0, 2.0, 3.0, 4.0]


def test_a_repeated_header_is_a_named_reject_where_the_format_does_not_expect_it() -> None:
    assert reasons("time,value\n2024-01-01,1\ntime,value\n") == [(3, "repeated_header")]


def test_rows_after_a_header_without_the_needed_columns_are_rejected_until_the_next_good_one() -> None:
    fmt = Format(name="sessions", header=Header(pattern="^(time|foo),", repeats=True))
    data = "time,value\n2024-01-01,1\nfoo,bar\n2024-01-02,2\ntime,value\n2024-01-03,3\n"
    assert values(data, fmt=fmt) == [1.0, 3.0]
    assert reasons(data, fmt=fmt) == [(4, "no_header")]


@given(
    st.lists(
        st.sampled_from(["time,value", "value,time", "2024-01-01,1", "2,2024-01-01", "x", ""]), max_size=30
    )
)
def test_headers_in_any_order_read_as_line_by_line(lines: list[str]) -> None:
    fmt = Format(name="sessions", header=Header(repeats=True))
    expected, header = [], "time,value"
    for line in lines:
        if line in ("time,value", "value,time"):
            header = line
        elif line == ("2024-01-01,1" if header == "time,value" else "2,2024-01-01"):
            expected.append(1.0 if header == "time,value" else 2.0)
    assert values("\n".join(["time,value", *lines, ""]), fmt=fmt) == expected


def test_a_new_session_brings_its_own_start_stamp() -> None:
    fmt = Format(
        name="relative",
        preamble=Preamble(fields=(PreambleField("start", "Start: (.*)"),)),
        header=Header(pattern="^seconds,", repeats=True),
    )
    spec = replace(
        spec_of(fmt=fmt),
        event_time=EventTime(
            sources=(Source(("seconds",)),),
            layouts=(TimeLayout(LayoutKind.RELATIVE),),
            start=StartStamp(field="start", layouts=(TimeLayout(LayoutKind.ISO),)),
            zone="UTC",
        ),
    )
    data = b"Start: 2024-01-01\nseconds,value\n1,1\nStart: 2024-01-02\nseconds,value\n1.5,2\n"
    table, _ = parse(data, spec)
    assert [us - START for us in table.column("_event_us").to_pylist()] == [1_000_000, 86_401_500_000]


def test_date_and_time_in_two_cells_are_joined() -> None:
    layouts = (TimeLayout(LayoutKind.STRPTIME, "%d.%m.%Y %H:%M:%S"),)
    data = "date,clock,value\n01.01.2024,00:00:01,1\n 01.01.2024 ,00:00:02,x\n"
    assert rows(data, time=("date", "clock"), layouts=layouts) == [{"_event_us": 1_000_000, "value": 1.0}]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("2024-01-01", "too_few_cells"),
        ("2024-01-01,1,2", "too_many_cells"),
        ("2024-01-01,abc", "bad_number"),
        ("2024-01-01,1e999", "nonfinite"),
        ("2024-01-01,NaN", "nonfinite"),
        ("2024-01-01,1_000", "bad_number"),
        ("2024-01-01,0x10", "bad_number"),
        ("2024-01-01," + "9" * 400, "nonfinite"),
        ("2024-01-01,٣", "bad_number"),
        ("not a time,1", "bad_time"),
        (",1", "missing_time"),
        ("1850-01-01,1", "time_out_of_range"),
        ("2250-01-01,1", "time_out_of_range"),
        ('2024-01-01,"1', "unterminated_quote"),
        ("2024-01-01,1\0", "nul_byte"),
        ("\0\0\0", "nul_byte"),
        ("2024-01-01\r,1", "stray_carriage_return"),
    ],
)
def test_a_bad_line_is_rejected_with_its_reason_and_its_neighbours_stay(line: str, reason: str) -> None:
    data = f"time,value\n2024-01-01,1\n{line}\n2024-01-02,2\n"
    assert reasons(data) == [(3, reason)]
    assert values(data) == [1.0, 2.0]


def test_a_reject_tells_where_it_stands_and_shows_a_harmless_sample() -> None:
    _, lines = parse(b"time,value\n2024-01-01,\x1b[31m\xff\n", spec_of())
    (reject,) = lines.log.listed
    assert (reject.line, reject.offset, reject.reason) == (2, 11, RejectReason.UNDECODABLE)
    assert reject.sample == r"2024-01-01,\x1b[31m\xff"


def test_integers_that_overflow_are_rejected_and_hex_is_no_integer() -> None:
    count = column("count", ColumnType.INT64)
    data = "time,count\n2024-01-01,9223372036854775808\n2024-01-01,0x10\n2024-01-01,1.0\n2024-01-01,7\n"
    assert reasons(data, count) == [(2, "integer_overflow"), (3, "bad_number"), (4, "bad_number")]
    assert values(data, count) == [7]


def test_hex_is_no_integer_even_where_arrow_would_take_it() -> None:
    count = column("count", ColumnType.INT64)
    assert reasons("time,count\n2024-01-01,0x10\n2024-01-01,16\n", count) == [(2, "bad_number")]


def test_minus_zero_is_stored_as_zero_whichever_way_it_is_read() -> None:
    scaled = column("value", scale=-2.0)
    for data in ("time,value\n2024-01-01,-0\n", "time,value\n2024-01-01,-0\n2024-01-01,bad\n"):
        assert str(values(data)[0]) == "0.0"
    assert str(values("time,value\n2024-01-01,0\n", scaled)[0]) == "0.0"


def test_nonfinite_values_become_null_where_the_column_says_so() -> None:
    lenient = column("value", nonfinite=Nonfinite.NULL)
    data = "time,value\n2024-01-01,inf\n2024-01-01,1e999\n2024-01-01,nan(3)\n2024-01-01,1\n"
    assert values(data, lenient) == [None, None, None, 1.0]
    assert values(data + "2024-01-01,bad\n", lenient) == [None, None, None, 1.0]


def test_null_tokens_and_blank_cells_are_null_and_a_column_may_forbid_them() -> None:
    fmt = Format(name="csv", null_tokens=("N/A",))
    data = "time,value\n2024-01-01,N/A\n2024-01-01,\n2024-01-01, N/A \n2024-01-01,1\n"
    assert values(data, fmt=fmt) == [None, None, None, 1.0]
    assert reasons(data, column("value", nullable=False), fmt=fmt) == [
        (2, "missing_value"),
        (3, "missing_value"),
        (4, "missing_value"),
    ]


def test_text_is_kept_to_the_letter_except_for_blanks_around_it() -> None:
    data = "time,text\n2024-01-01, a\u0308 b \n2024-01-01,\u00e4\n"
    assert values(data, TEXT) == ["a\u0308 b", "\u00e4"]
    assert values(data, TEXT, fmt=Format(name="csv", strip=False)) == [" a\u0308 b ", "\u00e4"]


def test_quoted_cells_with_delimiters_take_the_fast_way_and_quoted_line_breaks_are_two_damaged_lines() -> (
    None
):
    data = 'time,text\n2024-01-01,"a,b"\n2024-01-02,"broken\nhere"\n2024-01-03,"c ""d"""\n'
    assert values(data, TEXT) == ["a,b", 'c "d"']
    assert [line for line, _ in reasons(data, TEXT)] == [3, 4]


def test_a_stray_quote_never_swallows_the_lines_after_it() -> None:
    data = 'time,text,more\n2024-01-01,a"b,"c\n2024-01-02,x,y\n2024-01-03,d"e,"f\n'
    assert values(data, TEXT, column("more", ColumnType.STRING)) == ["y"]
    assert reasons(data, TEXT, column("more", ColumnType.STRING)) == [
        (2, "unterminated_quote"),
        (4, "unterminated_quote"),
    ]


def test_backslash_escapes_comments_booleans_and_timestamps_are_read_as_described() -> None:
    fmt = Format(
        name="csv",
        quote_escape=QuoteEscape.BACKSLASH,
        comment="#",
        true_tokens=("on",),
        false_tokens=("off",),
    )
    columns = (
        TEXT,
        column("on", ColumnType.BOOL),
        column("at", ColumnType.TIMESTAMP, layouts=(TimeLayout(LayoutKind.ISO),)),
    )
    data = (
        '# hello\ntime,text,on,at\n#2024-01-01,x,on,\n2024-01-01,"\\"q\\"",on,2024-01-02\n2024-01-01,p,off,\n'
    )
    found = rows(data, *columns, fmt=fmt)
    assert [(row["text"], row["on"], row["at"] and row["at"].isoformat()) for row in found] == [
        ('"q"', True, "2024-01-02T00:00:00+00:00"),
        ("p", False, None),
    ]


def test_short_rows_and_trailing_delimiters_are_taken_where_described() -> None:
    columns = (column("value"), column("more"))
    short = Format(name="csv", short_rows=ShortRows.NULL)
    assert values("time,value,more\n2024-01-01,1\n2024-01-01,1,2\n", *columns, fmt=short) == [None, 2.0]
    trailing = Format(name="csv", trailing_delimiter=True)
    data = "time,value,\n2024-01-01,1,\n2024-01-01,2\n2024-01-01,3,x\n"
    assert values(data, fmt=trailing) == [1.0, 2.0]
    assert reasons(data, fmt=trailing) == [(4, "too_many_cells")]


def test_each_line_is_decoded_by_the_first_encoding_that_takes_it_whole() -> None:
    fmt = Format(name="csv", encodings=("utf-8", "windows-1252"))
    data = (
        "time,text\n2024-01-01,é\n".encode() + "2024-01-02,é\n".encode("windows-1252") + b"2024-01-03,\x81\n"
    )
    assert values(data, TEXT, fmt=fmt) == ["é", "é"]
    assert reasons(data, TEXT, fmt=fmt) == [(4, "undecodable")]
    latin = Format(name="csv", encodings=("iso-8859-1",))
    assert values("time,text\n2024-01-01,°\n".encode("iso-8859-1"), TEXT, fmt=latin) == ["°"]


def test_the_channel_is_the_text_of_its_column() -> None:
    data = "time,unit,value\n2024-01-01,7,1\n2024-01-01,,2\n"
    found = rows(data, column("unit", ColumnType.INT64), column("value"), channel="unit")
    assert [row["_channel"] for row in found] == ["7", ""]


cell_texts = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\r\n", exclude_categories=["Cs"]), max_size=8
)
tables = st.lists(
    st.tuples(
        st.floats(allow_nan=False, allow_infinity=False),
        st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        cell_texts,
        st.booleans(),
    ),
    max_size=30,
)


@given(tables, st.sampled_from([("\t", "."), (";", ","), (",", ".")]), st.sampled_from(["\n", "\r\n"]))
def test_any_table_rendered_and_read_back_is_equal(
    table: list[Any], marks: tuple[str, str], ending: str
) -> None:
    delimiter, decimal = marks
    fmt = Format(name="csv", delimiter=delimiter, decimal=decimal, strip=False)
    columns = (column("a"), column("b", ColumnType.INT64), TEXT, column("c", ColumnType.BOOL))
    lines = [delimiter.join(["time", "a", "b", "text", "c"])]
    for number, whole, text, flag in table:
        quoted = '"' + text.replace('"', '""') + '"'
        cells = [
            "2024-01-01",
            repr(number).replace(".", decimal),
            "" if whole is None else str(whole),
            quoted,
        ]
        lines.append(delimiter.join([*cells, "true" if flag else "false"]))
    found = rows("".join(line + ending for line in lines), *columns, fmt=fmt)
    expected = [(number + 0.0, whole, text or None, flag) for number, whole, text, flag in table]
    assert [(row["a"], row["b"], row["text"], row["c"]) for row in found] == expected


@given(st.data())
def test_random_damage_never_crashes_and_never_loses_count(data: st.DataObject) -> None:
    good = b"time,value,text\r\n" + b"".join(
        b'2024-01-01T00:00:%02d,%d.5,"x, y"\r\n' % (at, at) for at in range(20)
    )
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        how = data.draw(st.sampled_from(["set", "insert", "delete"]))
        byte = data.draw(st.sampled_from(list(b'\0\r\n",\xff\xc3\x9f0x-;\x1a')))
        if how == "set":
            damaged[at] = byte
        elif how == "insert":
            damaged.insert(at, byte)
        elif len(damaged) > 1:
            del damaged[at]
    # Damage to the header itself fails the file, and that too is an answer; parse checks the counts.
    with suppress(UnreadableFileError):
        parse(bytes(damaged), spec_of(column("value"), TEXT))
