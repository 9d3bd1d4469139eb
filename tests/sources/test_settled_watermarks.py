"""No row is lost and none is taken twice, however transactions overlap; read the usual way, rows are lost."""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.sources.table_history import (
    Reader,
    UsualReader,
    Writers,
    described,
    make_table,
    reader_url,
    table_rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

log = logging.getLogger(__name__)

STEPS = 150
# Two histories of each kind before every pull request; the rest with `make test-all`.
HISTORIES = [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))]
USUAL_HISTORIES = 3
EXACT = ("timestamp", "sequence", "cached sequence", "snapshot")


@pytest.fixture
def admin(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    monkeypatch.setenv("HISTORIAN_URL", reader_url(dsn))
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def run_history(
    dsn: str, folder: Path, watermark: str, seed: int
) -> tuple[Reader, Writers, list[UsualReader]]:
    chance = random.Random(seed)
    limit = chance.choice([2, 7, 1000])
    reader = Reader(*described(folder, watermark, limit=limit))
    writers = Writers(dsn, chance)
    with psycopg.connect(dsn, autocommit=True) as connection:
        usual = [UsualReader(connection, lag) for lag in ("0", "20 ms")]
        for _ in range(STEPS):
            if chance.random() < 0.15:
                reader.extract()
                for each in usual:
                    each.extract()
            else:
                writers.step()
        writers.end()
        for each in usual:
            each.lag = "0"
            each.extract()
    return reader, writers, usual


@pytest.mark.parametrize("seed", HISTORIES)
@pytest.mark.parametrize("watermark", EXACT)
def test_what_was_delivered_is_the_table_and_no_version_came_twice(
    dsn: str, admin: psycopg.Connection[tuple[object, ...]], tmp_path: Path, watermark: str, seed: int
) -> None:
    make_table(dsn, cache=5 if watermark == "cached sequence" else 1)
    reader, writers, _ = run_history(dsn, tmp_path, watermark, seed)
    for _ in range(300):
        if reader.extract():
            break
    assert reader.current() == table_rows(admin)
    assert len(reader.taken) == len(set(reader.taken)), "a version came twice"
    before = len(reader.taken)
    assert reader.extract()
    assert len(reader.taken) == before, "nothing changed, and something came"
    if watermark in ("timestamp", "sequence"):
        assert reader.watermark is not None
        reader.extract()
        assert reader.watermark["settled"] is not None, "nothing was open, and it did not settle"
    writers.close()
    reader.close()


def test_the_usual_way_loses_rows_of_the_same_histories(
    dsn: str,
    admin: psycopg.Connection[tuple[object, ...]],
    tmp_path: Path,
) -> None:
    rows = 0
    lost = {"0": 0, "20 ms": 0}  # rows, without a lag and with one
    make_table(dsn)
    for seed in range(USUAL_HISTORIES):
        admin.execute("truncate public.readings")
        reader, writers, usual = run_history(dsn, tmp_path, "timestamp", seed)
        truth = table_rows(admin)
        for name, each in zip(lost, usual, strict=True):
            lost[name] += sum(each.current.get(key) != value for key, value in truth.items())
        while not reader.extract():
            pass
        assert reader.current() | truth == reader.current()
        writers.close()
        reader.close()
        rows += len(truth)
    log.info("of %d rows the usual way lost %s", rows, lost)
    assert lost["0"] > 0
    assert lost["20 ms"] > 0
