from __future__ import annotations

import pytest

from disarray.errors import ConfigError
from disarray.formats.sniff import decode_head, sniff


def test_a_semicolon_file_with_decimal_commas_is_not_taken_for_commas() -> None:
    found = sniff(
        b"sep=;\r\nDevice 7\r\n\r\nstamp;power\r\n01.02.2024 10:00;1,5\r\n01.02.2024 10:01;2,25\r\n"
    )
    assert found is not None
    assert (found.delimiter, found.decimal, found.header_line) == (";", ",", 4)
    assert found.rows[1] == ("01.02.2024 10:01", "2,25")


def test_commas_in_quotes_make_no_columns() -> None:
    found = sniff(b'a,b\n1,"x, y, z"\n2,"u, v, w"\n')
    assert found is not None
    assert found.rows[0] == ("1", "x, y, z")


def test_a_line_of_units_is_no_reading() -> None:
    found = sniff(b"t\tU\n[s]\t[V]\n1\t2\n2\t3\n")
    assert found is not None
    assert found.units_row
    assert found.rows[0] == ("1", "2")


def test_a_file_without_header_gets_numbered_columns() -> None:
    found = sniff(b"2024-01-01,5\n2024-01-02,6\n")
    assert found is not None
    assert found.header_line is None
    assert found.header == ("column_1", "column_2")


def test_a_preamble_of_the_same_width_is_not_the_header() -> None:
    found = sniff(b";SN: 7\n;77\n;Counter\nstamp;kWh\n01.02.2024 10:00;1,5\n01.02.2024 10:10;2,5\n")
    assert found is not None
    assert (found.header_line, found.header) == (4, ("stamp", "kWh"))


def test_a_broken_line_among_the_readings_does_not_hide_the_header() -> None:
    found = sniff(b"t,x\n1,2\n3,4\nbroken\n5,6\n7,8\n9,10\n11,12\n")
    assert found is not None
    assert found.header_line == 1
    assert len(found.rows) == 6


def test_a_header_alone_names_columns_without_rows() -> None:
    found = sniff(b"a,b\nc,d\n")
    assert found is not None
    assert found.rows == ()


def test_plain_prose_is_no_table() -> None:
    assert sniff(b"Dear reader\nthis is a letter\n") is None


def test_special_signs_in_an_old_encoding_add_a_fallback() -> None:
    encodings, lines = decode_head("Temperatura [°C]\n".encode("iso-8859-1"))
    assert encodings == ("utf-8", "windows-1252")
    assert lines[0] == "Temperatura [°C]"


@pytest.mark.parametrize("head", ["a,b\n1,2\n".encode("utf-16"), b"\0\1\2\3" * 50])
def test_utf16_and_binary_are_refused_with_advice(head: bytes) -> None:
    with pytest.raises(ConfigError, match="export it again as UTF-8"):
        decode_head(head)


def test_half_a_last_line_is_left_out() -> None:
    found = sniff(b"a,b\n1,2\n3,4\n5")
    assert found is not None
    assert len(found.rows) == 2
