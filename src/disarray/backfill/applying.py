"""What a replay found, taken over: files are read again by orders of the queue, and the ledger tells what changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.backfill.description import ReplaySpec, spec_of_document
from disarray.control import backfill_chunks, backfills, definitions, files, replays
from disarray.errors import InvalidRequestError

if TYPE_CHECKING:
    from disarray.control.connections import Connection

_PAGE = 200


@dataclass(frozen=True, slots=True)
class Applied:
    """How many files are queued to be read again, and how many subjects to be rebuilt.

    Segments that are left differ still: no file of theirs can be read again, or they are more than one replay keeps.
    """

    files: int
    rebuilds: int
    segments_left: int


def apply_replay(connection: Connection, job_id: int, *, reason: str, by: str) -> Applied:
    """Queue what makes the numbers that a replay found; twice asked, it is queued once.

    Only under a definition that is in force: another one is put in force by a rebuild, which makes all numbers anew.
    """
    [job] = backfills.list_backfills(connection, job_id=job_id)
    spec = spec_of_document(job.kind, job.description)
    if not isinstance(spec, ReplaySpec):
        raise InvalidRequestError(
            f"backfill job {job_id} is no replay: it has nothing to apply. Nothing was changed"
        )
    for name, version in spec.replay.versions.items():
        in_force = definitions.definition_in_force(connection, name)
        if in_force is not None and (in_force.parse, in_force.scan) != tuple(version):
            raise InvalidRequestError(
                f"backfill job {job_id} replayed dataset '{name}' under a definition that is not in force. Nothing "
                "was changed. To put that of disarray.toml in force, and make all numbers anew: disarray rebuild "
                f"--dataset {name}"
            )
    queued: set[str] = set()
    rebuilds = segments_left = 0
    after: list[str] | None = None
    while chunks := backfill_chunks.list_backfill_chunks(
        connection, job_id, state="done", limit=_PAGE, after=after
    ):
        for chunk in chunks:
            details = chunk.details or {}
            if not details.get("differences"):
                continue
            # Numbers of a former definition are made anew by the rebuild that they wait for.
            rebuilt = definitions.queue_rebuilds(
                connection, dataset=details["dataset"], subject_key=details["subject_key"]
            )
            rebuilds += rebuilt
            if rebuilt:
                continue
            anew = details["to_make_anew"]
            segments_left += anew["left"]
            replays.distrust_segments(
                connection, details["dataset"], details["subject_key"], segments=anew["segments"]
            )
            queued |= {
                uri
                for uri in anew["files"]
                if files.reingest_file(connection, uri, reason=reason, by=by) is not None
            }
        after = [str(chunks[-1].chunk_no)]
    replays.note_backfill_applied(
        connection, job_id, files=len(queued), rebuilds=rebuilds, reason=reason, by=by
    )
    return Applied(len(queued), rebuilds, segments_left)
