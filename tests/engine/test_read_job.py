"""Job 1, on Spark and in this process."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from disarray.engine.jobs import read_job
from disarray.engine.jobs.read_job import read_files
from disarray.kernels.fragments.fragment_reader import read_fragment
from disarray.kernels.reading.outcome import ReadReason, ReadRequest, ReadStatus
from disarray.model.description.format import POSITION
from disarray.model.segments import microseconds_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest

    from disarray.engine.runner import Runner
    from disarray.kernels.fragments.fragment_writer import Fragment
    from disarray.model.description.dataset import Dataset
    from disarray.store.lake import Lake

START = datetime(2026, 10, 1, tzinfo=UTC)
NOW_US = microseconds_of(START + timedelta(days=30))


def write_csv(path: Path, *, rows: int, start: datetime = START) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{(start + timedelta(seconds=second)).isoformat()},{second / 7}\n" for second in range(rows)]
    path.write_text("time,value\n" + "".join(lines))
    return path


def request_for(dataset: Dataset, path: Path) -> ReadRequest:
    return ReadRequest.for_dataset(dataset, str(path), reason=ReadReason.QUIET, now_us=NOW_US, stored=None)


def test_one_bad_file_does_not_fail_the_batch(
    runner: Runner, dataset: Dataset, lake: Lake, inbox: Path
) -> None:
    good = [write_csv(inbox / "T1" / f"{number}.csv", rows=100) for number in range(5)]
    bad = inbox / "T1" / "bad.csv"
    bad.write_bytes("time,value\n".encode("utf-16"))
    gone = inbox / "T1" / "gone.csv"
    outside = write_csv(inbox.parent / "elsewhere" / "secret.csv", rows=3)
    requests = [request_for(dataset, path) for path in (*good, bad, gone, outside)]
    result = read_files(runner, requests, lake=lake, run_id=uuid.uuid4())
    assert [outcome.status for outcome in result.outcomes] == [
        *[ReadStatus.READ] * 5,
        ReadStatus.FAILED,
        ReadStatus.VANISHED,
        ReadStatus.FAILED,
    ]
    assert all(outcome.counts.is_balanced for outcome in result.outcomes)
    assert [outcome.counts.kept for outcome in result.outcomes[:5]] == [100] * 5


def test_small_files_share_the_parquet_file_of_their_task(
    runner: Runner, dataset: Dataset, lake: Lake, inbox: Path
) -> None:
    paths = [write_csv(inbox / "T1" / f"{number}.csv", rows=50) for number in range(20)]
    result = read_files(
        runner, [request_for(dataset, path) for path in paths], lake=lake, run_id=uuid.uuid4()
    )
    assert len(result.files) == runner.cores
    assert sum(pq.read_metadata(file.path).num_row_groups for file in result.files) == 20
    assert {lake.relative(file.path).split("/")[0] for file in result.files} == {"tools"}


def test_a_file_shared_out_among_tasks_gives_the_readings_of_one_read(
    runner: Runner, dataset: Dataset, lake: Lake, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_csv(inbox / "T1" / "big.csv", rows=400_000)
    whole = read_files(runner, [request_for(dataset, path)], lake=lake, run_id=uuid.uuid4())
    # Ranges are cut at strides of four megabytes; this is what makes a file of fourteen "big".
    monkeypatch.setattr(read_job, "TASK_BYTES", 4 << 20)
    shared = read_files(runner, [request_for(dataset, path)], lake=lake, run_id=uuid.uuid4())
    assert len(shared.files) > len(whole.files)
    assert shared.outcomes[0].fingerprint == whole.outcomes[0].fingerprint
    assert sorted_rows(shared.outcomes[0].fragments) == sorted_rows(whole.outcomes[0].fragments)


def sorted_rows(fragments: Iterable[Fragment]) -> list[dict[str, object]]:
    tables = [read_fragment(fragment.path, fragment.row_group) for fragment in fragments]
    rows = [row for table in tables for row in table.to_pylist()]
    return sorted(rows, key=lambda row: int(row[POSITION]))


def test_nothing_to_read_writes_nothing(runner: Runner, lake: Lake) -> None:
    result = read_files(runner, [], lake=lake, run_id=uuid.uuid4())
    assert (result.outcomes, result.files) == ((), ())
    assert not lake.root.exists()
