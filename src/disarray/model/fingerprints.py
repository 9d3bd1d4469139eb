"""What is remembered of a file's bytes, so that the next read costs only what changed."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import astuple, dataclass, replace
from enum import StrEnum
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from disarray.errors import FingerprintError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# One block is what a probe reads; one stride is what a re-read of a changed block costs at least. Measured:
# pyarrow parses 4 MiB at a time a quarter faster than 1 MiB, and five probes of 1 MiB are cheap on any
# share.
BLOCK_BYTES = 1 << 20
STRIDE_BYTES = 4 * BLOCK_BYTES
HASH_BYTES = 16
# No instrument writes more into one file. A sparse file says any size for nothing, and reading it takes days.
MAX_FILE_BYTES = 256 << 30

_LAYOUT = 1
# dataclasses.astuple copies deeply: for a small file that is dearer than the rest of its fingerprint.
_counted = attrgetter("seen", "kept", "rejected", "blank", "preamble", "waiting")


class Phase(StrEnum):
    """What the parser expects of the next line."""

    PREAMBLE = "preamble"
    UNITS = "units"
    BODY = "body"


class Tail(StrEnum):
    """What became of the bytes after the last newline."""

    NONE = "none"
    WAITING = "waiting"
    TAKEN = "taken"


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Where every line went; `seen` is counted by framing, the rest by parsing, so that they can be compared."""

    seen: int = 0
    kept: int = 0
    rejected: int = 0
    blank: int = 0
    preamble: int = 0
    waiting: int = 0

    def __add__(self, other: LineCounts) -> LineCounts:
        # Spelled out: dataclasses.astuple copies deeply and would cost as much as parsing a thousand lines.
        return LineCounts(
            self.seen + other.seen,
            self.kept + other.kept,
            self.rejected + other.rejected,
            self.blank + other.blank,
            self.preamble + other.preamble,
            self.waiting + other.waiting,
        )

    @property
    def is_balanced(self) -> bool:
        """Whether no line was lost or counted twice."""
        return self.seen == self.kept + self.rejected + self.blank + self.preamble + self.waiting


NO_LINES = LineCounts()


@dataclass(frozen=True, slots=True)
class FoldMark:
    """How far a file has come through one repeated local hour: `later` once its time ran backwards there."""

    start_us: int
    high_us: int
    later: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartMark:
    """What the lines of a file say of one of its subjects, up to some point of it.

    Repeated local hours are told apart for each subject, as if it had a file of its own.
    """

    subject_key: str
    kept: int = 0
    first_us: int | None = None
    last_us: int | None = None
    last_position: int = -1
    folds: tuple[FoldMark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserState:
    """All that the meaning of the next line depends on."""

    phase: Phase = Phase.PREAMBLE
    header: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()
    folds: tuple[FoldMark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A line start from which reading can go on: counts and times are those of the whole file before it."""

    offset: int = 0
    line: int = 1
    counts: LineCounts = NO_LINES
    first_us: int | None = None
    last_us: int | None = None
    state: ParserState = ParserState()
    parts: tuple[PartMark, ...] = ()  # of a file about several subjects, by subject


ORIGIN = Checkpoint()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """One version of a file: block hashes of its bytes, and the parser's state along the way.

    `checkpoints[k]` is the last line start at or before `(k + 1) * STRIDE_BYTES`; `end` is the start of the
    unterminated last line, or the end of the file. Offsets are those of the decompressed bytes, hashes those
    of the bytes on disk; the two differ only where `compression` is set, and then any change reads the file
    anew.
    """

    size: int
    hashes: tuple[bytes, ...]
    content_hash: str
    checkpoints: tuple[Checkpoint, ...]
    end: Checkpoint
    counts: LineCounts
    first_us: int | None
    last_us: int | None
    parse_version: str
    tail: Tail = Tail.NONE
    compression: str = "none"
    generation: int = 0
    parts: tuple[PartMark, ...] = ()  # of a file about several subjects, by subject: of all of its lines

    def block_extent(self, index: int) -> tuple[int, int]:
        """Where on disk the bytes of one hashed block lie; the last block is shorter."""
        return index * BLOCK_BYTES, min((index + 1) * BLOCK_BYTES, self.size)

    def to_bytes(self) -> bytes:
        """A compact form for the catalog: some 30 bytes a megabyte."""
        return zlib.compress(json.dumps(_to_plain(self), separators=(",", ":")).encode(), 9)

    @classmethod
    def from_bytes(cls, packed: bytes) -> Fingerprint:
        """The inverse of `to_bytes`; a layout of another release is an error, never a guess."""
        try:
            plain = json.loads(zlib.decompress(packed))
            if plain["layout"] != _LAYOUT:
                raise FingerprintError(f"layout {plain['layout']} instead of {_LAYOUT}")
            return _from_plain(plain)
        except (zlib.error, ValueError, KeyError, TypeError, IndexError) as error:
            raise FingerprintError(f"{type(error).__name__}: {error}") from error


def _to_plain(fingerprint: Fingerprint) -> dict[str, Any]:
    points = [ORIGIN, *fingerprint.checkpoints, fingerprint.end]
    states = list(dict.fromkeys(point.state for point in points))
    index_of = {state: index for index, state in enumerate(states)}
    # Numbers as differences to the point before: they compress far better than absolutes.
    rows = [[*_difference(before, after), index_of[after.state]] for before, after in pairwise(points)]
    marks = [*(point.parts for point in points), fingerprint.parts]
    # Only of files that have parts: all others are written as they always were.
    parts = (
        {"parts": [_changed_marks(before, after) for before, after in pairwise(marks)]} if any(marks) else {}
    )
    return {
        "layout": _LAYOUT,
        "size": fingerprint.size,
        "hashes": base64.b64encode(b"".join(fingerprint.hashes)).decode(),
        "content_hash": fingerprint.content_hash,
        "states": [_state_to_plain(state) for state in states],
        "points": rows,
        "counts": list(_counted(fingerprint.counts)),
        "first_us": fingerprint.first_us,
        "last_us": fingerprint.last_us,
        "parse_version": fingerprint.parse_version,
        "tail": fingerprint.tail.value,
        "compression": fingerprint.compression,
        "generation": fingerprint.generation,
        **parts,
    }


def _from_plain(plain: dict[str, Any]) -> Fingerprint:
    states = [_state_from_plain(state) for state in plain["states"]]
    points = list(_rebuild_points(plain["points"], states))
    marks = list(_rebuild_marks(plain["parts"])) if "parts" in plain else [()] * (len(points) + 1)
    points = [replace(point, parts=own) if own else point for point, own in zip(points, marks, strict=False)]
    hashes = base64.b64decode(plain["hashes"], validate=True)
    return Fingerprint(
        size=plain["size"],
        hashes=tuple(hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)),
        content_hash=plain["content_hash"],
        checkpoints=tuple(points[:-1]),
        end=points[-1],
        counts=LineCounts(*plain["counts"]),
        first_us=plain["first_us"],
        last_us=plain["last_us"],
        parse_version=plain["parse_version"],
        tail=Tail(plain["tail"]),
        compression=plain["compression"],
        generation=plain["generation"],
        parts=marks[-1],
    )


def _difference(before: Checkpoint, after: Checkpoint) -> list[int | None]:
    numbers: list[int | None] = [after.offset - before.offset, after.line - before.line]
    numbers += [new - old for new, old in zip(_counted(after.counts), _counted(before.counts), strict=True)]
    for new_us, old_us in ((after.first_us, before.first_us), (after.last_us, before.last_us)):
        numbers.append(None if new_us is None else new_us - (old_us or 0))
    return numbers


def _rebuild_points(rows: Iterable[list[Any]], states: list[ParserState]) -> Iterator[Checkpoint]:
    point = ORIGIN
    for offset, line, *counts, first_us, last_us, state in rows:
        point = Checkpoint(
            offset=point.offset + offset,
            line=point.line + line,
            counts=point.counts + LineCounts(*counts),
            first_us=None if first_us is None else first_us + (point.first_us or 0),
            last_us=None if last_us is None else last_us + (point.last_us or 0),
            state=states[state],
        )
        yield point


def _changed_marks(before: tuple[PartMark, ...], after: tuple[PartMark, ...]) -> list[list[Any]]:
    known = set(before)
    return [
        [
            *(mark.subject_key, mark.kept, mark.first_us, mark.last_us, mark.last_position),
            [astuple(fold) for fold in mark.folds],
        ]
        for mark in after
        if mark not in known
    ]


def _rebuild_marks(rows: Iterable[list[list[Any]]]) -> Iterator[tuple[PartMark, ...]]:
    known: dict[str, PartMark] = {}
    for changed in rows:
        for subject_key, kept, first_us, last_us, last_position, folds in changed:
            known[subject_key] = PartMark(
                subject_key=subject_key,
                kept=kept,
                first_us=first_us,
                last_us=last_us,
                last_position=last_position,
                folds=tuple(FoldMark(*fold) for fold in folds),
            )
        yield tuple(known[subject] for subject in sorted(known))


def _state_to_plain(state: ParserState) -> list[Any]:
    return [state.phase.value, list(state.header), state.fields, [astuple(fold) for fold in state.folds]]


def _state_from_plain(plain: list[Any]) -> ParserState:
    phase, header, fields, folds = plain
    return ParserState(
        phase=Phase(phase),
        header=tuple(header),
        fields=tuple((name, value) for name, value in fields),
        folds=tuple(FoldMark(*fold) for fold in folds),
    )
