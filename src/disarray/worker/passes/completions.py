"""What a commit keeps with each file: what was read of it, what was rejected, and what of it stays as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control.commits import RejectedRows
from disarray.kernels.reading.outcome import ReadStatus
from disarray.model.fingerprints import Phase
from disarray.model.segments import datetime_of

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from disarray.control.metadata import Metadata
    from disarray.kernels.reading.outcome import ReadOutcome
    from disarray.model.fragments import FragmentEntry
    from disarray.worker.passes.work import Work


def rejected_rows(source_uri: str, outcome: ReadOutcome) -> RejectedRows:
    """The lines of a file that are no readings, as the commit stores them."""
    return RejectedRows(
        source_uri=source_uri,
        from_position=outcome.seam_position,
        rows=[
            {
                "position": reject.offset,
                "line": reject.line,
                "reason": reject.reason.value,
                "detail": reject.column or "",
                "sample": reject.sample,
            }
            for reject in outcome.rejects
        ],
    )


def about_sealed(fragments: Sequence[FragmentEntry]) -> Metadata:
    """What is kept with a file that was changed or removed after segments that it counted in were sealed."""
    if not fragments:
        return {}
    segments = {fragment.segment_us for fragment in fragments}
    readings = sum(fragment.readings for fragment in fragments)
    return {
        "sealed": {"segments": len(segments), "readings": readings},
        "message": f"{readings} readings in {len(segments)} sealed segments stay as they were counted",
    }


def dataset_read(work: Work, moved: Container[str]) -> Metadata:
    """The dataset that a file was read for: with the subject of its item, that is where it belongs from now on."""
    dataset, outcome = work.assignment.dataset, work.outcome
    if dataset is None or outcome is None or work.item.source_uri in moved:
        return {}
    is_in = outcome.status in (ReadStatus.READ, ReadStatus.UNCHANGED)
    return {"dataset": dataset.name} if is_in else {}


def completion(outcome: ReadOutcome | None, *, is_parked: bool) -> Metadata:
    """What is kept with the file; one that has parked fragments from before stays parked whatever is said here."""
    if outcome is None or outcome.fingerprint is None:
        return {}
    print_ = outcome.fingerprint
    is_version_parked = outcome.status is ReadStatus.PARKED
    metadata: Metadata = {
        "outcome": "parked" if is_parked or is_version_parked else "processed",
        "change": outcome.change.value,
    }
    version: Metadata = {
        "bytes": print_.size,
        "lines": {
            "seen": print_.counts.seen,
            "kept": print_.counts.kept,
            "rejected": print_.counts.rejected,
            "blank": print_.counts.blank,
            "preamble": print_.counts.preamble,
            "waiting": print_.counts.waiting,
        },
    }
    if print_.counts.preamble and print_.end.state.phase is Phase.PREAMBLE:
        # Of a file of another kind every line is taken for preamble: it must not look like one that is empty yet.
        version["lines"]["has_header"] = False
    if outcome.status is not ReadStatus.UNCHANGED:
        version["rejected"] = {reason.value: count for reason, count in outcome.rejects_by_reason.items()}
    if outcome.message:
        metadata["message"] = outcome.message
    if is_version_parked:
        # The version that is in stays the one that is known.
        metadata["parked_hash"] = print_.content_hash
        metadata["parked_version"] = version
        return metadata
    metadata |= version
    metadata["content_hash"] = print_.content_hash
    metadata["parse_version"] = print_.parse_version
    if print_.first_us is not None and print_.last_us is not None:
        metadata["logical_start"] = datetime_of(print_.first_us).isoformat()
        metadata["logical_end"] = datetime_of(print_.last_us).isoformat()
    return metadata
