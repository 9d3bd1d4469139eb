"""Large files of invented telemetry, written quickly and always the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from disarray.formats.loader import load_datasets

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.model.description.dataset import Dataset

HEADER = b"time,volts,amps,temperature,step,cycle\n"
START_S = 1_790_000_000
BLOCK_ROWS = 50_000

DATASET = """
[[dataset]]
name = "cycler"
roots = ["inbox"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
segment = "1 d"
future_tolerance = "36500 d"
%s
[dataset.columns.volts]
type = "float64"
[dataset.columns.amps]
type = "float64"
[dataset.columns.temperature]
type = "float64"
[dataset.columns.step]
type = "int64"
[dataset.columns.cycle]
type = "%s"
"""


def dataset_in(folder: Path, *, channels: bool = False) -> Dataset:
    """The dataset of these files; with channels, the last column names the series."""
    (folder / "inbox").mkdir(parents=True, exist_ok=True)
    config = folder / "disarray.toml"
    config.write_text(DATASET % (('channel = "cycle"', "string") if channels else ("", "int64")))
    [dataset] = load_datasets(config)
    return dataset


def write_file(path: Path, *, rows: int, first_row: int = 0, channels: int = 1, header: bool = True) -> int:
    """Append rows at one second's distance, `channels` of them to a second; how many bytes they took."""
    path.parent.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(7)
    written = 0
    with path.open("ab") as file:
        if header:
            written += file.write(HEADER)
        for start in range(first_row, first_row + rows, BLOCK_ROWS):
            count = min(BLOCK_ROWS, first_row + rows - start)
            index = np.arange(start, start + count)
            stamps = np.datetime_as_string(
                (START_S + index // channels).astype("datetime64[s]"), timezone="UTC"
            )
            volts = generator.integers(30_000, 42_000, count)
            amps = generator.integers(-90_000, 90_000, count)
            lines = [
                f"{stamp},{v / 10_000},{a / 10_000},{25 + (i % 70) / 10},{i // 3600},{i % channels}\n"
                for stamp, v, a, i in zip(
                    stamps.tolist(), volts.tolist(), amps.tolist(), index.tolist(), strict=True
                )
            ]
            written += file.write("".join(lines).encode())
    return written


def write_bytes(path: Path, *, size: int, channels: int = 1) -> int:
    """A file of about so many bytes; how many rows it has."""
    sample = path.with_suffix(".sample")
    a_row = (write_file(sample, rows=BLOCK_ROWS, channels=channels) - len(HEADER)) / BLOCK_ROWS
    sample.unlink()
    rows = int(size / a_row)
    write_file(path, rows=rows, channels=channels)
    return rows
