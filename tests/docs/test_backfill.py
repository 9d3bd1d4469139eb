"""What the page about backfills shows is what its commands print."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import psycopg
import pytest

from disarray.backfill.job_file import parse_spec
from disarray.config import default_config
from tests.cli.conftest import report
from tests.docs.transcripts import check_page
from tests.plant import Plant
from tests.worker.conftest import DATASET

PAGE = Path(__file__).parents[2] / "docs" / "backfill.md"
ORDERS = """
create schema shop;
create table shop.orders (id bigint primary key, gross numeric(10, 2), tax numeric(10, 2), net numeric(10, 2));
insert into shop.orders select n, n * 1.19, n * 0.19 from generate_series(1, 1000) as n
"""


@pytest.mark.postgres
def test_every_command_of_the_page_prints_what_it_shows(
    tmp_path: Path, dsn: str, in_process: dict[str, str]
) -> None:
    text = PAGE.read_text("utf-8")
    block, *others = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "fill_net.toml").write_text(block)
    for other in others:
        parse_spec(tomllib.loads(other), shown="docs/backfill.md", config=default_config())
    with psycopg.connect(dsn) as connection:
        connection.execute(ORDERS)
    plant = Plant(tmp_path, dsn, description=DATASET)
    plant.ingest(plant.write("T1/a.csv", report(0, 1)), plant.write("T2/a.csv", report(0)))
    plant.pool.close()
    check_page(PAGE, folder=tmp_path, environment={**in_process, "DISARRAY_STATE_DIR": str(tmp_path)})
