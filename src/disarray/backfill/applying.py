"""What a replay found, taken over: files are read again by orders of the queue, and the ledger tells what changes.

A subject is one transaction, in which it is noted as taken over: nobody waits for the other subjects of a job, and
whoever is killed on the way leaves what comes next to the same command.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.backfill.description import ReplaySpec
from disarray.backfill.stored_description import spec_of_document
from disarray.control import backfill_chunks, backfills, definitions, files, replays
from disarray.control.connections import transaction, undone
from disarray.errors import InvalidRequestError
from disarray.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from disarray.control.connections import Connection

_PAGE = 200


@dataclass(frozen=True, slots=True)
class Applied:
    """How many files are queued to be read again, and how many subjects to be rebuilt.

    Segments that are left differ still: no file of theirs can be read again, or they are more than one replay keeps.
    Subjects of before were taken over by an earlier command.
    """

    files: int
    rebuilds: int
    segments_left: int
    subjects_before: int = 0


def apply_replay(
    connection: Connection, job_id: int, *, reason: str, by: str, is_rehearsal: bool = False
) -> Applied:
    """Queue what makes the numbers that a replay found, subject by subject; twice asked, it is queued once.

    Only under a definition that is in force: another one is put in force by a rebuild, which makes all numbers anew.
    """
    _refuse_unfit_job(connection, job_id)
    queued: set[str] = set()
    rebuilds = segments_left = subjects_before = 0
    for chunk_no, details in _differing_subjects(connection, job_id):
        with undone(connection) if is_rehearsal else transaction(connection):
            if not replays.begin_applying(connection, job_id, chunk_no):
                subjects_before += 1
                continue
            # Numbers of a former definition are made anew by the rebuild that they wait for.
            rebuilt = definitions.queue_rebuilds(
                connection, dataset=details["dataset"], subject_key=details["subject_key"]
            )
            found = set() if rebuilt else _queue_files(connection, details, reason=reason, by=by)
            replays.note_backfill_applied(
                connection, job_id, files=len(found), rebuilds=rebuilt, reason=reason, by=by
            )
        failpoint("replay.applied", connection, about=details["subject_key"])
        queued |= found
        rebuilds += rebuilt
        segments_left += 0 if rebuilt else details["to_make_anew"]["left"]
    return Applied(len(queued), rebuilds, segments_left, subjects_before)


def _refuse_unfit_job(connection: Connection, job_id: int) -> None:
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


def _differing_subjects(connection: Connection, job_id: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
    after: list[str] | None = None
    while chunks := backfill_chunks.list_backfill_chunks(
        connection, job_id, state="done", limit=_PAGE, after=after
    ):
        for chunk in chunks:
            if chunk.details and chunk.details.get("differences"):
                yield chunk.chunk_no, chunk.details
        after = [str(chunks[-1].place)]


def _queue_files(connection: Connection, details: Mapping[str, Any], *, reason: str, by: str) -> set[str]:
    """Have the files of the differing segments read again, whose numbers are believed no more."""
    anew = details["to_make_anew"]
    replays.distrust_segments(
        connection, details["dataset"], details["subject_key"], segments=anew["segments"]
    )
    return {
        uri for uri in anew["files"] if files.reingest_file(connection, uri, reason=reason, by=by) is not None
    }
