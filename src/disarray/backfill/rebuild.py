"""The kind `rebuild`: subjects are moved to the definition in force one after the other, and compared afterwards.

A chunk queues the order that moves its subject, in the backfill lane, and is done when the commit of that order is. The
commit is the effect, under the fence of whoever has the order, and old numbers are served until then. A chunk that is
repeated finds the subject moved. What it says of itself is what a replay of the subject found right after.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from disarray.backfill.kind import ChunkCheck, Extent
from disarray.backfill.order_wait import await_order
from disarray.backfill.replay import chunk_result, refuse_other_definitions, subject_cut
from disarray.control import definitions, rebuilds, status
from disarray.engine.replay.subject_replay import replay_subject
from disarray.errors import HandedBackError
from disarray.failpoints import failpoint
from disarray.model.segments import FIRST_US, LAST_US, datetime_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.backfill.description import RebuildSpec
    from disarray.backfill.kind import Cut
    from disarray.backfill.replay import ReplayMeans
    from disarray.control.backfill_chunks import ChunkRecord, ChunkResult, HeldChunk
    from disarray.control.connections import Connection


@dataclass(frozen=True)
class RebuildKind:
    """At work on the subjects of one job."""

    spec: RebuildSpec
    means: ReplayMeans

    @property
    def can_be_undone(self) -> bool:
        """A subject that is moved stays moved."""
        return False

    def extent(self, connection: Connection) -> Extent:
        """The subjects that wait for the definition in force."""
        found = rebuilds.measure_pending_rebuilds(connection, **self._chosen)
        return Extent(last=found.last, rows=found.readings, is_estimate=False, bytes=0)

    def cut(
        self, connection: Connection, after: Sequence[str] | None, *, end: Sequence[str], rows: int
    ) -> Cut:
        """The next subject that waits; one that was moved meanwhile, with a file that came, is not cut any more."""
        return subject_cut(rebuilds.next_pending_rebuild(connection, after, **self._chosen), end)

    def read(self, connection: Connection, chunk: HeldChunk) -> object:
        """Have the subject moved, and replay it as it is then."""
        subject_key, dataset = chunk.cursor_to
        self._await_swap(connection, dataset, subject_key)
        failpoint("rebuild.swapped", connection, about=subject_key)
        return replay_subject(
            connection,
            self.means.runner,
            self.means.datasets[dataset],
            subject_key,
            lake=self.means.lake,
            from_us=FIRST_US,
            to_us=LAST_US,
            on_step=self._go_on,
        )

    def write(self, connection: Connection, chunk: HeldChunk, known: object) -> ChunkResult:
        """What was found becomes what the chunk says of itself."""
        return chunk_result(chunk, known)

    def answer(self, connection: Connection) -> Any:
        """A rebuild has no query of a user."""
        return None

    def verify(self, connection: Connection, chunk: ChunkRecord) -> ChunkCheck:
        """Whether the subject is of the definition that the job moved it to, and what its replay found."""
        details = chunk.details or {}
        name, subject_key = details["dataset"], details["subject_key"]
        where = f"{name}/{subject_key}"
        made = definitions.load_subject_versions(connection, [subject_key]).get((name, subject_key))
        failed: list[str] = []
        changed: list[str] = []
        if made is not None and (made.version.parse, made.version.scan) != self.spec.rebuild.versions[name]:
            sentence = f"{where}: its numbers are of another definition"
            (failed if made.is_in_force is False else changed).append(sentence)
        if details["differences"]:
            failed.append(f"{where}: numbers that differ: {details['differences']}")
        if details["not_compared"]:
            changed.append(f"{where}: not all of it could be compared")
        return ChunkCheck(rows=details["readings"], failed=tuple(failed), changed=tuple(changed))

    def _await_swap(self, connection: Connection, dataset: str, subject_key: str) -> None:
        since = datetime_of(status.current_us(connection))
        queue = partial(definitions.queue_rebuilds, connection, dataset=dataset, subject_key=subject_key)
        find = partial(rebuilds.rebuild_progress, connection, dataset, subject_key, since=since)
        await_order(find, queue=queue, on_look=self._go_on)

    def _go_on(self) -> None:
        if self.means.is_over():
            raise HandedBackError(
                "the process ends: the subject is given back, and its order stays in the queue"
            )

    @property
    def _chosen(self) -> dict[str, Any]:
        return {"datasets": sorted(self.spec.rebuild.versions), "subjects": self.spec.rebuild.subjects}


def open_rebuild(spec: RebuildSpec, means: ReplayMeans) -> RebuildKind:
    """At work towards the definitions that the job was started with; refused where this process has others."""
    refuse_other_definitions(spec.name, spec.rebuild.versions, means)
    return RebuildKind(spec, means)
