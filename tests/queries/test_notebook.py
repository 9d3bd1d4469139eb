"""A project from Python: what `disarray.open` answers, and what other libraries make of it."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import disarray
from disarray import errors
from disarray.model.documents import plain
from disarray.notebook.result import Result
from disarray.queries.readings import Readings
from tests.cli.conftest import report
from tests.plant import Plant
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from disarray.notebook.plant import Plant as OpenPlant

pytestmark = pytest.mark.postgres

ROWS = 480


def test_readings_are_a_table_of_arrow(plant: OpenPlant) -> None:
    table = pa.table(plant.readings("TOOL07"))
    assert table.num_rows == ROWS
    assert table.column("event_time").type == pa.timestamp("us", tz="UTC")
    assert table.column("good_total")[-1].as_py() == 480
    assert table.equals(plant.readings("TOOL07").to_arrow())


def test_the_schema_is_known_without_a_reading_read(
    plant: OpenPlant, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = plant.readings("TOOL07")
    monkeypatch.setattr(Readings, "__iter__", None)
    assert pa.schema(result) == result.schema
    assert result.schema.names[:3] == ["subject_key", "event_time", "channel"]


def test_readings_are_read_a_segment_at_a_time(plant: OpenPlant, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked for first is given before the rest was read: memory does not grow with the history."""
    read: list[int] = []
    original = Readings.__iter__

    def counting(self: Readings) -> Iterator[pa.Table]:
        for table in original(self):
            read.append(table.num_rows)
            yield table

    monkeypatch.setattr(Readings, "__iter__", counting)
    segments = len(list(plant.readings("TOOL07").batches()))
    assert segments > 1
    read.clear()
    stream = pa.RecordBatchReader.from_stream(plant.readings("TOOL07"))
    assert read == []
    stream.read_next_batch()
    assert len(read) == 1
    read.clear()
    repr(plant.readings("TOOL07"))
    assert len(read) == 1


def test_a_span_of_readings_is_half_open_and_takes_texts_and_datetimes(plant: OpenPlant) -> None:
    texts = plant.readings("TOOL07", from_="2026-10-01T09:00", to="2026-10-01T10:00Z").to_arrow()
    start = datetime(2026, 10, 1, 9, tzinfo=UTC)
    datetimes = plant.readings("TOOL07", from_=start, to=start + timedelta(hours=1)).to_arrow()
    assert texts.equals(datetimes)
    assert texts.num_rows == 120
    assert plant.readings("TOOL07", from_="2027-01-01").to_arrow().num_rows == 0


@pytest.fixture
def ask(folder: Path) -> Callable[..., Any]:
    """The JSON of a command in that project."""

    def run(*words: str) -> Any:
        command = [sys.executable, "-m", "disarray", *words, "--json"]
        return json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout)

    return run


def test_answers_are_those_of_the_command_line(plant: OpenPlant, ask: Callable[..., Any]) -> None:
    at = "2026-10-01T09:01:15"
    asked: list[tuple[Result, tuple[str, ...]]] = [
        (plant.value("TOOL07", "good_total"), ("value", "TOOL07", "good_total")),
        (plant.value("TOOL07", "energy", at=at), ("value", "TOOL07", "energy", "--at", at)),
        (plant.series("TOOL07", "energy", every="1 h"), ("series", "TOOL07", "energy", "--every", "1 h")),
        (plant.rollup("TOOL07", "hourly"), ("rollup", "TOOL07", "hourly")),
    ]
    for result, words in asked:
        assert plain(result.document) == ask(*words)
    values = pa.table(asked[2][0])
    assert values.column("value").to_pylist() == [each.value for each in asked[2][0].document.values]
    assert plain(plant.files().document.files) == ask("files", "list")
    assert plain(plant.restatements().document.restatements) == ask("restatements")


def test_every_answer_is_a_table(plant: OpenPlant, folder: Path) -> None:
    assert pa.table(plant.subjects()).to_pylist() == [
        {
            "subject_key": "TOOL07",
            "dataset": "tools",
            "first": datetime(2026, 10, 1, tzinfo=UTC),
            "last": datetime(2026, 10, 1, 11, 59, 30, tzinfo=UTC),
        }
    ]
    [dataset] = pa.table(plant.datasets()).to_pylist()
    assert (dataset["dataset"], dataset["subjects"]) == ("tools", 1)
    assert pa.table(plant.metrics()).column("metric").to_pylist() == dataset["metrics"]
    assert pa.table(plant.files(subject="TOOL07", status="processed")).num_rows == 2
    assert pa.table(plant.files(subject="TOOL08")).num_rows == 0
    rollup = pa.table(plant.rollup("TOOL07", "hourly"))
    assert rollup.num_rows == 4
    assert rollup.schema.names[:4] == ["dataset", "subject_key", "rollup", "channel"]


def test_what_a_late_file_restates_has_every_bit_of_its_numbers(tmp_path: Path, dsn: str) -> None:
    text = DATASET.replace("key = []", 'key = []\nrestate_after = "0 s"')
    built = Plant(tmp_path, dsn, description=text)
    built.ingest(built.write("TOOL07/new.csv", report(9)))
    built.ingest(built.write("TOOL07/late.csv", report(0)))
    built.pool.close()
    with disarray.open(dsn, lake=tmp_path / "lake") as plant:
        rows = pa.table(plant.restatements("TOOL07")).to_pylist()
    [counted] = [row for row in rows if row["metric"] == "good_total" and row["delta_int"] is not None]
    assert (counted["old_int"], counted["new_int"], counted["delta_int"]) == (120, 240, 120)
    assert counted["old_float"] is None
    assert [uri.rpartition("/")[2] for uri in counted["source_uris"]] == ["late.csv"]


def test_a_project_is_opened_by_the_dsn_of_its_database_too(folder: Path, dsn: str) -> None:
    with disarray.open(dsn, lake=folder / "lake") as plant:
        assert plant.value("TOOL07", "good_total").document.values[0].value == 480
        assert pa.table(plant.readings("TOOL07")).num_rows == ROWS
        assert dsn not in repr(plant)


def test_results_are_shown_with_their_first_rows_and_what_a_reader_has_to_know(plant: OpenPlant) -> None:
    title, heading, *rows = repr(plant.readings("TOOL07")).splitlines()
    assert title == "TOOL07 (tools): readings"
    assert heading.split()[:2] == ["subject_key", "event_time"]
    assert (len(rows), rows[-1]) == (11, "…")
    html = plant.value("TOOL07", "good_total")._repr_html_()
    assert "<td>480</td>" in html
    cut = plant.files(limit=1)
    assert repr(cut).endswith("There are more than 1; limit= shows them.")
    assert "There are more than 1" in cut._repr_html_()


def test_html_of_a_name_is_text_and_nothing_else() -> None:
    schema = pa.schema([("name", pa.string())])
    rows = [{"name": "<script>\x1b[2J"}]
    shown = Result.of_rows(rows, schema, title="<b>")
    assert "<script>" not in shown._repr_html_()
    assert "\x1b" not in repr(shown)


def test_what_is_wrong_is_told_by_its_kind(plant: OpenPlant, tmp_path: Path) -> None:
    with pytest.raises(errors.UnknownNameError, match="did you mean 'TOOL07'"):
        plant.readings("TOOL7")
    with pytest.raises(errors.UnknownNameError, match="did you mean 'energy'"):
        plant.value("TOOL07", "enrgy")
    with pytest.raises(errors.InvalidRequestError, match="has no zone"):
        plant.value("TOOL07", "energy", at=datetime(2026, 10, 1))  # noqa: DTZ001
    with pytest.raises(errors.InvalidRequestError, match="no ISO time"):
        plant.value("TOOL07", "energy", at="yesterday")
    with pytest.raises(errors.InvalidRequestError, match="no file stands at 'done'"):
        plant.files(status="done")
    with pytest.raises(errors.DurationError):
        plant.series("TOOL07", "energy", every="soon")
    with pytest.raises(errors.ConfigError, match="there is no folder"):
        disarray.open(tmp_path / "nowhere")


def test_a_plant_that_was_closed_answers_no_more(folder: Path) -> None:
    plant = disarray.open(folder)
    plant.close()
    plant.close()
    with pytest.raises(errors.ControlError):
        plant.subjects()


def test_nothing_can_be_changed_through_it(plant: OpenPlant) -> None:
    [row] = plant._connection.execute("show default_transaction_read_only").fetchall()
    assert row == ("on",)


def test_importing_disarray_loads_neither_arrow_nor_a_database_driver() -> None:
    code = "import disarray, sys; assert not {'pyarrow', 'numpy', 'psycopg', 'typer'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
