"""Work orders: what a claimed queue row asks a worker to do, one frozen value for each thing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, TypeAlias, assert_never

from disarray.control.queue import OrderKind
from disarray.model.notification import Reason

if TYPE_CHECKING:
    from disarray.control.queue import QueueItem


class ReadMode(Enum):
    """How much of a file is read."""

    NEW = auto()  # what is new since its fingerprint
    QUIET = auto()  # what is new, with an unterminated last line: nobody writes to the file any more
    WHOLE = auto()  # all of it, because it belongs to another dataset or subject now
    AGAIN = auto()  # all of it, as it is now, though it may be less than before


@dataclass(frozen=True, slots=True)
class ReadFile:
    """Take in what a file says."""

    source_uri: str
    mode: ReadMode = ReadMode.NEW
    ignores_horizon: bool = False  # somebody asked for it by name; what comes by itself is held against it


@dataclass(frozen=True, slots=True)
class ReleaseReadings:
    """Let parked readings of a file count; they lie in the lake, the file may be gone."""

    source_uri: str


@dataclass(frozen=True, slots=True)
class ReleaseVersion:
    """Let a version that says less than the one before take its place."""

    source_uri: str


@dataclass(frozen=True, slots=True)
class AllowFile:
    """Let a file that was blacklisted count again, for what it counted before."""

    source_uri: str


@dataclass(frozen=True, slots=True)
class PreviewFile:
    """Look at what is known of a file, and change nothing."""

    source_uri: str


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """Let a file count for nothing."""

    source_uri: str


@dataclass(frozen=True, slots=True)
class RebuildSubject:
    """Move a subject to the definition of a dataset that is in force."""

    subject_key: str
    dataset: str


@dataclass(frozen=True, slots=True)
class ReconcileSubject:
    """Resolve what is stale of a subject, in all of its datasets."""

    subject_key: str


@dataclass(frozen=True, slots=True)
class CompactSubject:
    """Seal and compact a subject; that changes no number and comes after what does."""

    subject_key: str


@dataclass(frozen=True, slots=True)
class CopySubject:
    """Bring the readings of a subject to the store of their dataset."""

    subject_key: str
    dataset: str


@dataclass(frozen=True, slots=True)
class ResyncSubject:
    """Let the generation that a resync staged take the place of what a source delivered of a subject before."""

    subject_key: str
    dataset: str
    job_id: int


FileOrder: TypeAlias = ReadFile | ReleaseReadings | ReleaseVersion | AllowFile | PreviewFile | RemoveFile
SubjectOrder: TypeAlias = RebuildSubject | ReconcileSubject | CompactSubject | CopySubject | ResyncSubject
WorkOrder: TypeAlias = FileOrder | SubjectOrder


def orders_of(item: QueueItem) -> tuple[WorkOrder, ...]:
    """What a claimed row asks for; the row of a file stands for all that was said and decided about it meanwhile."""
    match item.kind:
        case OrderKind.READ:
            merged = item.metadata.get("reasons", [])
            reasons = dict.fromkeys(Reason(text) for text in (item.reason, *merged))
            return tuple(order for reason in reasons for order in _file_orders(item, reason))
        case OrderKind.REMOVE:
            return (RemoveFile(item.file_uri),)
        case OrderKind.REBUILD:
            return (RebuildSubject(item.subject_key, item.dataset or ""),)
        case OrderKind.RECONCILE:
            return (ReconcileSubject(item.subject_key),)
        case OrderKind.COMPACT:
            return (CompactSubject(item.subject_key),)
        case OrderKind.COPY:
            return (CopySubject(item.subject_key, item.dataset or ""),)
        case OrderKind.RESYNC:
            return (ResyncSubject(item.subject_key, item.dataset or "", int(item.metadata["job_id"])),)
        case _:
            assert_never(item.kind)


def looks_into_file(order: WorkOrder) -> bool:
    """Whether an order by itself asks for a look into its file."""
    match order:
        case ReadFile() | ReleaseVersion() | AllowFile():
            return True
        case ReleaseReadings() | PreviewFile() | RemoveFile():
            return False
        case RebuildSubject() | ReconcileSubject() | CompactSubject() | CopySubject() | ResyncSubject():
            return False
        case _:
            assert_never(order)


def takes_file_as_it_is(order: WorkOrder) -> bool:
    """Whether somebody wants what the file says now, though it may be less than before."""
    match order:
        case ReadFile(mode=mode):
            return mode is ReadMode.AGAIN
        case ReleaseVersion() | AllowFile():
            return True
        case ReleaseReadings() | PreviewFile() | RemoveFile():
            return False
        case RebuildSubject() | ReconcileSubject() | CompactSubject() | CopySubject() | ResyncSubject():
            return False
        case _:
            assert_never(order)


def is_arrival(order: WorkOrder) -> bool:
    """Whether what it reads arrived just now; what was asked for again did not, and is not late."""
    match order:
        case ReadFile(mode=mode):
            return mode in (ReadMode.NEW, ReadMode.QUIET)
        case PreviewFile() | RemoveFile() | ReconcileSubject() | CopySubject():
            return True
        case ReleaseReadings() | ReleaseVersion() | AllowFile():
            return False
        case RebuildSubject() | CompactSubject() | ResyncSubject():
            return False
        case _:
            assert_never(order)


def _file_orders(item: QueueItem, reason: Reason) -> tuple[FileOrder, ...]:
    uri, metadata = item.file_uri, item.metadata
    match reason:
        case Reason.FILE_NOTIFICATION:
            return (ReadFile(uri),)
        case Reason.QUIET:
            return (ReadFile(uri, ReadMode.QUIET),)
        case Reason.BACKFILL:
            return (ReadFile(uri, ignores_horizon=True),)
        case Reason.REBUILD:
            return (ReadFile(uri, ReadMode.WHOLE),)
        case Reason.REINGEST:
            return (ReadFile(uri, ReadMode.AGAIN),)
        case Reason.ALLOW:
            return (AllowFile(uri),)
        case Reason.RELEASE:
            # A key for each part, "release" in items of before that. A part that was rejected since has none any more.
            former = metadata.get("release")
            readings = metadata.get("release_readings") or former == "readings"
            version = metadata.get("release_version") or former == "version"
            released: list[FileOrder] = [ReleaseReadings(uri)] if readings else []
            return (*released, ReleaseVersion(uri)) if version else tuple(released)
        case Reason.PREVIEW:
            return (PreviewFile(uri),)
        case Reason.REMOVE | Reason.RECONCILE | Reason.COMPACT | Reason.COPY:
            # Taken back since, or never about a file.
            return ()
        case _:
            assert_never(reason)
