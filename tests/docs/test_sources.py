"""What the page about table sources shows is what its commands print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.docs.transcripts import check_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.databases import Databases

PAGE = Path(__file__).parents[2] / "docs" / "sources.md"
LATE = "insert into readings (tool, at, power_w) values ('TOOL07', '2026-10-23 08:00:06Z', 1.25)"


@pytest.fixture
def historian(databases: Databases) -> Iterator[str]:
    """Another database, with the table of the page."""
    name = databases.create()
    yield databases.dsn(name)
    databases.discard(name)


@pytest.mark.postgres
def test_every_command_of_the_page_prints_what_it_shows(
    tmp_path: Path, in_process: dict[str, str], historian: str
) -> None:
    text = PAGE.read_text("utf-8")
    [statements] = re.findall(r"^```sql\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    [blocks] = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    with psycopg.connect(historian, autocommit=True) as connection:
        connection.execute(statements)
        pulls = iter((None, None, LATE))

        def late_row() -> None:
            if (statement := next(pulls)) is not None:
                connection.execute(statement)

        check_page(
            PAGE,
            folder=tmp_path,
            environment={**in_process, "HISTORIAN_URL": historian},
            before={
                "disarray ingest": lambda: (tmp_path / "disarray.toml").write_text(blocks),
                "disarray source run historian --once": late_row,
            },
        )
