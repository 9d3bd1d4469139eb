"""A commit comes as one document of megabytes, which no statement may read anew for each of its rows."""

from __future__ import annotations

import re
from pathlib import Path

import disarray.control

FUNCTIONS = Path(disarray.control.__file__).parent / "sql" / "functions"
UNPACKS = re.compile(r"\bjson_(to_recordset|populate_recordset|array_elements)")
LOOKS_UP = re.compile(r"\b[pv]_\w+ ->> '\w+'")


def test_no_statement_that_unpacks_a_document_looks_a_field_of_one_up() -> None:
    # Under a plan that is kept it is looked up for each row: 5,000 segments took longer than a statement may.
    found = [
        f"{path.name}: {looked_up[0]}"
        for path in sorted(FUNCTIONS.glob("*.sql"))
        for statement in path.read_text("utf-8").split(";")
        if UNPACKS.search(statement) and (looked_up := LOOKS_UP.search(statement))
    ]
    assert found == []
