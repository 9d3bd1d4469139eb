"""pandas, Polars and DuckDB take an answer as it is; where one of them is not installed, this fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pandas as pd
import polars as pl
import pytest

if TYPE_CHECKING:
    from disarray.notebook.plant import Plant

pytestmark = pytest.mark.postgres

ROWS = 480


def test_pandas_takes_readings_as_they_are(plant: Plant) -> None:
    readings = plant.readings("TOOL07")
    frame = pd.DataFrame.from_arrow(readings)
    assert frame["good_total"].tolist() == readings.to_arrow().column("good_total").to_pylist()
    assert str(frame["event_time"].dtype).endswith("UTC]")


def test_polars_takes_readings_as_they_are(plant: Plant) -> None:
    readings = plant.readings("TOOL07")
    assert pl.DataFrame(readings)["good_total"].to_list() == readings.to_arrow()["good_total"].to_pylist()


def test_duckdb_asks_readings_as_if_they_were_a_table(plant: Plant) -> None:
    readings = plant.readings("TOOL07")
    with duckdb.connect() as session:
        found = session.execute("select count(*), max(good_total) from readings").fetchone()
    assert readings.schema.names
    assert found == (ROWS, 480)
