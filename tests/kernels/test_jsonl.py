from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disarray.model.description.format import POSITION, ColumnType, Source
from tests.kernels.conftest import ISO, JSONL, column, parse, spec_of

DEEP = column("deep", ColumnType.INT64).__class__(name="deep", source=Source(("a.b",)), type=ColumnType.INT64)
SPEC = spec_of(column("value"), column("text", ColumnType.STRING), DEEP, fmt=JSONL)


def read(*lines: str) -> tuple[list[dict[str, object]], list[str]]:
    table, reader = parse("".join(f"{line}\n" for line in lines).encode(), SPEC)
    return table.to_pylist(), [reject.reason.value for reject in reader.log.listed]


def test_keys_in_any_order_nested_ones_by_dotted_path_and_missing_ones_null() -> None:
    found, rejected = read(
        '{"a": {"b": 7}, "value": 1.5, "time": "2024-01-01"}', "", '{"time": "2024-01-01"}'
    )
    assert [(row["value"], row["deep"], row["text"]) for row in found] == [(1.5, 7, None), (None, None, None)]
    assert rejected == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "bad_json"),
        ("[1]", "bad_json"),
        ("7", "bad_json"),
        ("[" * 100_000, "bad_json"),
        ('{"time": "2024-01-01", "value": NaN}', "nonfinite"),
        ('{"time": "2024-01-01", "value": 1e999}', "nonfinite"),
        ('{"time": "2024-01-01", "a": {"b": ' + "9" * 5000 + "}}", "integer_overflow"),
        ('{"time": "2024-01-01", "text": "\\u0000"}', "nul_byte"),
        ('{"time": "2024-01-01", "text": "\\ud800"}', "undecodable"),
        ('{"value": 1}', "missing_value"),
        ('{"time": null, "value": 1}', "missing_time"),
        ('{"time": "2024-01-01"} {"time": "2024-01-01"}', "bad_json"),
    ],
)
def test_a_bad_line_is_rejected_with_its_reason_and_its_neighbours_stay(line: str, reason: str) -> None:
    good = '{"time": "2024-01-01", "value": 1}'
    found, rejected = read(good, line, good)
    assert (len(found), rejected) == (2, [reason])


def test_a_list_of_any_depth_is_a_value_or_a_rejected_line_and_fails_no_file() -> None:
    # What can be read and what can be written as text again end at different depths of the stack.
    found, rejected = read(
        *(f'{{"time": "2024-01-01", "text": {"[" * depth}{"]" * depth}}}' for depth in range(850, 1050))
    )
    assert len(found) + len(rejected) == 200
    assert set(rejected) == {"bad_json"}


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False), st.text('aß\\"é\t', min_size=1, max_size=5)
        ),
        max_size=10,
    )
)
def test_any_table_written_as_json_and_read_back_is_equal(table: list[tuple[float, str]]) -> None:
    found, rejected = read(
        *[json.dumps({"time": "2024-01-01", "value": value, "text": text}) for value, text in table]
    )
    assert rejected == []
    assert [(row["value"], row["text"]) for row in found] == [
        (value + 0.0, text.strip(" \t") or None) for value, text in table
    ]


MANY = spec_of(
    column("value"),
    column("text", ColumnType.STRING),
    column("whole", ColumnType.INT64, nullable=False),
    column("flag", ColumnType.BOOL),
    column("since", ColumnType.TIMESTAMP, layouts=(ISO,)),
    fmt=replace(JSONL, null_tokens=("n/a",)),
    zone="Europe/Berlin",
)
TIMES = st.sampled_from(
    [
        "2024-01-01",
        "2024-01-01T12:00:00.25Z",
        "2024-01-01T00:00:00+02:00",
        " 2024-01-01 ",
        "2024-02-30",
        "2024-03-31T02:30:00",
        "",
        "n/a",
        None,
        7,
    ]
)
VALUES = st.sampled_from([1, -0.0, 1e400, "1_000", " 2.5 ", "n/a", "", "x", "0x10", True, None, [1], 2**70])
ROWS = st.fixed_dictionaries(
    {"time": TIMES, "whole": st.sampled_from([1, 2, " 3", None, 1.5, "n/a"])},
    optional={"value": VALUES, "text": VALUES, "flag": VALUES, "since": TIMES},
)


@given(st.lists(ROWS, max_size=5), st.lists(ROWS, min_size=1, max_size=6))
def test_lines_read_together_say_what_each_of_them_says_alone(
    few: list[dict[str, object]], repeated: list[dict[str, object]]
) -> None:
    # Twenty times the same keys: these are typed as columns, and a line alone never is.
    lines = [json.dumps(row) for row in [*few, *repeated * 20]]
    together, reader = parse("".join(f"{line}\n" for line in lines).encode(), MANY)
    alone = {line: parse(f"{line}\n".encode(), MANY) for line in set(lines)}
    shown = [name for name in together.column_names if name != POSITION]
    assert together.select(shown).to_pylist() == [
        row for line in lines for row in alone[line][0].select(shown).to_pylist()
    ]
    assert {(reject.line, reject.reason, reject.column) for reject in reader.log.listed} == {
        (number, reject.reason, reject.column)
        for number, line in enumerate(lines, start=1)
        for reject in alone[line][1].log.listed
    }
