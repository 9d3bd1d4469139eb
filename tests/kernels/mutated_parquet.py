"""Small Parquet files of many shapes, some bytes of each changed, and what is wrong with what comes of reading them.

In a process of its own, as a decoder that fails may take the process along:
`python -m tests.kernels.mutated_parquet FOLDER FIRST COUNT` reads the mutations of that many seeds.
"""

from __future__ import annotations

import io
import json
import random
import resource
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from disarray.kernels.reading.file_reader import read_file
from disarray.kernels.reading.outcome import ReadStatus
from disarray.model.description.format import ColumnType, FileKind, Format, LayoutKind, TimeLayout
from tests.kernels.conftest import Desk, column, read_fragments, spec_of

if TYPE_CHECKING:
    from disarray.model.description.read_spec import ReadSpec

ROWS = 40
START = datetime(2024, 1, 1, tzinfo=UTC)
TIMES = [START + timedelta(seconds=17 * row) for row in range(ROWS)]
CODECS = (
    "none",
    *(codec for codec in ("snappy", "gzip", "brotli", "zstd", "lz4") if pa.Codec.is_available(codec)),
)
PARQUET = Format(name="parquet", kind=FileKind.PARQUET)
NUMBERS = spec_of(column("value", nullable=True), column("count", ColumnType.INT64), fmt=PARQUET)
TEXTS = spec_of(
    column("text", ColumnType.STRING, nullable=True),
    column("flag", ColumnType.BOOL),
    column("value"),
    fmt=PARQUET,
    channel="text",
)
PARTS = spec_of(column("text", ColumnType.STRING), column("value"), fmt=PARQUET, subject_column="text")
STAMPS = spec_of(
    column("at", ColumnType.TIMESTAMP, nullable=True, layouts=(TimeLayout(LayoutKind.EPOCH),)),
    layouts=(TimeLayout(LayoutKind.ISO), TimeLayout(LayoutKind.EPOCH)),
    fmt=PARQUET,
)


def shapes() -> dict[str, tuple[ReadSpec, bytes]]:
    """By name, how a file is read and what is in it."""
    numbers = {"value": [row / 7 for row in range(ROWS)], "count": list(range(ROWS))}
    texts = [None if row % 11 == 3 else f"head {row % 5} é" for row in range(ROWS)]
    flags = [row % 3 == 0 for row in range(ROWS)]
    times = pa.array(TIMES, pa.timestamp("us", "UTC"))
    found = {
        f"numbers by {codec}": (NUMBERS, _file(numbers | {"time": times}, compression=codec))
        for codec in CODECS
    }
    for name, kind in (("text", pa.string()), ("large text", pa.large_string()), ("bytes", pa.binary())):
        cells = pa.array([None if text is None else text.encode() for text in texts], pa.binary()).cast(kind)
        columns = {"text": cells, "flag": flags, "value": numbers["value"], "time": times}
        found[name] = TEXTS, _file(columns, use_dictionary=False)
        found[f"{name} in a dictionary"] = TEXTS, _file(columns, compression="zstd")
        found[f"{name} of subjects"] = PARTS, _file(columns)
    categories = pa.array(texts).dictionary_encode()
    columns = {"text": categories, "flag": flags, "value": numbers["value"], "time": times}
    found["categories"] = TEXTS, _file(columns)
    found["front-coded text"] = (
        TEXTS,
        _file(
            columns | {"text": pa.array(texts)},
            use_dictionary=False,
            column_encoding={"text": "DELTA_BYTE_ARRAY", "value": "BYTE_STREAM_SPLIT"},
        ),
    )
    for unit in ("ms", "us", "ns"):
        for zone in (None, "Europe/Berlin"):
            at = times.cast(pa.timestamp(unit, "UTC")).cast(pa.int64()).cast(pa.timestamp(unit, zone))
            found[f"stamps in {unit}, zone {zone}"] = (
                STAMPS,
                _file({"time": at, "at": at, "value": numbers["value"]}),
            )
    stamps = pa.array([int(each.timestamp()) for each in TIMES])
    found["stamps as numbers"] = STAMPS, _file({"time": stamps, "at": stamps, "value": numbers["value"]})
    written = pa.array([each.isoformat() for each in TIMES])
    found["stamps as text"] = STAMPS, _file({"time": written, "at": written, "value": numbers["value"]})
    old = {"time": times.cast(pa.timestamp("ns", "UTC")), "at": times, "value": numbers["value"]}
    found["stamps of Impala"] = STAMPS, _file(old, use_deprecated_int96_timestamps=True)
    nested = [{"list": [row] * (row % 3), "more": {"text": str(row)}} for row in range(ROWS)]
    found["nested beside"] = NUMBERS, _file(numbers | {"time": times, "deep": nested})
    found["row groups and pages of format 2"] = (
        NUMBERS,
        _file(
            numbers | {"time": times},
            row_group_size=13,
            data_page_version="2.0",
            version="2.6",
            compression="zstd",
        ),
    )
    return found


def _file(columns: dict[str, Any], **options: Any) -> bytes:
    written = io.BytesIO()
    pq.write_table(pa.table(columns), written, **options)
    return written.getvalue()


def mutated(data: bytes, source: random.Random) -> bytes:
    """Some bytes changed, lost, doubled or made up."""
    changed = bytearray(data)
    for _ in range(source.choice((1, 1, 1, 2, 5))):
        at = source.randrange(len(changed))
        match source.randrange(8):
            case 0:
                del changed[at : at + source.choice((1, 2, 8, 100))]
            case 1:
                changed[at:at] = source.randbytes(source.choice((1, 2, 8)))
            case 2:
                changed[at : at + 8] = source.choice((b"\xff", b"\x00", b"\x7f", b"\x80")) * 8
            case 3:
                end = at + source.randrange(1, 64)
                changed[at:at] = changed[at:end]
            case 4 | 5:
                changed[at] ^= 1 << source.randrange(8)
            case _:
                changed[at] = source.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF, source.randrange(256)))
        if len(changed) < 16:
            break
    return bytes(changed)


def fault_of(folder: Path, spec: ReadSpec, data: bytes) -> str | None:
    """What is wrong with what comes of a file; None where it is read, or fails plainly."""
    desk = Desk(folder, spec, name="file.parquet").write(data)
    writer = desk.writer()
    try:
        try:
            outcome = read_file(desk.request(), writer)
        finally:
            writer.close()
        if outcome.status is not ReadStatus.READ:
            message = outcome.message or "unexpected silence"
            return message if message.startswith("unexpected ") else None
        counts = outcome.counts
        if counts.seen != counts.kept + counts.rejected or counts.rejected != sum(
            outcome.rejects_by_reason.values()
        ):
            return f"of {counts.seen} rows {counts.kept} are kept and {outcome.rejects_by_reason} rejected"
        fragments = [*outcome.fragments, *(each for part in outcome.parts or () for each in part.fragments)]
        kept = read_fragments(fragments, spec)
        if len(kept.to_pylist()) != counts.kept:
            return f"{kept.num_rows} rows are stored of {counts.kept}"
        kept.validate(full=True)
    except Exception as error:  # whatever it is: that is what is looked for
        return f"{type(error).__name__}: {error}"
    finally:
        for fragment in folder.glob("fragments-*"):
            fragment.unlink()
    return None


def main(folder: Path, first: int, count: int) -> None:
    """Print what was found, as JSON: faults by shape and seed, and the memory that reading took at most."""
    files = shapes()
    for name, (spec, data) in files.items():
        fault = fault_of(folder, spec, data)
        assert fault is None, f"{name}: {fault}"
    faults: dict[str, str] = {}
    for seed in range(first, first + count):
        source = random.Random(seed)
        name = sorted(files)[seed % len(files)]
        spec, data = files[name]
        changed = mutated(data, source)
        (folder / "last").write_text(f"{name}, seed {seed}")
        fault = fault_of(folder, spec, changed)
        if fault is not None:
            faults[f"{name}, seed {seed}"] = fault[:300]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    sys.stdout.write(json.dumps({"faults": faults, "bytes": peak}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
