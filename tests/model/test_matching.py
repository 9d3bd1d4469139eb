from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from disarray.errors import DatasetOverlapError, SubjectMissingError
from disarray.model.description.dataset import Dataset, SubjectKind, SubjectRule
from disarray.model.matching import match_file, subject_from_preamble

if TYPE_CHECKING:
    from tests.model.conftest import Specs


@pytest.fixture
def cycler(document: dict[str, Any], specs: Specs) -> Dataset:
    return specs.one(document)


def found(uri: str, *datasets: Dataset) -> str | None:
    match = match_file(uri, datasets)
    return match.subject if match else None


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("cycler/**/*.txt", "cycler/CELL7/a.txt", True),
        ("cycler/**/*.txt", "cycler/CELL7/deep/er/a.txt", True),
        ("cycler/**/*.txt", "cycler/CELL7/a.txt.tmp", False),
        ("**/*.txt", "cycler/CELL7/a.txt", True),
        ("**", "cycler/CELL7/a.txt", True),
        ("*.txt", "cycler/CELL7/a.txt", False),
        ("cycler/*/?.txt", "cycler/CELL7/a.txt", True),
        ("cycler/*/[!b].txt", "cycler/CELL7/a.txt", True),
        ("cycler/*/[!a].txt", "cycler/CELL7/a.txt", False),
        ("cycler/CELL7/a+(1).txt", "cycler/CELL7/a+(1).txt", True),
        ("cycler/*/*.0[0-9][0-9]", "cycler/CELL7/x.070", True),
    ],
)
def test_patterns_take_what_they_say(cycler: Dataset, pattern: str, path: str, matches: bool) -> None:
    dataset = replace(cycler, files=(pattern,))
    assert (match_file(f"/project/share/{path}", [dataset]) is not None) == matches


@pytest.mark.parametrize(
    "uri",
    [
        "/project/other/cycler/CELL7/a.txt",
        "/project/share/../secret/cycler/CELL7/a.txt",
        "/project/shared/cycler/CELL7/a.txt",
        "cycler/CELL7/a.txt",
        "/project/share/cycler/CELL7/a\0.txt",
    ],
)
def test_a_file_outside_the_roots_belongs_to_no_dataset(cycler: Dataset, uri: str) -> None:
    assert match_file(uri, [replace(cycler, files=("**",))]) is None


def test_the_subject_comes_from_the_path(cycler: Dataset) -> None:
    assert found("/project/share/cycler/CELL7/a.txt", cycler) == "CELL7"


def test_a_file_uri_is_a_path_with_escapes(cycler: Dataset) -> None:
    assert found("file:///project/share/cycler/CELL7/day%201.txt", cycler) == "CELL7"


def test_the_subject_comes_from_the_file_name(cycler: Dataset) -> None:
    rule = SubjectRule(SubjectKind.FILE_NAME, r"_(?P<subject>CH\d+)\.txt$")
    assert found("/project/share/cycler/x/test_CH70.txt", replace(cycler, subject=rule)) == "CH70"


def test_the_subject_may_stand_in_the_preamble(cycler: Dataset) -> None:
    dataset = replace(cycler, subject=SubjectRule(SubjectKind.PREAMBLE, "serial"))
    match = match_file("/project/share/cycler/x/a.txt", [dataset])
    assert match is not None
    assert match.subject is None
    assert subject_from_preamble("a.txt", dataset, {"serial": " 2001 "}) == "2001"


@pytest.mark.parametrize(
    "fields", [{}, {"serial": None}, {"serial": "  "}, {"serial": "a\nb"}, {"serial": "x" * 201}]
)
def test_a_preamble_without_a_usable_subject_is_named(cycler: Dataset, fields: dict[str, str | None]) -> None:
    dataset = replace(cycler, subject=SubjectRule(SubjectKind.PREAMBLE, "serial"))
    with pytest.raises(SubjectMissingError, match="nothing was read"):
        subject_from_preamble("a.txt", dataset, fields)


def test_a_path_without_subject_is_named(cycler: Dataset) -> None:
    with pytest.raises(SubjectMissingError, match="dataset 'cycler'"):
        match_file("/project/share/cycler/lower/a.txt", [cycler])


def test_two_datasets_that_want_one_file_are_both_named(cycler: Dataset) -> None:
    other = replace(cycler, name="other", files=("**/*.txt",))
    with pytest.raises(DatasetOverlapError, match="'cycler' and 'other'"):
        match_file("/project/share/cycler/CELL7/a.txt", [cycler, other])


def test_a_line_break_in_a_name_does_not_slip_past_the_pattern(cycler: Dataset) -> None:
    assert match_file("/project/share/cycler/CELL7/a.txt\nb", [cycler]) is None
