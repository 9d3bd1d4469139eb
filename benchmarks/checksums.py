"""What it costs that every byte of the lake is held against its digest: a file taken in, a segment scanned.

    PYTHONPATH=src python -m benchmarks.checksums [rows]

CPU time, the best of twenty turns, with and without in one process, one after the other. Without: no checksum on pages,
no digest of a row group, and Parquet reads the file by itself.
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.scan_kernels import SEGMENT, readings, spec
from disarray.formats.loader import load_datasets
from disarray.kernels.fragments import fragment_writer as writing
from disarray.kernels.fragments.fragment_reader import read_fragment
from disarray.kernels.reading.file_reader import read_file
from disarray.kernels.reading.outcome import ReadReason, ReadRequest
from disarray.kernels.scanning.segment_rows import FragmentInput
from disarray.kernels.scanning.segment_scan import scan_segment
from disarray.model.segments import datetime_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TURNS = 20
DATASET = """
[[dataset]]
name = "tools"
roots = ["."]
files = ["*.csv"]
format = "csv"
subject = { constant = "TOOL07" }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
segment = "1 day"
[dataset.columns]
amps = { type = "float64" }
volts = { type = "float64" }
temperature = { type = "float64" }
state = { type = "int64" }
"""


class _NoHasher:
    def update(self, _: bytes) -> None: ...

    def reset(self) -> None: ...

    def digest(self, length: int) -> bytes:
        return bytes(length)


@contextmanager
def unchecked() -> Iterator[None]:
    """Files are written as they were before there were digests."""
    options, opened = writing._parquet_options, writing._HashedFile.__init__

    def plain(schema: pa.Schema) -> dict[str, object]:
        return options(schema) | {"write_page_checksum": False}

    def without(self: Any, path: str) -> None:
        opened(self, path)
        self._part_hasher = _NoHasher()

    writing._parquet_options = plain
    writing._HashedFile.__init__ = without  # type: ignore[method-assign]
    try:
        yield
    finally:
        writing._parquet_options = options
        writing._HashedFile.__init__ = opened  # type: ignore[method-assign]


def main() -> None:
    """Print one line of JSON."""
    pa.set_cpu_count(1)
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ingest = _ratio(*_ingests(folder, rows))
        scan = _ratio(*_scans(folder, rows))
    print(json.dumps({"rows": rows, "ingest with / without": ingest, "scan with / without": scan}))


def _ratio(with_checks: Callable[[], None], without: Callable[[], None]) -> float:
    best = {with_checks: float("inf"), without: float("inf")}
    for _ in range(TURNS + 1):
        for turn in best:
            start = process_time()
            turn()
            best[turn] = min(best[turn], process_time() - start)
    return round(best[with_checks] / best[without], 3)


def _ingests(folder: Path, rows: int) -> tuple[Callable[[], None], Callable[[], None]]:
    table = readings(rows).to_pydict()
    columns = ("amps", "volts", "temperature", "state")
    lines = [
        f"{datetime_of(us).isoformat()},{amps:.4f},{volts:.4f},{temperature:.2f},{state}\n"
        for us, amps, volts, temperature, state in zip(
            table["_event_us"], *(table[name] for name in columns), strict=True
        )
    ]
    source = folder / "a.csv"
    source.write_text("time," + ",".join(columns) + "\n" + "".join(lines))
    (folder / "disarray.toml").write_text(DATASET)
    [dataset] = load_datasets(folder / "disarray.toml")
    request = ReadRequest.for_dataset(
        dataset, str(source), reason=ReadReason.NOTIFICATION, now_us=1 << 62, stored=None
    )

    def take_in() -> None:
        path = folder / "new.parquet"
        path.unlink(missing_ok=True)
        writer = writing.FragmentWriter(str(path), request.spec)
        outcome = read_file(request, writer)
        assert writer.close() is not None, outcome.message

    def take_in_unchecked() -> None:
        with unchecked():
            take_in()

    return take_in, take_in_unchecked


def _scans(folder: Path, rows: int) -> tuple[Callable[[], None], Callable[[], None]]:
    path = str(folder / "scanned.parquet")
    [dataset] = load_datasets(folder / "disarray.toml")
    writer = writing.FragmentWriter(path, dataset.read_spec())
    writer.write(readings(rows).cast(writer._schema))
    writer.close()
    digest = writer.digest_of(0)

    def scan(table: pa.Table) -> None:
        scan_segment(SEGMENT, [FragmentInput(readings=table, uri="a", rows=rows)], spec())

    def checked() -> None:
        scan(read_fragment(path, 0, digest=digest))

    def plain() -> None:
        with pq.ParquetFile(path) as file:
            scan(file.read_row_groups([0], use_threads=False))

    return checked, plain


if __name__ == "__main__":
    main()
