"""Does appending to a large file cost what was appended, or what was there?

    python -m benchmarks.growth [--large-megabytes 1024]

A megabyte is appended to a file of 10 MB and to a large one, in turns; each time the file is read as after
a notification, with the fingerprint of the read before. Medians of nine, in one process.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.goals import Goal, conclude
from benchmarks.instrument_files import dataset_in, write_bytes, write_file
from disarray.engine.jobs.read_job import read_files
from disarray.engine.runner import InProcessRunner
from disarray.kernels.reading.outcome import ReadReason, ReadRequest, ReadStatus
from disarray.store.lake import Lake

if TYPE_CHECKING:
    from disarray.kernels.reading.outcome import ReadOutcome
    from disarray.model.description.dataset import Dataset

TURNS = 9
APPENDED_ROWS = 20_000  # about a megabyte


@dataclass
class Growing:
    """A file that grows, and what is known of it."""

    path: Path
    rows: int
    known: ReadOutcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large-megabytes", type=int, default=1024)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="disarray-bench-") as name:
        folder = Path(name)
        dataset = dataset_in(folder)
        files = {size: begin(dataset, folder, size) for size in (10, given.large_megabytes)}
        seconds: dict[int, list[float]] = {size: [] for size in files}
        extra: dict[int, int] = {}
        for _ in range(TURNS):
            for size, file in files.items():
                appended = write_file(file.path, rows=APPENDED_ROWS, first_row=file.rows, header=False)
                file.rows += APPENDED_ROWS
                started = time.perf_counter()
                file.known = read(dataset, folder, file.path, file.known)
                seconds[size].append(time.perf_counter() - started)
                assert file.known.counts.kept == APPENDED_ROWS
                extra[size] = file.known.cost.bytes_read - appended
        small, large = (statistics.median(taken) for taken in seconds.values())
        conclude(
            "growth",
            [
                Goal(
                    f"1 MB appended to {given.large_megabytes} MB / to 10 MB: time",
                    round(large / small, 2),
                    1.3,
                    at_least=False,
                ),
                Goal(
                    "MB read beside what was appended, large file",
                    round(extra[given.large_megabytes] / 2**20, 2),
                    8,
                    at_least=False,
                ),
            ],
            {"seconds": {str(size): taken for size, taken in seconds.items()}, "extra_bytes": extra},
        )


def begin(dataset: Dataset, folder: Path, megabytes: int) -> Growing:
    """A file that was read once."""
    path = folder / "inbox" / "C1" / f"{megabytes}.csv"
    rows = write_bytes(path, size=megabytes << 20)
    return Growing(path, rows, read(dataset, folder, path, None))


def read(dataset: Dataset, folder: Path, path: Path, known: ReadOutcome | None) -> ReadOutcome:
    """Read what is new since the read before."""
    stored = known.fingerprint if known else None
    request = ReadRequest.for_dataset(
        dataset, str(path), reason=ReadReason.NOTIFICATION, now_us=0, stored=stored
    )
    result = read_files(InProcessRunner(cores=1), [request], lake=Lake(folder / "lake"), run_id=uuid.uuid4())
    [outcome] = result.outcomes
    assert outcome.status is ReadStatus.READ, outcome.message
    return outcome


if __name__ == "__main__":
    main()
