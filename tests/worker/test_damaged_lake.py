"""A bit of the lake that flips: nobody is served it, nothing else stops, and reading its source again mends it."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from disarray.control import blacklist, files, status
from disarray.control.files import Reason
from disarray.errors import FragmentDamagedError
from disarray.model.duration import MINUTE
from disarray.model.segments import microseconds_of
from disarray.queries.metric_values import series, value_at
from disarray.queries.readings import readings
from disarray.store.audit.audit import AuditSettings, audit
from tests.plant import Plant
from tests.reading_lines import HEADER
from tests.worker.deliveries import DATASET, START
from tests.worker.soundness import assert_sound, assert_stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.postgres

START_US = microseconds_of(START)


@pytest.fixture
def plant(tmp_path: Path, dsn: str) -> Iterator[Plant]:
    built = Plant(tmp_path, dsn, description=DATASET % {"key": ""})
    yield built
    built.pool.close()


def text(seed: int, *, hour: int = 0, rows: int = 40) -> str:
    """Readings within one segment, which is two hours long."""
    draw = random.Random(seed)
    minutes = sorted(draw.sample(range(1, 119), rows))
    lines = [
        f"{(START + timedelta(hours=hour, minutes=minute)).isoformat()},a,{draw.randrange(9)},W1,{draw.random()}\n"
        for minute in minutes
    ]
    return HEADER + "".join(lines)


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def lake_file_of(plant: Plant, source: Path) -> Path:
    [(path,)] = plant.rows(
        f"select path from disarray.fragment where source_uri = '{source}' and state = 'active'"
    )
    return plant.place.lake.root / str(path)


def damage(plant: Plant, source: Path) -> None:
    """Flip a bit in what the lake keeps of one source, and of no other."""
    [(path, row_group)] = plant.rows(
        f"select path, row_group from disarray.fragment where source_uri = '{source}' and state = 'active'"
    )
    file = plant.place.lake.root / str(path)
    assert isinstance(row_group, int)
    flip(file, pq.read_metadata(file).row_group(row_group).column(1).data_page_offset + 3)


def read_by_every_way(plant: Plant, subject: str) -> Iterator[Callable[[], object]]:
    """A value and a series inside a segment, and an export: whatever reads the lake on behalf of a user."""
    dataset, lake = plant.datasets["line"], plant.place.lake
    [metric] = [metric for metric in dataset.metrics if metric.name == "parts"]
    with plant.pool.connection() as connection:
        inside = START_US + 60 * MINUTE
        yield (
            lambda: (
                value_at(
                    connection, lake, dataset=dataset, subject_key=subject, metric=metric, at_us=inside
                ).values
            )
        )
        yield (
            lambda: (
                series(
                    connection,
                    lake,
                    dataset=dataset,
                    subject_key=subject,
                    metric=metric,
                    from_us=inside - 20 * MINUTE,
                    to_us=inside,
                    every_us=MINUTE,
                ).values
            )
        )
        yield lambda: [
            table.to_pylist() for table in readings(connection, lake, dataset=dataset, subject_key=subject)
        ]


def regions(path: Path) -> dict[str, int]:
    """A byte of every region of a file of the lake, drawn by seed."""
    content = path.read_bytes()
    footer_start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    draw = random.Random(7)
    return {
        "the magic": 1,
        "the first page header": 6,
        "a page": draw.randrange(100, footer_start),
        "the last page": footer_start - 2,
        "the footer": draw.randrange(footer_start + 8, len(content) - 40),
        "the writer's name in the footer": content.rindex(b"parquet-cpp") + 2,
        "the length of the footer": len(content) - 8,
        "the last byte": len(content) - 1,
    }


def test_a_flipped_bit_in_any_region_is_an_error_for_every_reader_of_its_subject_alone(plant: Plant) -> None:
    source = plant.write("L1/early.csv", text(1))
    plant.ingest(source)
    plant.ingest(plant.write("L2/early.csv", text(2)))
    damaged = lake_file_of(plant, source)
    whole = damaged.read_bytes()
    before = [read() for read in read_by_every_way(plant, "L1")]
    for region, at in regions(damaged).items():
        flip(damaged, at)
        for read in read_by_every_way(plant, "L1"):
            with pytest.raises(FragmentDamagedError) as told:
                read()
            for part in (str(damaged), "readings of L1", f"disarray files reingest {source}"):
                assert part in str(told.value), region
        assert len([read() for read in read_by_every_way(plant, "L2")]) == 3
        damaged.write_bytes(whole)
    assert [read() for read in read_by_every_way(plant, "L1")] == before


def test_what_needs_a_damaged_segment_waits_until_its_source_is_read_again_and_nothing_else_does(
    plant: Plant,
) -> None:
    early = [plant.write(f"L1/early-{number}.csv", text(number)) for number in range(3)]
    other = plant.write("L2/early.csv", text(3))
    plant.ingest(*early, other)
    for path in early[:2]:
        damage(plant, path)
    late = [plant.write(f"{subject}/late.csv", text(4, rows=5)) for subject in ("L1", "L2")]
    after = plant.write("L1/after.csv", text(5, hour=4))
    reports = plant.ingest(*late, after)
    # The other subject is committed, and so is the other segment of this one.
    [message] = [message for report in reports for message in report.failed.values()]
    assert sum(len(report.completed) for report in reports) == 2
    assert str(late[0]) not in message
    assert "disarray files reingest" in message
    with plant.pool.connection() as connection:
        [waiting] = status.queue_status(connection)["waiting_files"]
        assert (waiting["source_uri"], waiting["last_error"]) == (str(late[0]), message)
    # It is no fault of the waiting file, and costs it no attempt.
    assert plant.rows(f"select retry_count from disarray.file_info where source_uri = '{late[0]}'") == [(0,)]
    with plant.pool.connection() as connection:
        for path in early[:2]:
            files.reingest_file(connection, str(path), reason="damaged", by="tester")
    reports = plant.drain()
    assert [report.failed for report in reports if report.failed] == []
    assert sum(len(report.completed) for report in reports) == 3
    with plant.pool.connection() as connection:
        assert status.queue_status(connection)["waiting_files"] == []
    assert_sound(plant, [*early, other, *late, after])


def test_without_its_source_a_damaged_file_is_given_up_by_blacklisting_it(plant: Plant) -> None:
    lost, kept = plant.write("L1/lost.csv", text(1)), plant.write("L1/kept.csv", text(2))
    plant.ingest(lost)
    plant.ingest(kept)
    damage(plant, lost)
    late = plant.write("L1/late.csv", text(3, rows=5))
    [report] = plant.ingest(late)
    assert len(report.failed) == 1
    lost.unlink()
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(lost), "L1", reason="damaged and gone", by="tester")
    assert sum(len(report.completed) for report in plant.drain()) == 2
    # What the file said stays damaged for the day on which it is allowed again; it counts for nothing.
    assert_stored(plant, [kept, late])


def test_a_file_that_is_allowed_again_waits_for_a_damaged_segment_that_it_returns_to(plant: Plant) -> None:
    kept, allowed = plant.write("L1/kept.csv", text(1)), plant.write("L1/allowed.csv", text(2))
    plant.ingest(kept)
    plant.ingest(allowed)
    with plant.pool.connection() as connection:
        blacklist.blacklist_file(connection, str(allowed), "L1", reason="a test", by="tester")
    plant.drain()
    damage(plant, kept)
    with plant.pool.connection() as connection:
        blacklist.allow_file(connection, str(allowed), reason="a test", by="tester")
    [report] = plant.drain()
    [message] = report.failed.values()
    assert f"disarray files reingest {kept}" in message
    with plant.pool.connection() as connection:
        files.reingest_file(connection, str(kept), reason="damaged", by="tester")
    assert [report.failed for report in plant.drain() if report.failed] == []
    assert_sound(plant, [kept, allowed])


def test_fragments_from_before_there_were_digests_are_held_against_the_checksum_of_their_file(
    plant: Plant,
) -> None:
    source = plant.write("L1/early.csv", text(1))
    plant.ingest(source)
    plant.rows("update disarray.fragment set digest = null returning 1")
    before = [read() for read in read_by_every_way(plant, "L1")]
    damaged = lake_file_of(plant, source)
    whole = damaged.read_bytes()
    for at in regions(damaged).values():
        flip(damaged, at)
        for read in read_by_every_way(plant, "L1"):
            with pytest.raises(FragmentDamagedError):
                read()
        damaged.write_bytes(whole)
    assert [read() for read in read_by_every_way(plant, "L1")] == before
    late = plant.write("L1/late.csv", text(2, rows=5))
    flip(damaged, 30)
    [report] = plant.ingest(late)
    assert "is damaged" in next(iter(report.failed.values()))
    plant.ingest(source, reason=Reason.REINGEST)
    assert plant.rows("select count(*) from disarray.fragment where state = 'active' and digest is null") == [
        (0,)
    ]
    assert_sound(plant, [source, late])


def test_a_deep_audit_names_the_damaged_file(plant: Plant) -> None:
    source = plant.write("L1/early.csv", text(1))
    plant.ingest(source)
    damaged = lake_file_of(plant, source)
    flip(damaged, 60)
    with plant.pool.connection() as connection:
        verdicts = audit(connection, plant.place.lake, AuditSettings(patience=timedelta(0), is_deep=True))
    found = {finding.rule for verdict in verdicts for finding in verdict.findings}
    assert found == {"lake_files_are_as_written", "segments_read_as_they_were_scanned"}
