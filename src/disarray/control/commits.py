"""The one transaction that makes a pass over a subject visible, and how to settle one whose reply was lost."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from disarray.control.calls import call, fetch_value
from disarray.control.records import RecordArray, type_numbers
from disarray.model.fragments import FragmentState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from disarray.control.connections import Connection
    from disarray.control.file_parts import PartDelivery
    from disarray.control.metadata import Metadata
    from disarray.control.queue import Holder, QueueId
    from disarray.control.records import Records
    from disarray.control.resyncs import GenerationSwap
    from disarray.model.catalog_changes import CatalogChanges
    from disarray.model.fingerprints import Fingerprint
    from disarray.model.fragments import FragmentEntry, LakeFile
    from disarray.model.plan import RebuildStep

Row = dict[str, Any]


# A block of a thousand channels with seven metrics: what a late file may move. Some twenty seconds of work in the
# transaction that holds the subject; put off, it would hold the subject as long, and numbers would be stale meanwhile.
MAX_SHIFT_ROWS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class RejectedRows:
    """Rejected lines of a file from a position on, in place of those that were known there."""

    source_uri: str
    from_position: int
    rows: Sequence[Row]


@dataclass(frozen=True, kw_only=True)
class MovedFile:
    """A file that is about another subject under the definition in force: it is queued for that one."""

    source_uri: str
    subject_key: str
    dataset: str
    first_us: int | None = (
        None  # its first reading that counted: numbers of the other subject are stale from there on
    )


@dataclass(frozen=True, kw_only=True)
class LeavingFile:
    """A file that was taken in here or removed, and what it says elsewhere still has to go; None: every generation."""

    source_uri: str
    subject_key: str
    dataset: str
    generation: int | None
    first_us: int


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Segments that were compared with what they were, and the stretches of them in which folds are others now."""

    segments: Sequence[int]
    stretches: Sequence[Row]


@dataclass(frozen=True, kw_only=True)
class DatasetCommit:
    """What changes in one dataset of the subject; rows are keyed like the tables they go to, rollup parts in blocks."""

    dataset: str
    parse_version: str
    scan_version: str
    changes: CatalogChanges
    segments: Sequence[Row]
    metrics: Sequence[Row]
    rollups: Sequence[Row]
    source_uris: Sequence[str]
    restate_before_us: int | None = None
    restates: bool = False  # whether values that people may have used can change
    profile: Profile | None = None  # None: only the ends of series can be compared
    rebuild: RebuildStep | None = None
    store: str = "lake"  # the one that was planned on
    conflicts: Sequence[Row] = ()  # files of the segments that disagree


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFigures:
    """What a commit counts; ``control.figures.Figures`` says what each is. `lateness` is in seconds, by file."""

    files_read: int = 0
    files_unchanged: int = 0
    files_parked: int = 0
    readings_seen: int = 0
    readings_kept: int = 0
    readings_duplicate: int = 0
    readings_rejected: int = 0
    readings_parked: int = 0
    lines_blank: int = 0
    readings_scanned: int = 0
    segments_scanned: int = 0
    late_readings: int = 0
    repair_readings: int = 0
    lateness: Sequence[float] = ()


@dataclass(frozen=True, kw_only=True)
class SubjectCommit:
    """All that one pass has to say about one subject."""

    run_id: UUID
    subject_key: str
    fence: int
    datasets: Sequence[DatasetCommit] = ()
    lake_files: Sequence[LakeFile] = ()
    fingerprints: Mapping[str, Fingerprint] = field(default_factory=dict)
    rejects: Sequence[RejectedRows] = ()
    read_again: Mapping[str, Metadata] = field(default_factory=dict)  # files of a rebuild without an item
    moved: Sequence[MovedFile] = ()
    leaving: Sequence[LeavingFile] = ()  # of other datasets and subjects
    left: Sequence[
        tuple[str, str]
    ] = ()  # dataset and uri of what was to leave this subject and is gone with the commit
    swaps: Sequence[GenerationSwap] = ()  # of generations of deliveries
    parts: Sequence[
        PartDelivery
    ] = ()  # of files about several subjects, for the subjects that they are about
    parts_taken: Sequence[PartDelivery] = ()  # what waited for parts of this subject up to these
    completions: Mapping[QueueId, Metadata] = field(default_factory=dict)
    figures: CommitFigures | None = None
    metadata: Metadata = field(default_factory=dict)
    rows_follow: bool = (
        False  # summaries and rollup parts come by `put_rows`, those of the datasets are empty
    )


@dataclass(frozen=True, slots=True)
class PreparedCommit:
    """A commit as its statements take it, made before the transaction begins: the server waits for no Python."""

    commit: SubjectCommit
    changes: str
    figures: str
    rows: list[str] | None  # by dataset; None: they follow
    profiles: list[str | None]  # by dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetChange:
    """What a commit did to one dataset of its subject.

    Values changed from the segment `frontier_us` on, None where none did; `newest_segment_us` was the newest before.
    """

    dataset: str
    frontier_us: int | None
    newest_segment_us: int | None
    segments_changed: int
    bases_shifted: int
    restatements: int
    changed_segments: list[int] | None = None  # while rows follow: those whose rows are wanted


def prepare_commit(commit: SubjectCommit) -> PreparedCommit:
    """Write down all that a commit sends but the rows that follow it."""
    figures = asdict(commit.figures) if commit.figures else {}
    changes = {
        "metadata": commit.metadata,
        "lake_files": [vars(file) for file in commit.lake_files],
        "datasets": [dataset_document(part) for part in commit.datasets],
        "fingerprints": [
            {
                "source_uri": uri,
                "fingerprint": base64.b64encode(fingerprint.to_bytes()).decode(),
                "content_hash": fingerprint.content_hash,
                "parse_version": fingerprint.parse_version,
            }
            for uri, fingerprint in commit.fingerprints.items()
        ],
        "rejects": [vars(rejected) for rejected in commit.rejects],
        "read_again": [{"source_uri": uri, "result": result} for uri, result in commit.read_again.items()],
        "moved": [vars(moved) for moved in commit.moved],
        "leaving": [vars(leaving) for leaving in commit.leaving],
        "left": [{"dataset": dataset, "source_uri": uri} for dataset, uri in commit.left],
        "swaps": [
            {
                "job_id": swap.job_id,
                "dataset": swap.dataset,
                "staged": swap.staged,
                "former": swap.former,
            }
            for swap in commit.swaps
        ],
        "parts": [_part_document(part) for part in commit.parts],
        "parts_taken": [
            {
                "part_uri": part.part_uri,
                "delivery_no": part.delivery_no,
                "generation": part.fingerprint.generation,
                "parse_version": part.fingerprint.parse_version,
            }
            for part in commit.parts_taken
        ],
        "figures": figures,
        "completions": [
            {"queue_id": queue_id, "metadata": metadata} for queue_id, metadata in commit.completions.items()
        ],
    }
    return PreparedCommit(
        commit,
        # Python writes a float so that the same bits are read back, and PostgreSQL reads it so.
        changes=json.dumps(changes, allow_nan=False),
        figures=json.dumps(figures, allow_nan=False),
        rows=None
        if commit.rows_follow
        else [json.dumps(rows_document(part), allow_nan=False) for part in commit.datasets],
        profiles=[_profile_document(part) for part in commit.datasets],
    )


def commit_subject(
    connection: Connection,
    commit: SubjectCommit | PreparedCommit,
    holder: Holder,
    *,
    max_shift_rows: int = MAX_SHIFT_ROWS,
) -> list[DatasetChange]:
    """Make a pass visible, all of it or nothing. Not idempotent: see ``is_committed``.

    A shift over more than `max_shift_rows` bases is left to an item of its own; until then numbers are stale. Where
    rows follow, it is one step of a transaction that goes on with ``put_rows`` and ends with ``finish_commit``.
    """
    prepared = prepare_commit(commit) if isinstance(commit, SubjectCommit) else commit
    changed = fetch_value(
        connection,
        list,
        "select disarray.commit_subject(%s, %s, %s, %s, %s, %s::json, %s, %s::json[], %s::jsonb[])",
        (
            prepared.commit.run_id,
            prepared.commit.subject_key,
            holder.instance_name,
            holder.incarnation,
            prepared.commit.fence,
            prepared.changes,
            max_shift_rows,
            prepared.rows,
            prepared.profiles,
        ),
    )
    return [DatasetChange(**change) for change in changed]


def put_rows(
    connection: Connection, commit: SubjectCommit, dataset: str, summaries: Records, rollups: Records
) -> None:
    """Some of the rows that follow a commit: records of `scanned_summary` and of `scanned_rollup`."""
    summary_type, rollup_type = type_numbers(connection)
    call(
        connection,
        """
        select disarray.put_rows(
            %s, %s, %s, %s::disarray.scanned_summary[], %s::disarray.scanned_rollup[]
        )
        """,
        (
            commit.run_id,
            commit.subject_key,
            dataset,
            RecordArray(summary_type, summaries),
            RecordArray(rollup_type, rollups),
        ),
    )


def finish_commit(
    connection: Connection,
    prepared: PreparedCommit,
    changes: Sequence[DatasetChange],
    *,
    max_shift_rows: int = MAX_SHIFT_ROWS,
) -> list[DatasetChange]:
    """End a commit whose rows followed: what it changed, now that bases are shifted over them."""
    is_rebuild = any(part.rebuild is not None for part in prepared.commit.datasets)
    done = [asdict(replace(change, changed_segments=None)) for change in changes]
    changed = fetch_value(
        connection,
        list,
        "select disarray.finish_commit(%s, %s, %s, %s::json, %s::jsonb)",
        (
            prepared.commit.run_id,
            prepared.commit.subject_key,
            # The old numbers of a rebuilt subject are gone with this commit: the new ones must be whole with it.
            None if is_rebuild else max_shift_rows,
            prepared.figures,
            json.dumps(done),
        ),
    )
    return [DatasetChange(**change) for change in changed]


def is_committed(connection: Connection, run_id: UUID, subject_key: str) -> bool:
    """Whether a commit whose reply was lost took effect; waits for one that is still under way."""
    return fetch_value(connection, bool, "select disarray.is_committed(%s, %s)", (run_id, subject_key))


def dataset_document(part: DatasetCommit) -> Row:
    """What changes in one dataset but its rows, keyed as `commit_subject` takes it."""
    rebuild = part.rebuild
    return {
        "dataset": part.dataset,
        "store": part.store,
        "parse_version": part.parse_version,
        "scan_version": part.scan_version,
        "restate_before_us": part.restate_before_us,
        "restates": part.restates,
        "source_uris": list(part.source_uris),
        "rebuilt_from": None
        if rebuild is None
        else {"parse_version": rebuild.before.parse, "scan_version": rebuild.before.scan},
        "kept_metrics": [] if rebuild is None else list(rebuild.kept_metrics),
        "kept_rollups": [] if rebuild is None else list(rebuild.kept_rollups),
        "parked_before": sum(fragment.state is FragmentState.PARKED for fragment in part.changes.dropped),
        "added": [fragment_row(fragment) for fragment in part.changes.added],
        "dropped": [fragment.fragment_id for fragment in part.changes.dropped],
        "released": [fragment.fragment_id for fragment in part.changes.released],
        "restored": [
            {"fragment_id": fragment.fragment_id, "state": fragment.state.value}
            for fragment in part.changes.restored
        ],
        **asdict(part.changes.decisions),
        "cut": [
            {"fragment_id": fragment.fragment_id, "cut_position": fragment.cut_position}
            for fragment in part.changes.cut
        ],
        "segments": list(part.segments),
        "conflicts": list(part.conflicts),
    }


def rows_document(part: DatasetCommit) -> Row:
    """Summaries and rollup parts, nearly all that a commit sends; what is NULL is left out."""
    return {
        name: [_without_nulls(row) for row in rows]
        for name, rows in (("metrics", part.metrics), ("rollups", part.rollups))
    }


def _profile_document(part: DatasetCommit) -> str | None:
    return None if part.profile is None else json.dumps(vars(part.profile), allow_nan=False)


def _part_document(part: PartDelivery) -> Row:
    return {
        "part_uri": part.part_uri,
        "parent_uri": part.parent_uri,
        "subject_key": part.subject_key,
        "seam_position": part.seam_position,
        "change": part.change,
        "replacement": part.replacement,
        "content_hash": part.fingerprint.content_hash,
        "parse_version": part.fingerprint.parse_version,
        "generation": part.fingerprint.generation,
        "fragments": list(part.fragments),
        "fingerprint": base64.b64encode(part.fingerprint.to_bytes()).decode(),
    }


def _without_nulls(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}


def fragment_row(fragment: FragmentEntry) -> Row:
    """A fragment keyed like its table."""
    return {
        "segment_us": fragment.segment_us,
        "source_uri": fragment.source_uri,
        "generation": fragment.generation,
        "path": fragment.path,
        "row_group": fragment.row_group,
        "readings": fragment.readings,
        "first_position": fragment.first_position,
        "last_position": fragment.last_position,
        "first_us": fragment.first_us,
        "last_us": fragment.last_us,
        "cut_position": fragment.cut_position,
        "state": fragment.state.value,
        "contradicts": fragment.contradicts,
        "digest": fragment.digest,
        "first_row": fragment.first_row,
    }
