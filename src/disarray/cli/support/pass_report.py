"""What a pass did to a subject, and which rows of a file it rejected: for programs, and as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disarray.cli.support.rendering import counted, json_instant

if TYPE_CHECKING:
    from disarray.worker.passes.report import CommittedPlan, FileRejects
    from disarray.worker.workplace import Workplace


def pass_document(place: Workplace, committed: CommittedPlan) -> dict[str, Any]:
    """A committed plan for programs."""
    from disarray.control.catalog import load_segments
    from disarray.model.segments import LAST_US

    plan, change = committed.plan, committed.change
    scanned = {unit.segment_us for unit in plan.units}
    to_the_right = 0
    if change.frontier_us is not None:
        with place.pool.connection() as connection:
            segments = load_segments(
                connection, plan.dataset, plan.subject_key, from_us=change.frontier_us + 1, to_us=LAST_US
            )
        to_the_right = sum(segment.readings for segment in segments if segment.segment_us not in scanned)
    return {
        "dataset": plan.dataset,
        "subject": plan.subject_key,
        "arrival": committed.arrival.value,
        "changed_from": json_instant(change.frontier_us),
        "segments_scanned": len(plan.units),
        "segments_changed": change.segments_changed,
        "readings_scanned": sum(unit.readings for unit in plan.units),
        "bases_shifted": change.bases_shifted,
        "readings_to_the_right": to_the_right,
        "restatements": change.restatements,
        "conflicts_won": committed.conflicts[0],
        "conflicts_lost": committed.conflicts[1],
    }


def pass_sentence(done: dict[str, Any]) -> str:
    """The document of a pass as one sentence."""
    text = (
        f"{done['subject']} ({done['dataset']}): {done['arrival']}, {counted(done['segments_scanned'], 'segment')} "
        f"scanned ({counted(done['readings_scanned'], 'reading')})"
    )
    if done["changed_from"] is not None:
        text += f", changed from {done['changed_from']} on"
    if done["arrival"] == "late":
        text += (
            f"; {counted(done['bases_shifted'], 'base')} shifted, "
            f"{counted(done['readings_to_the_right'], 'reading')} to the right untouched, "
            f"{done['restatements']:,} series restated"
        )
    elif done["restatements"]:
        text += f"; {done['restatements']:,} series restated"
    won, lost = done["conflicts_won"], done["conflicts_lost"]
    if won or lost:
        text += f"; {disagreement(won, lost)}. See: disarray conflicts {done['subject']}"
    return text


def disagreement(won: int, lost: int) -> str:
    """How many readings of the files that come say something else than other files under the same key."""
    return f"{counted(won + lost, 'reading', verb='disagree')} with other files, {won:,} of them count"


def rejects_document(rejects: FileRejects) -> dict[str, Any]:
    """What was rejected in a file, for programs."""
    first = rejects.first
    return {
        "file": rejects.source_uri,
        "rejected": rejects.rejected,
        "rows": rejects.rows,
        "first_line": first.line,
        "reason": first.reason.value,
        "column": first.column,
    }


def rejects_sentence(rejected: dict[str, Any]) -> str:
    """The same for people, with the command that shows the lines."""
    return f"{rejects_summary(rejected)}. See: disarray files show {rejected['file']}"


def rejects_summary(rejected: dict[str, Any]) -> str:
    """How many rows of a file were rejected, and where the first is."""
    where = f" in column {rejected['column']!r}" if rejected["column"] else ""
    return (
        f"rejected: {rejected['rejected']:,} of {counted(rejected['rows'], 'row')} of {rejected['file']}; the first is "
        f"line {rejected['first_line']:,}, {rejected['reason']}{where}"
    )
