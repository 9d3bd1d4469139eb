"""The kind `replay`: a chunk is one dataset of one subject, made once more from its files and compared.

Its effect is what was found, stored with the chunk; numbers are never changed by it. What is to be taken over is read
again by orders of the queue (`applying.py`), so that the ledger tells of it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from disarray.backfill.kind import ChunkCheck, Cut, Extent
from disarray.control import replays, status
from disarray.control.backfill_chunks import ChunkResult
from disarray.engine.replay.subject_replay import replay_subject
from disarray.errors import ConfigError, HandedBackError
from disarray.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from disarray.backfill.description import Replay, ReplaySpec
    from disarray.control.backfill_chunks import ChunkRecord, HeldChunk
    from disarray.control.connections import Connection
    from disarray.control.replays import ReplayedSubject
    from disarray.engine.replay.subject_findings import SubjectReplayed
    from disarray.engine.runner import Runner
    from disarray.model.description.dataset import Dataset
    from disarray.store.lake import Lake

# What a chunk says of itself is stored in its row.
MAX_DETAILS_BYTES = 90_000
_FEWEST_FINDINGS = 10


@dataclass(frozen=True, slots=True)
class ReplayMeans:
    """What a replay needs beside a database: a runner of kernels, the lake, and the definitions to replay under."""

    runner: Runner
    lake: Lake
    datasets: Mapping[str, Dataset]
    is_over: Callable[[], bool] = lambda: False  # whether a subject at work is to be given back


@dataclass(frozen=True)
class ReplayKind:
    """At work on the subjects of one job."""

    spec: ReplaySpec
    means: ReplayMeans

    @property
    def can_be_undone(self) -> bool:
        """Nothing is changed that would have to be undone."""
        return True

    def extent(self, connection: Connection) -> Extent:
        """How many readings the span has, and the last subject of it."""
        found = replays.measure_replay(connection, **self._chosen)
        return Extent(last=found.last, rows=found.readings, is_estimate=False, bytes=0)

    def cut(
        self, connection: Connection, after: Sequence[str] | None, *, end: Sequence[str], rows: int
    ) -> Cut:
        """The next subject, whole, however many readings it has: bases are carried on from segment to segment."""
        return subject_cut(replays.next_replayed_subject(connection, after, **self._chosen), end)

    def read(self, connection: Connection, chunk: HeldChunk) -> object:
        """Replay the subject; nothing is changed."""
        subject_key, dataset = chunk.cursor_to
        found = replay_subject(
            connection,
            self.means.runner,
            self.means.datasets[dataset],
            subject_key,
            lake=self.means.lake,
            from_us=self.spec.replay.from_us,
            to_us=self.spec.replay.to_us,
            on_step=self._go_on,
        )
        failpoint("replay.compared", connection, about=subject_key)
        return found

    def write(self, connection: Connection, chunk: HeldChunk, known: object) -> ChunkResult:
        """What was found becomes what the chunk says of itself."""
        return chunk_result(chunk, known)

    def answer(self, connection: Connection) -> Any:
        """A replay has no query of a user."""
        return None

    def verify(self, connection: Connection, chunk: ChunkRecord) -> ChunkCheck:
        """What was found when the chunk was compared: it is not compared again."""
        details = chunk.details or {}
        where = f"{details['dataset']}/{details['subject_key']}"
        failed, changed = [], []
        if details["differences"]:
            failed.append(f"{where}: numbers that differ: {details['differences']}")
        if details["not_compared"]:
            changed.append(f"{where}: not all of it could be compared")
        if details["unproven"] and not self.spec.replay.allows_vanished:
            changed.append(f"{where}: files that can no longer be read as they were: {details['unproven']}")
        return ChunkCheck(rows=details["readings"], failed=tuple(failed), changed=tuple(changed))

    def _go_on(self) -> None:
        if self.means.is_over():
            raise HandedBackError("the time is up: the subject is given back, and nothing of it is stored")

    @property
    def _chosen(self) -> dict[str, Any]:
        replay = self.spec.replay
        return {
            "datasets": sorted(replay.versions),
            "subjects": replay.subjects,
            "from_us": replay.from_us,
            "to_us": replay.to_us,
        }


def chunk_result(chunk: HeldChunk, known: object) -> ChunkResult:
    """What a replay of a subject found, as the chunk keeps it."""
    found: SubjectReplayed = known  # type: ignore[assignment]
    subject_key, dataset = chunk.cursor_to
    details = {"subject_key": subject_key, "dataset": dataset, **_document(found)}
    return ChunkResult(
        rows_written=found.differences,
        rows_read_again=found.unproven + found.not_compared,
        rows_after=found.readings,
        checksum=hashlib.md5(json.dumps(details).encode(), usedforsecurity=False).hexdigest(),
        details=details,
    )


def subject_cut(found: ReplayedSubject | None, end: Sequence[str]) -> Cut:
    """One subject as a chunk, however many readings it has; where none is left, nothing up to the end."""
    if found is None:
        return Cut(tuple(end), 0, is_last=True)
    to = found.subject_key, found.dataset
    return Cut(to, found.readings, is_last=to == tuple(end))


def open_replay(spec: ReplaySpec, means: ReplayMeans) -> ReplayKind:
    """At work under the definitions that the job was started with; refused where this process has others."""
    refuse_other_definitions(spec.name, spec.replay.versions, means)
    return ReplayKind(spec, means)


def refuse_other_definitions(
    job_name: str, versions: Mapping[str, tuple[str, str]], means: ReplayMeans
) -> None:
    """Refuse to work on a job under other definitions than it was started with."""
    for name, version in versions.items():
        described = means.datasets.get(name)
        if described is None or (described.parse_version, described.scan_version) != tuple(version):
            raise ConfigError(
                f"backfill '{job_name}' is about a definition of dataset '{name}' that is not described here. "
                "Nothing was changed; go on with it where it was started, or cancel it"
            )


def resolved(connection: Connection, spec: ReplaySpec, datasets: Mapping[str, Dataset]) -> ReplaySpec:
    """The description with all that its start decides: the span, and the definitions to replay under."""
    asked: Replay = spec.replay
    unknown = sorted({*(asked.datasets or ())} - datasets.keys())
    if unknown:
        raise ConfigError(
            f"backfill '{spec.name}' replays dataset '{unknown[0]}', which disarray.toml does not describe. Nothing "
            "was started"
        )
    from_us = asked.from_us if asked.last_us is None else status.current_us(connection) - asked.last_us
    chosen = sorted(asked.datasets or datasets)
    versions = {name: (datasets[name].parse_version, datasets[name].scan_version) for name in chosen}
    return replace(spec, replay=replace(asked, from_us=from_us, versions=versions))


def _document(found: SubjectReplayed) -> dict[str, Any]:
    """What was found, with as many findings and segments to make anew as there is room for; all are counted.

    Segments come before findings: what is not kept of them cannot be taken over, and is `left`.
    """
    counts = {
        name: getattr(found, name)
        for name in (
            *("files", "segments", "readings", "bases", "rollup_parts"),
            *("differences", "unproven", "not_compared"),
        )
    }
    findings = [asdict(each) for each in found.findings]
    # Without a file that can be read again nothing makes a segment anew.
    segments = sorted(at_us for at_us, files in found.to_make_anew.items() if files)

    def document() -> dict[str, Any]:
        files = sorted({uri for at_us in segments for uri in found.to_make_anew[at_us]})
        anew = {"segments": segments, "files": files, "left": len(found.to_make_anew) - len(segments)}
        return {"findings": findings, "to_make_anew": anew}

    while len(json.dumps(document())) > MAX_DETAILS_BYTES and (findings or segments):
        if len(findings) > _FEWEST_FINDINGS or not segments:
            findings = findings[: len(findings) // 2]
        else:
            segments = segments[: len(segments) // 2]
    return counts | document()
