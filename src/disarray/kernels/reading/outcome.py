"""What is asked of one read of one file, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from disarray.kernels.reading.blocks import ReadCost
from disarray.model.description.dataset import OnShrink, Reread
from disarray.model.fingerprints import NO_LINES, Checkpoint, Fingerprint, LineCounts
from disarray.model.seam import Change, Replacement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.kernels.fragments.fragment_writer import Fragment
    from disarray.kernels.parsing.rejects import Reject, RejectReason
    from disarray.kernels.reading.splitting import PartRead
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.read_spec import ReadSpec


class ReadReason(StrEnum):
    """Why a file is looked at. All but a notification check every block; `quiet` also takes the last line."""

    NOTIFICATION = "notification"
    QUIET = "quiet"
    REINGEST = "reingest"
    DEEP = "deep"


class ReadStatus(StrEnum):
    """What became of the file."""

    READ = "read"
    UNCHANGED = "unchanged"
    PARKED = "parked"
    FAILED = "failed"
    VANISHED = "vanished"
    UNWRITTEN = "unwritten"  # the lake took nothing: no fault of the file


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """One file to read; `now_us` is the database's clock, the only one that decides what is in the future."""

    path: str
    roots: tuple[str, ...]
    spec: ReadSpec
    reason: ReadReason
    now_us: int
    stored: Fingerprint | None = None
    whole: bool = False
    back_correction_us: int = 0
    on_shrink: OnShrink = OnShrink.PARK
    is_moved: bool = (
        False  # what is known of it was read for another dataset or subject: all of it is read here
    )
    only_subject: str | None = None  # of a file about several, what it says about this one: a part

    @classmethod
    def for_dataset(
        cls, dataset: Dataset, path: str, *, reason: ReadReason, now_us: int, stored: Fingerprint | None
    ) -> ReadRequest:
        """The request that a dataset's description implies."""
        return cls(
            path=path,
            roots=dataset.roots,
            spec=dataset.read_spec(),
            reason=reason,
            now_us=now_us,
            stored=stored,
            whole=dataset.reread is Reread.WHOLE or dataset.format.reread_whole,
            back_correction_us=dataset.back_correction_window_us,
            on_shrink=dataset.on_shrink,
        )

    @property
    def latest_us(self) -> int | None:
        """Readings after this are rejected."""
        tolerance_us = self.spec.future_tolerance_us
        return None if tolerance_us is None else self.now_us + tolerance_us

    @property
    def is_thorough(self) -> bool:
        """Whether every block is compared, also of a file that grew."""
        return self.is_moved or self.reason is not ReadReason.NOTIFICATION


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOutcome:
    """The result of one read.

    Of the old version's readings those at positions before `seam_position` stay, and all of them where
    `replacement` is a new generation; `fragments` hold the rest. `counts` are of the lines read now, the
    totals of the file are in the fingerprint. `message` is one line, for failures and for what an operator
    should know.
    """

    path: str
    status: ReadStatus
    message: str | None = None
    is_retryable: bool = False
    change: Change = Change.NEW
    replacement: Replacement = Replacement.REPLACES
    seam_position: int = 0
    counts: LineCounts = NO_LINES
    fingerprint: Fingerprint | None = None
    fragments: tuple[Fragment, ...] = ()
    rejects: tuple[Reject, ...] = ()
    rejects_by_reason: Mapping[RejectReason, int] = field(default_factory=dict)
    cost: ReadCost = field(default_factory=ReadCost)
    parts: tuple[PartRead, ...] | None = None  # of a file about several subjects; None where it is about one

    @property
    def is_in_lake(self) -> bool:
        """Whether there is anything of it in the lake."""
        return bool(self.fragments) or any(part.fragments for part in self.parts or ())


def part_outcome(outcome: ReadOutcome, part: PartRead) -> ReadOutcome:
    """What a read of a file says about one of its subjects, as if that were a file of its own.

    Positions are those of the file. Lines that are no readings belong to the file as a whole.
    """
    parent = outcome.fingerprint
    assert parent is not None
    mark = part.mark
    counts = LineCounts(seen=mark.kept, kept=mark.kept)
    read = sum(fragment.readings for fragment in part.fragments)
    return ReadOutcome(
        path=outcome.path,
        status=outcome.status,
        message=outcome.message,
        change=outcome.change,
        replacement=outcome.replacement,
        seam_position=outcome.seam_position,
        counts=LineCounts(seen=read, kept=read),
        fingerprint=Fingerprint(
            size=parent.size,
            # It is compared with the bytes of the file only where all of it is read again.
            hashes=(),
            content_hash=parent.content_hash,
            checkpoints=(),
            end=Checkpoint(
                offset=parent.end.offset,
                line=parent.end.line,
                counts=counts,
                first_us=mark.first_us,
                last_us=mark.last_us,
            ),
            counts=counts,
            first_us=mark.first_us,
            last_us=mark.last_us,
            parse_version=parent.parse_version,
            tail=parent.tail,
            compression=parent.compression,
            generation=parent.generation,
        ),
        fragments=part.fragments,
        cost=outcome.cost,
    )
