"""A file tried with a format, guessed or named: everything `formats try` has to tell."""

from __future__ import annotations

import os
import time
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from disarray.config import FILE_NAME
from disarray.errors import ConfigError, DisarrayError, UnreadableFileError
from disarray.formats.dataset_text import dataset_block, dataset_table
from disarray.formats.guess import Guess, guess
from disarray.formats.loader import all_descriptions, find_description, load_datasets
from disarray.formats.parquet_guess import PARQUET_MAGIC, guess_parquet
from disarray.formats.survey import survey
from disarray.kernels.reading.decompression import Unpacker, detect_compression
from disarray.kernels.reading.opening import open_beneath
from disarray.kernels.reading.outcome import ReadReason, ReadRequest, ReadStatus
from disarray.kernels.reading.preview import preview_file
from disarray.model.description.dataset_reader import read_datasets
from disarray.model.description.format import EVENT_US, ColumnType, Compression, FileKind, Origin
from disarray.model.description.spec_table import Problems
from disarray.model.matching import match_file, subject_from_preamble

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from disarray.formats.loader import Description
    from disarray.formats.survey import Survey
    from disarray.kernels.reading.outcome import ReadOutcome
    from disarray.kernels.reading.preview import Preview
    from disarray.model.description.dataset import Dataset
    from disarray.model.fingerprints import Fingerprint

HEAD_BYTES = 1 << 20
# More than this is not needed to know a file, and would not fit a small machine's memory as readings.
TRIED_BYTES = 32 << 20
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What was read from the file, with which dataset, and the block that is proposed for it."""

    file: Path
    dataset: Dataset
    outcome: ReadOutcome
    table: pa.Table
    seen: Survey
    reasons: tuple[str, ...]
    checks: tuple[str, ...]
    preamble: Mapping[str, str]
    subject: str
    block: str
    is_cut: bool
    is_own: bool = False  # a dataset of the project takes the file already


def try_file(file: Path, *, format_name: str | None, zone: str | None, project: Path) -> Trial:
    """Read a file, or the first part of a very large one, and say what a dataset for it would look like."""
    path = file.resolve()
    known = all_descriptions(project)
    head, is_long = _head(path)
    own, trouble = (None, None) if format_name else _own_dataset(path, project)
    if own is not None:
        return _try_own(file, path, own, is_long=is_long)
    found = _described(path, head, format_name, known)
    with TemporaryDirectory() as folder:
        tried = _cut(path, Path(folder)) if is_long else path
        table = dataset_table(found, path, zone=zone, seen=None)
        dataset = _load(dataset_block(table | {"roots": [str(tried.parent)]}), known, project)
        request = ReadRequest.for_dataset(
            dataset, str(tried), reason=ReadReason.QUIET, now_us=time.time_ns() // 1_000, stored=None
        )
        preview = preview_file(request)
    fingerprint = _readable(file, preview, dataset)
    seen = _survey(dataset, preview.table, may_be_split=not found.subject_field)
    block = dataset_block(dataset_table(found, path, zone=zone, seen=seen))
    proposed = _load(block, known, project)
    preamble = dict(fingerprint.end.state.fields)
    match = match_file(str(path), [proposed])
    assert match is not None, "the proposed patterns take the file they were made from"
    return Trial(
        file=file,
        dataset=proposed,
        outcome=preview.outcome,
        table=preview.table,
        seen=seen,
        reasons=tuple(found.reasons),
        checks=(
            *([trouble] if trouble else []),
            *found.checks,
            *_zone_checks(found, zone),
            *_subject_checks(seen),
        ),
        preamble=preamble,
        subject=next(iter(seen.subjects), None)
        or match.subject
        or subject_from_preamble(str(path), proposed, preamble),
        block=block,
        is_cut=is_long,
    )


def _own_dataset(path: Path, project: Path) -> tuple[Dataset | None, str | None]:
    """The dataset of the project that takes the file already; else what keeps its disarray.toml from being asked."""
    described = project / FILE_NAME
    if not described.exists():
        return None, None
    try:
        match = match_file(str(path), load_datasets(described))
    except DisarrayError as error:
        return None, f"the datasets of {described} were not asked: {error}"
    return (match.dataset if match else None), None


def _try_own(file: Path, path: Path, dataset: Dataset, *, is_long: bool) -> Trial:
    """The file as the project reads it now; of a very large one the first part, which lies elsewhere."""
    with TemporaryDirectory() as folder:
        tried = _cut(path, Path(folder)) if is_long else path
        request = ReadRequest.for_dataset(
            dataset, str(tried), reason=ReadReason.QUIET, now_us=time.time_ns() // 1_000, stored=None
        )
        preview = preview_file(replace(request, roots=(str(tried.parent),)))
    fingerprint = _readable(file, preview, dataset)
    preamble = dict(fingerprint.end.state.fields)
    match = match_file(str(path), [dataset])
    return Trial(
        file=file,
        dataset=dataset,
        outcome=preview.outcome,
        table=preview.table,
        seen=_survey(dataset, preview.table, may_be_split=False),
        reasons=("its 'roots' and 'files' take it",),
        checks=(),
        preamble=preamble,
        subject=next((mark.subject_key for mark in fingerprint.parts), None)
        or (match and match.subject)
        or subject_from_preamble(str(path), dataset, preamble),
        block="",
        is_cut=is_long,
        is_own=True,
    )


def _readable(file: Path, preview: Preview, dataset: Dataset) -> Fingerprint:
    fingerprint = preview.outcome.fingerprint
    problem = _problem(preview, dataset.format.kind)
    if fingerprint is None or problem:
        raise UnreadableFileError(
            f"{file} cannot be read as '{dataset.format.name}': {problem}. Nothing was changed; "
            "`disarray formats list` shows the other formats, docs/adding-an-instrument.md how to describe one"
        )
    return fingerprint


def _problem(preview: Preview, kind: FileKind) -> str | None:
    fingerprint = preview.outcome.fingerprint
    if preview.outcome.status is not ReadStatus.READ or fingerprint is None:
        return preview.outcome.message
    empty = not preview.table.num_rows and not preview.outcome.counts.rejected
    if empty and kind is FileKind.DELIMITED and not fingerprint.end.state.header:
        return "no line of it is a reading, and none is the header of this format"
    return None


def _described(path: Path, head: bytes, format_name: str | None, known: Mapping[str, Description]) -> Guess:
    if format_name is None:
        return guess_parquet(path) if head.startswith(PARQUET_MAGIC) else guess(head, known)
    description = find_description(format_name, known)
    if description.format.columns and description.format.event_time is not None:
        local = description.format.event_time.zone is None
        return Guess(format=format_name, local_time=local, recognised=True, reasons=["the format was named"])
    # A general format says how cells are split, not what they hold: that is still seen from the file.
    found = guess_parquet(path) if head.startswith(PARQUET_MAGIC) else guess(head, {})
    base = found.format if isinstance(found.format, str) else found.format["like"]
    if base != format_name:
        raise ConfigError(
            f"the file looks like '{base}', not like '{format_name}'; leave out --format to try that"
        )
    return found


def _zone_checks(found: Guess, zone: str | None) -> Iterator[str]:
    if zone is None and found.local_time:
        yield "the stamps are local time of an unknown zone; UTC was taken. Try again with --zone, or change the block"


def _subject_checks(seen: Survey) -> Iterator[str]:
    if seen.subject is not None:
        yield (
            f"'{seen.subject}' names several things ({', '.join(seen.subjects)}), and each is a subject of its own; if "
            f'the file is about one thing and these are its series, give channel = "{seen.subject}" and another subject'
        )


def _head(path: Path) -> tuple[bytes, bool]:
    """The first bytes, unpacked, and whether the file is longer than what is tried."""
    head = bytearray()
    length = 0
    try:
        for piece in _pieces(path):
            head += piece[: HEAD_BYTES - len(head)]
            length += len(piece)
            if length > TRIED_BYTES:
                return bytes(head), not head.startswith(PARQUET_MAGIC)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnreadableFileError as error:
        raise UnreadableFileError(f"{path} {error}") from error
    return bytes(head), False


def _pieces(path: Path) -> Iterator[bytes]:
    with os.fdopen(open_beneath(str(path), [str(path.parent)]), "rb") as stream:
        first = stream.read(_PIECE_BYTES)
        rest = iter(lambda: stream.read(_PIECE_BYTES), b"")
        kind = detect_compression(first, Compression.AUTO)
        raw = (piece for part in ([first], rest) for piece in part)
        yield from raw if kind is Compression.NONE else Unpacker(kind).unpack(raw)


def _cut(path: Path, folder: Path) -> Path:
    """The first part of a long file as one of its own, whole lines only."""
    tried = folder / path.name
    whole_lines = 0
    with tried.open("wb") as stream:
        for piece in _pieces(path):
            taken = piece[: TRIED_BYTES - stream.tell()]
            if b"\n" in taken:
                whole_lines = stream.tell() + taken.rfind(b"\n") + 1
            stream.write(taken)
            if len(taken) < len(piece):
                break
        stream.truncate(whole_lines)
    return tried


def _load(block: str, known: Mapping[str, Description], project: Path) -> Dataset:
    problems = Problems("the proposed block")
    (dataset,) = read_datasets(
        tomllib.loads(block),
        problems=problems,
        descriptions={name: each.table for name, each in known.items()},
        folder=project.absolute(),
    )
    problems.raise_if_any()
    return dataset


def _survey(dataset: Dataset, table: pa.Table, *, may_be_split: bool) -> Survey:
    shown_columns = [
        column.name
        for column in dataset.columns
        if column.type in (ColumnType.INT64, ColumnType.STRING) and column.origin is Origin.CELL
    ]
    columns = {name: table.column(name).to_pylist() for name in shown_columns}
    return survey(table.column(EVENT_US).to_pylist(), columns, may_be_split=may_be_split)
