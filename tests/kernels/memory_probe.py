"""Reads one file in a process of its own and says what became of it and how much memory that took at most.

    python -m tests.kernels.memory_probe NAME FILE

NAME is one of `SPECS`. The process cannot take more than six gigabytes of addresses, whatever the file does.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from disarray.kernels.fragments.fragment_writer import FragmentWriter
from disarray.kernels.reading.file_reader import read_file
from disarray.kernels.reading.outcome import ReadReason, ReadRequest
from disarray.model.description.format import Column, ColumnType, FileKind, Format, Source
from tests.kernels.conftest import JSONL, NOW_US, column, spec_of

PARQUET = Format(name="parquet", kind=FileKind.PARQUET)
TEXT = column("text", ColumnType.STRING, required=False)
ANY_KEY = Column(name="any", source=Source(pattern="x+"), type=ColumnType.STRING, required=False)

SPECS = {
    "jsonl": spec_of(TEXT, fmt=JSONL),
    "jsonl by pattern": spec_of(ANY_KEY, fmt=JSONL),
    "parquet": spec_of(TEXT, fmt=PARQUET),
}
MOST_ADDRESSES = 6 << 30


def probe(name: str, path: Path) -> dict[str, Any]:
    """What the process said: status, message, kept, rejected, peak_mb (above what it took before the file)."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.kernels.memory_probe", name, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert ended.returncode == 0, ended.stderr[-2_000:]
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


def peak_mb() -> float:
    """The most memory that this process ever had.

    Not `ru_maxrss`: that of a new process begins at what its parent had when it was started.
    """
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1_024


def main(name: str, path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    spec = SPECS[name]
    before = peak_mb()
    writer = FragmentWriter(str(path.with_suffix(".fragments")), spec)
    request = ReadRequest(
        path=str(path), roots=(str(path.parent),), spec=spec, reason=ReadReason.QUIET, now_us=NOW_US
    )
    outcome = read_file(request, writer)
    writer.close()
    told = {
        "status": outcome.status.value,
        "message": outcome.message,
        "kept": outcome.counts.kept,
        "rejected": {reason.value: count for reason, count in outcome.rejects_by_reason.items()},
        "peak_mb": peak_mb() - before,
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
