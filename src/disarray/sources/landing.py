"""The landing folder: one immutable file for each batch and subject, on disk for certain before it is named."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow.parquet as pq

from disarray.control.deliveries import DeliveredFile
from disarray.errors import LandingWriteError
from disarray.model.delivery_paths import subject_folders
from disarray.model.uris import file_uri
from disarray.store.lake import make_durable_folder, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from disarray.control.deliveries import Batch

# What is written here; the sweep deletes nothing else.
DELIVERY_FILE = re.compile(r"[0-9]{12,19}-[0-9a-f]{32}\.(parquet|jsonl)")
PARQUET = ".parquet"
JSON_LINES = ".jsonl"


@dataclass(frozen=True, slots=True)
class LandedFile:
    """A file of the landing folder, whoever wrote it."""

    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Landing:
    """A folder for each source, in it one for each subject. Shared by all workers, as the lake is."""

    root: Path

    def folder(self, source_name: str) -> Path:
        """Where the deliveries of a source lie."""
        return self.root / source_name

    def path(self, batch: Batch, subject_key: str, *, suffix: str = PARQUET) -> Path:
        """Where a batch puts what it says about a subject: a later batch has the greater name, no two the same."""
        name = f"{batch.batch_no:012d}-{batch.run_id.hex}{suffix}"
        return self.folder(batch.source_name).joinpath(*subject_folders(subject_key), name)

    def write(self, table: pa.Table, batch: Batch, *, subject_key: str) -> DeliveredFile:
        """Write what a batch says about a subject; when this returns, a power cut takes nothing of it."""
        # Whoever finds the file alone can tell where it came from.
        marked = table.replace_schema_metadata(
            {
                "disarray.source": batch.source_name,
                "disarray.batch": str(batch.batch_no),
                "disarray.run_id": str(batch.run_id),
                "disarray.subject": subject_key,
            }
        )

        def fill(stream: BinaryIO) -> None:
            pq.write_table(marked, stream, compression="zstd", compression_level=1)

        return self._write(self.path(batch, subject_key), fill, subject_key=subject_key, rows=table.num_rows)

    def write_lines(self, lines: Sequence[str], batch: Batch, *, subject_key: str) -> DeliveredFile:
        """The same for lines of JSON, each without its newline."""
        path = self.path(batch, subject_key, suffix=JSON_LINES)

        def fill(stream: BinaryIO) -> None:
            stream.writelines(f"{line}\n".encode() for line in lines)

        return self._write(path, fill, subject_key=subject_key, rows=len(lines))

    def _write(
        self, path: Path, fill: Callable[[BinaryIO], None], *, subject_key: str, rows: int
    ) -> DeliveredFile:
        try:
            make_durable_folder(path.parent)
            with path.open("xb") as stream:
                fill(stream)
                stream.flush()
                os.fsync(stream.fileno())
                size = stream.tell()
            sync_folder(path.parent)
        except OSError as error:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            raise LandingWriteError.at(path, error) from error
        return DeliveredFile(
            source_uri=file_uri(str(path.absolute())),
            subject_key=subject_key,
            rows=rows,
            bytes=size,
        )

    def list_files(self, *, written_before: float) -> Iterator[LandedFile]:
        """All that has one of our names and was not written to since, in seconds since 1970. The rest is not ours."""
        for folder, _, names in os.walk(self.root):
            for name in sorted(names):
                if not DELIVERY_FILE.fullmatch(name):
                    continue
                path = Path(folder, name)
                with suppress(FileNotFoundError):
                    seen = path.lstat()
                    if seen.st_mtime < written_before:
                        yield LandedFile(str(path.absolute()), seen.st_size)
