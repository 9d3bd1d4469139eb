"""Pages that are made from the program are what it says today, and names of code on pages exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from disarray.config_options import OPTIONS
from disarray.documentation.configuration_page import reference

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_of_settings_is_what_the_program_says_today() -> None:
    assert PAGE.read_text("utf-8") == reference(), (
        "run: python -m disarray.documentation.configuration_page > docs/configuration.md"
    )


def test_every_setting_has_its_key_variable_and_meaning_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    assert [option.name for option in OPTIONS if f"| `{option.variable}` |" not in page] == []
    assert [option.name for option in OPTIONS if not option.meaning] == []


SOURCE = PAGE.parents[1] / "src" / "disarray"
ARCHITECTURE = (PAGE.parent / "architecture.md").read_text("utf-8")
# `module.py` and, where one is named, `function` or `Class.method`; SQL files likewise
NAMED = re.compile(r"`([\w/]+\.(?:py|sql))`(?: `([\w.]+)`)?")


def definitions_of(path: Path) -> set[str]:
    """The functions of a file, and of Python also its constants, its classes and their methods."""
    text = path.read_text("utf-8")
    if path.suffix == ".sql":
        return set(re.findall(r"^create function (?:\w+\.)?(\w+)", text, re.MULTILINE))
    found = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.Assign):
            found |= {each.id for each in node.targets if isinstance(each, ast.Name)}
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


def path_of(name: str) -> Path:
    return SOURCE / "control" / "sql" / "functions" / name if name.endswith(".sql") else SOURCE / name


def table_rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head."""
    part = ARCHITECTURE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_hop_of_a_late_file_names_what_exists() -> None:
    named = [
        match for row in table_rows("The life of one late file") for match in NAMED.findall(" ".join(row))
    ]
    assert len(named) > 20
    missing = [
        (name, function)
        for name, function in named
        if not path_of(name).exists() or function not in definitions_of(path_of(name))
    ]
    assert missing == []


def test_one_commit_is_told_by_ten_modules_and_six_sql_files() -> None:
    commit = [row for row in table_rows("The life of one late file") if row[0] in ("5", "6", "7")]
    modules = {name for row in commit for name, _ in NAMED.findall(row[1])}
    files = {name for row in commit for name, _ in NAMED.findall(row[2])}
    assert (len(modules), len(files)) == (10, 6)


def test_every_shape_on_the_way_to_a_commit_is_where_the_page_says() -> None:
    shapes = [
        (shape.strip("`"), where.strip("`"))
        for shape, where, _ in table_rows("Shapes on the way to a commit")
    ]
    assert shapes
    assert [shape for shape, where in shapes if shape not in definitions_of(path_of(where))] == []


def test_where_to_change_what_names_what_exists() -> None:
    named = [match for row in table_rows("Where to change what") for match in NAMED.findall(row[1])]
    paths = [
        (SOURCE.parents[1] / name if name.startswith("tests/") else path_of(name), function)
        for name, function in named
    ]
    assert len(paths) > 10
    assert [path for path, _ in paths if not path.exists()] == []
    assert [function for path, function in paths if function and function not in definitions_of(path)] == []
