"""The verdict on a backfill: every chunk once more, no gap between them, and the user's own query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from disarray.control import backfill_chunks, backfills
from disarray.control.backfills import Verdict

if TYPE_CHECKING:
    from disarray.backfill.job_session import JobSession
    from disarray.backfill.kind import ChunkCheck

_PAGE = 200
_SHOWN = 20


@dataclass
class Findings:
    """What was found so far; sentences for people, the first few of each kind."""

    chunks: int = 0
    rows: int = 0
    dead: int = 0
    failed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    failed_count: int = 0
    changed_count: int = 0
    rows_changed_since: int = 0

    def fail(self, sentence: str) -> None:
        """Note what must not be."""
        self.failed_count += 1
        if len(self.failed) < _SHOWN:
            self.failed.append(sentence)

    def change(self, sentence: str) -> None:
        """Note what somebody else changed since, so that it cannot be compared."""
        self.changed_count += 1
        if len(self.changed) < _SHOWN:
            self.changed.append(sentence)

    def judge(self, chunk_no: int, check: ChunkCheck) -> None:
        """Note what became of a chunk since it was written."""
        self.chunks += 1
        self.rows += check.rows
        self.rows_changed_since += check.rows_changed_since
        for sentence in check.failed:
            self.fail(f"chunk {chunk_no}: {sentence}")
        for sentence in check.changed:
            self.change(f"chunk {chunk_no}: {sentence}")

    def verdict(self, *, allows_changes: bool) -> Verdict:
        """What follows."""
        if self.failed_count:
            return Verdict.FAILED
        if self.dead:
            return Verdict.INCOMPLETE
        return Verdict.CHANGED if self.changed_count and not allows_changes else Verdict.VERIFIED

    def document(self) -> dict[str, Any]:
        """What is stored with the job."""
        return {
            "chunks": self.chunks,
            "rows": self.rows,
            "dead_chunks": self.dead,
            "failed": self.failed,
            "failed_count": self.failed_count,
            "changed": self.changed,
            "changed_count": self.changed_count,
            "rows_changed_since": self.rows_changed_since,
        }


def judge_job(session: JobSession) -> tuple[Verdict, dict[str, Any]]:
    """Compare every chunk with what is stored now, in the order of the cursor."""
    [job] = backfills.list_backfills(session.control, job_id=session.job_id)
    findings = Findings()
    # What ends where nothing begins was never done: chunks follow each other up to the greatest cursor.
    expected_from, before = None, "the first row"
    after: list[str] | None = None
    while chunks := backfill_chunks.list_backfill_chunks(
        session.control, session.job_id, limit=_PAGE, after=after
    ):
        for chunk in chunks:
            if chunk.cursor_from != expected_from:
                findings.fail(
                    f"what lies between {before} and chunk {chunk.chunk_no} was never done: a chunk is lost"
                )
            expected_from, before = chunk.cursor_to, f"chunk {chunk.chunk_no}"
            if chunk.state == "done":
                findings.judge(chunk.chunk_no, session.kind.verify(session.target, chunk))
            else:
                findings.dead += 1
        after = [str(chunks[-1].place)]
    if expected_from != job.cursor_end:
        findings.fail(f"what lies behind {before} was never done: a chunk is lost")
    answer = session.kind.answer(session.target)
    if answer != job.answer_before:
        findings.fail("verification.checksum_query answers otherwise than before the first chunk")
    details = findings.document() | {"answer_before": job.answer_before, "answer_after": answer}
    return findings.verdict(allows_changes=session.spec.allows_changes), details
