"""Deliveries: what a source hands over is read like any file, once it is named and not before."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disarray.agent.scanner import Scanner
from disarray.agent.settings import DEFAULTS
from disarray.agent.state import StateFile
from disarray.cli.support.notifying import notifications_of
from disarray.control import blacklist, connections, deliveries, files
from disarray.control.deliveries import BatchCounts
from disarray.errors import ConfigError, ControlError
from disarray.formats.loader import load_datasets
from disarray.model.delivery_paths import subject_folders, subject_in
from disarray.store.audit.audit import audit
from disarray.worker.upkeep.delivery_upkeep import sweep_landing
from tests.sources.conftest import DATASET

if TYPE_CHECKING:
    from disarray.control.connections import Connection
    from tests.sources.conftest import DeliveredPlant


def path_of(uri: str) -> Path:
    return Path(unquote(uri.removeprefix("file://")))


def test_a_delivery_is_read_like_a_file(plant: DeliveredPlant) -> None:
    plant.deliver({"TOOL07": [(1, 0, 10.0), (2, 1, 20.0)], "TOOL08": [(3, 0, 5.0)]})
    plant.drain()
    assert (plant.total("TOOL07"), plant.total("TOOL08")) == (30.0, 5.0)


def test_under_one_key_the_later_delivery_wins_also_when_a_value_goes_back(plant: DeliveredPlant) -> None:
    for watts in (1.0, 2.0, 1.0):
        plant.deliver({"TOOL07": [(1, 0, watts)]})
        plant.drain()
        assert plant.total() == watts


def test_order_of_reading_does_not_matter(plant: DeliveredPlant) -> None:
    for watts in (1.0, 2.0, 7.0):
        plant.deliver({"TOOL07": [(1, 0, watts)]})
    plant.drain()
    assert plant.total() == 7.0


def test_a_late_delivery_repairs_and_is_in_the_ledger_with_its_batch(plant: DeliveredPlant) -> None:
    plant.deliver({"TOOL07": [(1, 0, 10.0), (2, 300, 20.0)]})
    plant.drain()
    [late] = plant.deliver({"TOOL07": [(3, -30, 5.0)]})
    plant.drain()
    assert plant.total() == 35.0
    restated = plant.rows("select source_uris from disarray.restatement")
    assert [late] in [list(map(str, uris)) for (uris,) in restated if isinstance(uris, list)]
    with plant.pool.connection() as connection:
        known = files.describe_file(connection, late)
    assert known is not None
    assert known["delivery"]["source"] == "historian"
    assert known["delivery"]["cursor_to"] == "1"


def test_a_blacklisted_delivery_counts_for_nothing_and_comes_back(plant: DeliveredPlant) -> None:
    plant.deliver({"TOOL07": [(1, 0, 10.0)]})
    [second] = plant.deliver({"TOOL07": [(2, 1, 20.0)]})
    plant.drain()
    decision = {"reason": "a test", "by": "alice"}
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, second, "TOOL07", **decision)
        plant.drain()
        assert plant.total() == 10.0
        blacklist.allow_file(connection, second, **decision)
        plant.drain()
    assert plant.total() == 30.0


def test_another_definition_reads_deliveries_again(plant: DeliveredPlant) -> None:
    plant.deliver({"TOOL07": [(1, 0, 10.0), (2, 1, 20.0)]})
    plant.drain()
    plant.redefine(
        DATASET.replace('type = "float64"', 'type = "float64"\nscale = 2.0', 1), is_on_purpose=True
    )
    plant.drain()
    assert plant.total() == 60.0


def test_the_plant_is_sound_after_deliveries(plant: DeliveredPlant) -> None:
    plant.deliver({"TOOL07": [(1, 0, 10.0)]})
    plant.deliver({"TOOL07": [(1, 0, 12.0), (2, 1, 1.0)]})
    plant.drain()
    with plant.pool.connection() as connection:
        verdicts = audit(connection, plant.place.lake)
    assert [finding for verdict in verdicts for finding in verdict.findings] == []


def test_a_batch_is_recorded_once(plant: DeliveredPlant) -> None:
    batch, written = plant.write({"TOOL07": [(1, 0, 10.0)]})

    def record(connection: Connection) -> None:
        deliveries.record_deliveries(
            connection,
            batch,
            written,
            dataset="historian",
            counts=BatchCounts(seen=1, taken=1),
            instance_name="Worker01",
        )

    with plant.pool.connection() as connection:
        record(connection)
        with pytest.raises(ControlError):
            record(connection)
        [told] = deliveries.list_batches(connection, source_name="historian")
        delivered = files.list_files(connection, source_name="historian")
        assert files.list_files(connection, source_name="other") == []
    assert (told.rows_seen, told.files, told.run_id) == (1, 1, batch.run_id)
    assert [file.source_uri for file in delivered] == [written[0].source_uri]


def test_rows_that_do_not_add_up_are_refused(plant: DeliveredPlant) -> None:
    batch, written = plant.write({"TOOL07": [(1, 0, 10.0)]})
    with plant.pool.connection() as connection, pytest.raises(ControlError, match="accounted"):
        deliveries.record_deliveries(
            connection,
            batch,
            written,
            dataset="historian",
            counts=BatchCounts(seen=2, taken=1),
            instance_name="Worker01",
        )
    assert plant.rows("select * from disarray.ingest_queue") == []


def test_files_of_a_batch_that_never_was_are_read_by_nobody_and_swept(plant: DeliveredPlant) -> None:
    _, [orphan] = plant.write({"TOOL07": [(1, 0, 666.0)]})
    [named] = plant.deliver({"TOOL07": [(1, 0, 10.0)]})
    plant.drain()
    with plant.pool.connection() as connection:
        assert sweep_landing(connection, plant.place) == []  # it may be under way
        long_ago = time.time() - 3 * 86_400
        for uri in (orphan.source_uri, named):
            os.utime(path_of(uri), (long_ago, long_ago))
        assert [Path(each.path) for each in sweep_landing(connection, plant.place)] == [
            path_of(orphan.source_uri)
        ]
    assert path_of(named).exists()
    assert not path_of(orphan.source_uri).exists()
    assert plant.total() == 10.0


def test_no_agent_announces_what_a_source_delivers(plant: DeliveredPlant, tmp_path: Path) -> None:
    _, [orphan] = plant.write({"TOOL07": [(1, 0, 666.0)]})
    # A second dataset takes everything below the project, and so the landing folder: its agent comes there.
    plant.description.write_text(
        DATASET
        + """
        [[dataset]]
        name = "everything"
        roots = ["."]
        files = ["*.csv"]
        format = "csv"
        subject = { constant = "x" }
        event_time = { from = "time", layouts = ["iso"] }
        zone = "UTC"
        columns = { watts = "float64" }
        """
    )
    described = load_datasets(plant.description)
    state = StateFile(tmp_path / "agent.state")
    scanner = Scanner(described, DEFAULTS, state, clock_us=lambda: time.time_ns() // 1000)
    report = scanner.scan(((0, 1 << 62),), is_final=True)
    assert report.files >= 1
    assert state.spooled_bytes == 0
    state.close()
    with pytest.raises(ConfigError, match="delivered by a source"):
        notifications_of([str(path_of(orphan.source_uri))], plant.datasets)


def test_a_delivery_that_would_be_read_for_another_dataset_is_refused(plant: DeliveredPlant) -> None:
    plant.redefine(DATASET.replace("landing/historian", "landing/other"))
    with pytest.raises(ConfigError, match=r'subject = \{ delivery = "folders" \}'):
        plant.write({"TOOL07": [(1, 0, 1.0)]})
    assert not plant.landing.root.exists()


@pytest.mark.parametrize(
    "subject", ["..", ".", "a/b", "a/../b", "%2E", "~", "Prüfstand 7", "x" * 200, "漢" * 80]
)
def test_any_subject_has_a_folder(plant: DeliveredPlant, subject: str) -> None:
    plant.deliver({subject: [(1, 0, 4.0)]})
    plant.drain()
    assert plant.total(subject) == 4.0


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200))
def test_a_subject_is_read_back_from_its_folders(subject: str) -> None:
    folders = subject_folders(subject)
    assert subject_in("/".join([*folders, "1.parquet"])) == subject
    assert all(
        part not in ("", ".", "..") and "/" not in part and len(part.encode()) <= 255 for part in folders
    )


def test_a_transaction_that_fails_after_recording_leaves_nothing(plant: DeliveredPlant) -> None:
    batch, written = plant.write({"TOOL07": [(1, 0, 10.0)]})

    with plant.pool.connection() as connection, connections.undone(connection):
        deliveries.record_deliveries(
            connection,
            batch,
            written,
            dataset="historian",
            counts=BatchCounts(seen=1, taken=1),
            instance_name="Worker01",
        )
    plant.drain()
    assert plant.rows("select * from disarray.file_info") == []
