from __future__ import annotations

import tomllib
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from disarray.errors import ConfigError
from disarray.formats.dataset_text import dataset_block, dataset_table
from disarray.formats.guess import guess
from disarray.formats.infer import column_type, name_and_unit
from disarray.formats.loader import describe_text
from disarray.model.description.dataset_reader import read_datasets
from disarray.model.description.format import ColumnType
from disarray.model.description.spec_table import Problems
from tests.formats.conftest import FIXTURES

if TYPE_CHECKING:
    from disarray.formats.loader import Description

Shipped = dict[str, "Description"]
SAMPLES = sorted(path for path in FIXTURES.iterdir() if not path.name.startswith("."))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_is_known_for_what_it_is(shipped: Shipped, path: Path) -> None:
    found = guess(path.read_bytes(), shipped)
    base = found.format if isinstance(found.format, str) else found.format["like"]
    assert base == path.stem


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_the_proposed_block_loads_without_change(shipped: Shipped, path: Path) -> None:
    found = guess(path.read_bytes(), shipped)
    table = dataset_table(found, path, zone="Europe/Berlin", seen=None)
    block = dataset_block(table)
    assert tomllib.loads(block) == {"dataset": [table]}
    problems = Problems("disarray.toml")
    read_datasets(
        tomllib.loads(block),
        problems=problems,
        descriptions={name: description.table for name, description in shipped.items()},
        folder=PurePosixPath("/project"),
    )
    assert problems.lines == []


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("maccor_ch70/xTESLADIAG_000019_CH70.070", "maccor"),
        ("maccor_ch70/PreDiag_000229_000229_truncated.034", "maccor"),
        ("neware_flat/neware_uio.csv", "neware"),
        ("sunnybeam_pv/23_11/23-11-01.csv", "sunnybeam"),
        ("danfoss_pv/2019-09-26/details.txt", "danfoss"),
        ("danfoss_pv/2019-10-05/summary.txt", "danfoss"),
        ("usgs_quakes/all_month.csv", "csv"),
    ],
)
def test_real_files_are_known_for_what_they_are(
    shipped: Shipped, real_data: Path, path: str, name: str
) -> None:
    with (real_data / path).open("rb") as stream:
        assert guess(stream.read(1 << 18), shipped).format == name


def test_event_time_is_the_first_column_that_is_a_stamp(shipped: Shipped) -> None:
    found = guess(
        b"time,updated,net\n2024-01-01T00:00:00Z,2024-01-01T00:00:09Z,ak\n"
        b"2024-01-02T00:00:00Z,2024-01-02T00:00:09Z,us\n",
        shipped,
    )
    assert found.event_time == {"from": "time", "layouts": ["iso"]}
    assert found.columns["updated"] == {"type": "timestamp", "layouts": "iso"}
    assert not found.local_time
    assert found.checks == ["'updated' is a stamp too; make sure that readings happened at 'time'"]


def test_a_date_beside_a_time_is_joined(shipped: Shipped) -> None:
    found = guess(b"Day;Clock;Power\n31.12.2023;23:59:58;1,5\n01.01.2024;00:00:08;2,5\n", shipped)
    assert found.event_time == {"join": ["Day", "Clock"], "layouts": ["%d.%m.%Y %H:%M:%S"]}
    assert found.columns == {"power": {"from": "Power", "type": "float64"}}
    assert found.local_time


def test_dates_without_a_time_of_day_are_midnight(shipped: Shipped) -> None:
    found = guess(b"day,x\n2024-01-31,1\n2024-02-01,2\n", shipped)
    assert found.event_time == {"from": "day", "layouts": ["%Y-%m-%d"]}


def test_days_that_may_be_months_are_pointed_out(shipped: Shipped) -> None:
    found = guess(b"time,x\n01/02/2024 10:00,1\n03/04/2024 10:00,2\n", shipped)
    assert any("days and months look alike" in check for check in found.checks)


def test_a_day_past_the_twelfth_settles_the_order(shipped: Shipped) -> None:
    found = guess(b"time,x\n01/02/2024 10:00,1\n13/04/2024 10:00,2\n", shipped)
    assert found.event_time["layouts"] == ["%d/%m/%Y %H:%M"]
    assert found.checks == []


def test_one_day_past_the_twelfth_among_many_settles_the_order(shipped: Shipped) -> None:
    lines = [
        "time,x",
        *(f"0{1 + number % 9}/03/2024 10:00,1" for number in range(99)),
        "13/03/2024 10:00,1\n",
    ]
    found = guess("\n".join(lines).encode(), shipped)
    assert found.event_time["layouts"] == ["%d/%m/%Y %H:%M"]


def test_a_few_odd_cells_do_not_make_a_text_of_numbers(shipped: Shipped) -> None:
    lines = ["time,x", *(f"2024-03-01T10:{minute}:00Z,1.5" for minute in range(10, 59))]
    found = guess("\n".join([*lines, "2024-03-01T11:00:00Z,ERR\n"]).encode(), shipped)
    assert found.columns["x"]["type"] == "float64"
    [check] = found.checks
    assert check.startswith(
        "'x' holds numbers but for 1 in the sample, such as 'ERR', whose rows are rejected"
    )


def test_a_format_without_header_line_is_known_by_width_and_stamp(shipped: Shipped) -> None:
    own = describe_text(
        "logger",
        """
        delimiter = ";"
        header = { names = ["when", "level"] }
        event_time = { from = "when", layouts = "%d.%m.%Y %H:%M" }
        columns = { level = "float64" }
        """,
    )
    known = {**shipped, "logger": own}
    assert guess(b"01.02.2024 10:00;1.5\n01.02.2024 10:01;1.6\n", known).format == "logger"
    assert guess(b"2024-02-01 10:00:00;1.5\n2024-02-01 10:01:00;1.6\n", known).format != "logger"
    assert guess(b"01.02.2024 10:00;1.5;x\n01.02.2024 10:01;1.6;x\n", known).format != "logger"


def test_twelve_hour_clocks_are_seen(shipped: Shipped) -> None:
    found = guess(b"time,x\n2024-02-13 1:05:00 PM,1\n2024-02-13 12:05:00 AM,2\n", shipped)
    assert found.event_time["layouts"] == ["%Y-%m-%d %I:%M:%S %p"]


def test_words_for_no_value_become_null_tokens(shipped: Shipped) -> None:
    found = guess(b"time,x\n2024-02-13T10:00:00Z,1.5\n2024-02-13T10:00:01Z,N/A\n", shipped)
    assert found.format == {"like": "csv", "null_tokens": ["N/A"]}
    assert found.columns["x"]["type"] == "float64"


def test_columns_of_one_name_are_pointed_out(shipped: Shipped) -> None:
    found = guess(b"time,x,x\n2024-02-13T10:00:00Z,1,2\n2024-02-13T10:00:01Z,1,2\n", shipped)
    assert any("several columns are headed x" in check for check in found.checks)
    assert list(found.columns) == ["x"]


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"", "empty"),
        (b"\r\n  \r\n", "empty"),
        (b"Dear reader\nhow are you\n", "no delimiter"),
        (b"a,b\n1,2\n3,4\n", "none of the columns a, b looks like a date"),
    ],
)
def test_what_cannot_be_guessed_says_what_to_do(shipped: Shipped, head: bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        guess(head, shipped)


@pytest.mark.parametrize(
    ("header", "name", "unit"),
    [
        ("Voltage (V)", "voltage", "V"),
        ("Energia di oggi [kWh]", "energia_di_oggi", "kWh"),
        ("Ewe/V", "ewe", "V"),
        ("magType", "mag_type", ""),
        ("Größe", "groe", ""),
        ("1st", "c_1st", ""),
        ("case", "case_value", ""),
        ("°", "column", ""),
    ],
)
def test_headers_become_names_and_units(header: str, name: str, unit: str) -> None:
    assert name_and_unit(header, ()) == (name, unit)


def test_names_stay_apart() -> None:
    assert name_and_unit("A (V)", {"a"}) == ("a_2", "V")


@pytest.mark.parametrize(
    ("cells", "type_"),
    [
        (["1", "2", ""], ColumnType.INT64),
        (["1", "2.5"], ColumnType.FLOAT64),
        (["0012", "0013"], ColumnType.STRING),
        (["true", "false"], ColumnType.BOOL),
        (["1", "x"], ColumnType.STRING),
        (["", ""], ColumnType.STRING),
        (["1_000"], ColumnType.STRING),
    ],
)
def test_types_are_the_narrowest_that_hold_every_cell(cells: list[str], type_: ColumnType) -> None:
    assert column_type(cells) is type_


HEADED_BY_DIGITS = b"time;1st probe;2nd probe;25\n" + b"".join(
    b"01.03.2024 10:%02d;1,5;2,5;3\n" % minute for minute in range(30)
)


def test_a_header_name_that_begins_with_a_digit_hides_no_header() -> None:
    found = guess(HEADED_BY_DIGITS, {})
    assert isinstance(found.format, dict)
    assert "header" not in found.format
    assert found.event_time == {"from": "time", "layouts": ["%d.%m.%Y %H:%M"]}
    assert [column["from"] for column in found.columns.values()] == ["1st probe", "2nd probe", "25"]


@pytest.mark.parametrize(
    ("stamp", "layout"),
    [
        ("20240301101{0:03}", "%Y%m%d%H%M%S"),
        ("2024030110{0:02}", "%Y%m%d%H%M"),
        ("20240301T101{0:03}", "%Y%m%dT%H%M%S"),
        ("20240301 101{0:03}", "%Y%m%d %H%M%S"),
    ],
)
def test_compact_stamps_are_times(stamp: str, layout: str) -> None:
    rows = "".join(f"{stamp.format(second)},1\n" for second in range(60))
    found = guess(f"when,value\n{rows}".encode(), {})
    assert found.event_time == {"from": "when", "layouts": [layout]}


def test_a_counter_of_fourteen_digits_is_no_time() -> None:
    rows = "".join(f"2024-03-01T10:15:{second:02},{20249900000000 + second}\n" for second in range(60))
    found = guess(f"when,pulses\n{rows}".encode(), {})
    assert found.columns["pulses"]["type"] == "int64"


def test_a_mark_between_thousands_is_no_text() -> None:
    rows = "".join(f"01.03.2024 10:15:{second:02};1.{second:03},5;{second}\n" for second in range(60))
    found = guess(f"Zeit;Leistung [W];n\n{rows}".encode(), {})
    assert isinstance(found.format, dict)
    assert (found.format["decimal"], found.format["thousands"]) == (",", ".")
    assert found.columns["leistung"]["type"] == "float64"
    assert any("'.': 1.234 is read as 1234" in check for check in found.checks)


def test_whole_numbers_grouped_by_points_have_another_decimal_mark() -> None:
    rows = "".join(f"2024-03-01 10:15:{second:02};12.345.{second:03}\n" for second in range(60))
    found = guess(f"time;energy\n{rows}".encode(), {})
    assert isinstance(found.format, dict)
    assert (found.format["decimal"], found.format["thousands"]) == (",", ".")
    assert found.columns["energy"]["type"] == "int64"


def test_numbers_grouped_by_points_between_commas_are_text_and_no_error() -> None:
    rows = "".join(f"2024-03-01 10:15:{second:02},12.345.{second:03}\n" for second in range(60))
    found = guess(f"time,energy\n{rows}".encode(), {})
    assert found.format == "csv"
    assert found.columns["energy"]["type"] == "string"


def test_points_of_decimals_and_dates_are_no_thousands() -> None:
    rows = "".join(f"01.03.2024 10:15:{second:02},1.{second:03}\n" for second in range(60))
    found = guess(f"time,power\n{rows}".encode(), {})
    assert found.format == "csv"
    assert found.columns["power"]["type"] == "float64"


def test_many_columns_of_one_kind_are_one_thing_to_check() -> None:
    names = ",".join(f"empty{number}" for number in range(30))
    row = "2024-03-01T10:15:00Z" + "," * 30
    found = guess(f"time,{names}\n{row}\n{row}\n".encode(), {})
    [check] = found.checks
    assert check.startswith("'empty0', 'empty1', 'empty2', 'empty3', 'empty4' and 25 more are empty")


def test_a_shipped_format_that_misses_by_one_column_is_named(shipped: Shipped) -> None:
    sample = (FIXTURES / "maccor.070").read_bytes().replace(b"Volts", b"Spannung")
    found = guess(sample, shipped)
    assert not found.recognised
    assert any("this is 'maccor'" in check and "Volt" in check for check in found.checks)


def test_a_stamp_that_is_the_same_in_every_row_is_not_when_readings_happened() -> None:
    rows = "".join(f"2026-03-28 22:00:00;28.03.2026 22:{minute:02};1,5\n" for minute in range(30))
    found = guess(f"Startzeit;Messzeit;Druck\n{rows}".encode(), {})
    assert found.event_time == {"from": "Messzeit", "layouts": ["%d.%m.%Y %H:%M"]}
    assert any("'Startzeit' is a stamp too" in check for check in found.checks)
