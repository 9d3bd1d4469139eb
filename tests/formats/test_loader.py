from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from disarray.errors import ConfigError, FormatUnknownError, SpecError
from disarray.formats.loader import (
    all_descriptions,
    describe_text,
    find_description,
    load_datasets,
)
from disarray.model.description.format import FileKind, LayoutKind

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.formats.loader import Description

INSTRUMENTS = ["arbin", "basytec", "biologic", "danfoss", "maccor", "neware", "novonix", "sunnybeam"]


def test_the_promised_formats_are_shipped(shipped: dict[str, Description]) -> None:
    assert sorted(shipped) == sorted([*INSTRUMENTS, "csv", "jsonl", "parquet", "tsv"])


def test_every_shipped_format_says_what_goes_wrong_silently(shipped: dict[str, Description]) -> None:
    for description in shipped.values():
        assert "# Silent trap" in description.text, description.name
        assert description.format.title


@pytest.mark.parametrize("name", INSTRUMENTS)
def test_an_instrument_brings_its_time_and_columns(shipped: dict[str, Description], name: str) -> None:
    described = shipped[name].format
    assert described.kind is FileKind.DELIMITED
    assert described.event_time is not None
    assert described.columns
    assert described.header.pattern


def test_relative_stamps_start_from_the_preamble(shipped: dict[str, Description]) -> None:
    for name in ("biologic", "basytec"):
        event_time = shipped[name].format.event_time
        assert event_time is not None
        assert event_time.layouts[0].kind is LayoutKind.RELATIVE
        assert event_time.start is not None


def test_neware_in_milliamperes_is_converted(shipped: dict[str, Description]) -> None:
    amps = next(column for column in shipped["neware"].format.columns if column.name == "amps")
    found = amps.in_header(("DataPoint", "Current(mA)"))
    assert found is not None
    assert (found[0], found[1].scale) == (1, 0.001)
    plain = amps.in_header(("Current (A)",))
    assert plain is not None
    assert plain[1].scale == 1.0


def test_an_unknown_format_is_answered_with_the_nearest(shipped: dict[str, Description]) -> None:
    with pytest.raises(FormatUnknownError, match="did you mean 'maccor'"):
        find_description("macor", shipped)


def test_a_project_brings_formats_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "formats").mkdir()
    (tmp_path / "formats" / "scale.toml").write_text('delimiter = ";"\n')
    assert all_descriptions(tmp_path)["scale"].format.delimiter == ";"


def test_a_project_cannot_change_a_shipped_format_unnoticed(tmp_path: Path) -> None:
    (tmp_path / "formats").mkdir()
    (tmp_path / "formats" / "maccor.toml").write_text('delimiter = ";"\n')
    with pytest.raises(SpecError, match="choose another file name"):
        all_descriptions(tmp_path)


def test_a_faulty_description_names_its_file_and_every_key(tmp_path: Path) -> None:
    (tmp_path / "formats").mkdir()
    own = tmp_path / "formats" / "scale.toml"
    own.write_text('delimter = ";"\n[header]\nline = 0\n')
    with pytest.raises(SpecError) as caught:
        all_descriptions(tmp_path)
    assert caught.value.problems == (
        f"{own}: header.line: expected a whole number, 1 to 100000, found 0",
        f"{own}: delimter: unknown key; did you mean 'delimiter'?",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[header]\nline = 2\npattern = 'x'", "expected one of 'line', 'pattern' and 'names', found more"),
        ("[preamble]\nlines = 2\npattern = 'x'", "expected either 'lines' or 'pattern', found both"),
        ("[preamble]\nlines = 2\n[header]\nline = 2", "expected a line after the 2 of the preamble"),
        ("[header]\nnames = ['a']\nunits_row = true", "has no meaning beside 'units_row'"),
        ("kind = 'jsonl'\ndelimiter = ';'", "delimiter: has no meaning for kind 'jsonl'"),
        ("true_tokens = ['x']\nfalse_tokens = ['x']", "expected no token that is also in 'false_tokens'"),
        ("[preamble.fields]\na = 'no group'", "expected a regular expression with one group"),
        ("delimiter = 'ab'", "expected one ASCII character"),
        ("[columns]\na = { type = 'string', preamble = 'x' }", "there is no preamble field 'x'"),
        ("max_line_bytes = 1", "expected a whole number, 256 to"),
        ("event_time = 3", "event_time: expected a table, found 3"),
        ("[columns]\na = { type = 'float64', or = [{ scale = 2.0 }] }", "or[0].from: expected another"),
    ],
)  # fmt: skip
def test_a_description_that_cannot_be_meant_is_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        describe_text("own", text)
    assert any(message in problem for problem in caught.value.problems), caught.value.problems


def test_a_file_that_is_not_toml_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "disarray.toml"
    path.write_text("[[dataset]\n")
    with pytest.raises(SpecError, match=r"not TOML: .* line 1"):
        load_datasets(path)


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "disarray.toml"
    path.write_bytes(b"name = '\xb0'")
    with pytest.raises(SpecError, match="not UTF-8 at byte 8"):
        load_datasets(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_datasets(tmp_path / "disarray.toml")


def test_datasets_are_loaded_with_roots_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "disarray.toml").write_text(
        """
        [[dataset]]
        name = "cells"
        roots = ["inbox", "/srv/share"]
        files = ["*.070"]
        format = "maccor"
        subject = { preamble = "barcode" }
        zone = "America/Los_Angeles"
        key = ["rec"]
        """
    )
    (dataset,) = load_datasets(tmp_path / "disarray.toml")
    assert dataset.roots == (str(tmp_path / "inbox"), "/srv/share")
    assert dataset.read_spec().column_names[0] == "rec"
