"""One thread at work on one job: cut ahead, claim, process, and verify when every chunk has ended.

A chunk's effect and its end are one transaction where the table is in the database of disarray. Elsewhere the effect
and a mark are one transaction of the user's database, made while the row of the chunk is locked here: repeated, the
mark tells that the effect is there, and only the end is made up for.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, assert_never

from disarray.backfill.health import Strain, hold_of
from disarray.backfill.pacing import Pace, next_pace, retry_delay
from disarray.backfill.user_database.session import load_strain, make_durable
from disarray.backfill.verification import judge_job
from disarray.control import backfill_chunks, backfill_verifications, backfills
from disarray.control.backfill_chunks import ChunkResult, ClaimOutcome, FailureLimits, HeldChunk
from disarray.control.connections import transaction
from disarray.errors import (
    BackfillTargetError,
    ControlError,
    DatabaseBusyError,
    DatabaseUnavailableError,
    HandedBackError,
    LeaseLostError,
    TimeLimitError,
)
from disarray.failpoints import failpoint

if TYPE_CHECKING:
    from disarray.backfill.health import Hold
    from disarray.backfill.job_session import JobSession
    from disarray.control.backfill_chunks import ChunkClaim
    from disarray.control.connections import Connection
    from disarray.control.queue import Holder

log = logging.getLogger(__name__)

_HEALTH_SECONDS = 1.0
# Chunks that one thread cuts between two of its own: it never falls behind, and never cuts for long.
_CUTS = 2


@dataclass(frozen=True, slots=True)
class Step:
    """What came of one step: whether there may be more to do, and how long to wait before."""

    goes_on: bool
    wait_seconds: float = 0.0


class ChunkWorker:
    """Works on one job until it has ended; any number of them may work on it at once, in any number of processes."""

    def __init__(self, session: JobSession, holder: Holder, *, lease_seconds: int) -> None:
        self._session = session
        self._holder = holder
        self._lease_seconds = lease_seconds
        self._spec = session.spec
        self._limits = FailureLimits(
            max_attempts=session.spec.processing.retry.max_attempts,
            max_error_rate=session.spec.processing.max_error_rate,
            alert_threshold=session.spec.alert_threshold,
        )
        self._healthy_until = 0.0

    def step(self) -> Step:
        """Do what is next."""
        control, job_id = self._session.control, self._session.job_id
        if (hold := self._hold()) is not None:
            backfills.note_backfill_hold(control, job_id, hold.held_by, hold.reason)
            return Step(True, _HEALTH_SECONDS)
        try:
            self._cut_ahead()
        except BackfillTargetError as error:
            backfills.stop_backfill(control, job_id, str(error))
            return Step(False)
        claim = backfill_chunks.claim_backfill_chunk(
            control,
            job_id,
            self._holder,
            lease_seconds=self._lease_seconds,
            limits=self._limits,
        )
        outcome = ClaimOutcome(claim.outcome)
        match outcome:
            case ClaimOutcome.CLAIMED:
                failpoint("backfill.claimed", control)
                self._process(_held(claim, job_id, self._holder), claim)
                return Step(True)
            case ClaimOutcome.RATE | ClaimOutcome.CONCURRENCY | ClaimOutcome.RETRY | ClaimOutcome.NONE:
                return Step(True, claim.wait_seconds)
            case ClaimOutcome.OVER | ClaimOutcome.STOPPED:
                # Stopped is also one that is being verified: by somebody who may be gone.
                self.verify()
                return Step(False)
            case _:
                assert_never(outcome)

    def verify(self, *, is_asked_for: bool = False) -> bool:
        """Compare the whole and store the verdict; False where a chunk has not ended or somebody else does it."""
        control, job_id = self._session.control, self._session.job_id
        fence = backfill_verifications.claim_backfill_verification(
            control, job_id, self._holder, lease_seconds=self._lease_seconds, is_asked_for=is_asked_for
        )
        if fence is None:
            return False
        failpoint("backfill.verifying", control)

        def renew(connection: Connection) -> None:
            backfill_verifications.renew_backfill_verification(
                connection, job_id, self._holder, fence=fence, lease_seconds=self._lease_seconds
            )

        try:
            with self._session.keeper.keeping(renew):
                verdict, details = judge_job(self._session)
            failpoint("backfill.judged", control)
            with transaction(control):
                make_durable(control)
                backfill_verifications.record_backfill_verdict(
                    control, job_id, self._holder, fence=fence, verdict=verdict, details=details
                )
        except LeaseLostError as error:
            log.warning("%s", error)
            return False
        except (BackfillTargetError, TimeLimitError) as error:
            # What takes longer than a statement may would take as long the next time.
            backfills.stop_backfill(control, job_id, f"it could not be verified: {error}")
            return True
        log.info("backfill %s (job %d) has ended: %s", self._spec.name, job_id, verdict)
        return True

    def _hold(self) -> Hold | None:
        if time.monotonic() < self._healthy_until:
            return None
        live = backfills.live_health(self._session.control)
        lock_waits, lag = load_strain(self._session.target)
        hold = hold_of(
            Strain(
                commit_p99_seconds=live.commit_p99_seconds,
                queue_age_seconds=live.queue_age_seconds,
                lock_waits=lock_waits,
                replication_lag_seconds=lag,
            ),
            self._spec.health,
        )
        if hold is None:
            self._healthy_until = time.monotonic() + _HEALTH_SECONDS
        return hold

    def _cut_ahead(self) -> None:
        session = self._session
        for _ in range(_CUTS):
            failpoint("backfill.scan", session.control)
            with transaction(session.control):
                turn = backfill_chunks.lock_backfill_scan(
                    session.control, session.job_id, ahead=self._spec.processing.cut_ahead
                )
                if turn is None:
                    return
                cut = session.kind.cut(
                    session.target, turn.scan_after, end=turn.cursor_end, rows=turn.chunk_rows
                )
                if cut is None:
                    return
                backfill_chunks.add_backfill_chunk(
                    session.control,
                    session.job_id,
                    cursor_to=cut.to,
                    rows=cut.rows,
                    is_last=cut.is_last,
                )
                failpoint("backfill.cut", session.control)
            failpoint("backfill.scanned", session.control)

    def _process(self, chunk: HeldChunk, claim: ChunkClaim) -> None:
        def renew(connection: Connection) -> None:
            backfill_chunks.renew_backfill_chunk(connection, chunk, lease_seconds=self._lease_seconds)

        try:
            with self._session.keeper.keeping(renew):
                known = self._session.kind.read(self._session.target, chunk)
                failpoint("backfill.read", self._session.target)
                if self._session.marks is None:
                    self._commit_here(chunk, claim, known)
                else:
                    self._commit_elsewhere(chunk, claim, known)
            failpoint("backfill.committed", self._session.control)
        except LeaseLostError as error:
            log.warning("%s", error)
        except DatabaseUnavailableError as error:
            # Where our own database is away too, the lease runs out.
            with suppress(ControlError):
                self._fail(chunk, str(error), is_to_blame=False)
            raise
        except TimeLimitError as error:
            self._shorten(chunk, str(error))
        except (DatabaseBusyError, HandedBackError) as error:
            self._fail(chunk, str(error), is_to_blame=False)
        except BackfillTargetError as error:
            # Who holds the chunk no longer has nothing to say about the job: another found it fit since.
            if self._fail(chunk, str(error), is_to_blame=False):
                backfills.stop_backfill(self._session.control, self._session.job_id, str(error))
        except Exception as error:
            self._fail(chunk, str(error) or type(error).__name__, is_to_blame=True)

    def _shorten(self, chunk: HeldChunk, error: str) -> None:
        """Cut a chunk that takes longer than the server lets it; one that cannot be cut is to blame itself.

        In another database it is not cut: whoever froze with the whole of it could still leave its mark there.
        """
        session, smallest = self._session, self._spec.processing.min_rows
        rows = max(chunk.rows_cut // 2, smallest)
        if session.marks is None and chunk.rows_cut > smallest:
            cut = session.kind.cut(session.target, chunk.cursor_from, end=chunk.cursor_to, rows=rows)
            if cut is not None and cut.to != chunk.cursor_to and cut.rows:
                with suppress(LeaseLostError):
                    backfill_chunks.cut_backfill_chunk(
                        session.control, chunk, error, cursor_to=cut.to, rows=cut.rows
                    )
                    log.warning("chunk %d of backfill %s was cut: %s", chunk.chunk_no, self._spec.name, error)
                return
        self._fail(
            chunk,
            f"{error} It has {chunk.rows_cut} rows and is not cut further: lower processing.max_batch_size, or raise "
            "worker.lease, of which a statement may take nearly a half",
            is_to_blame=True,
        )

    def _commit_here(self, chunk: HeldChunk, claim: ChunkClaim, known: object) -> None:
        connection = self._session.control
        began = time.monotonic()
        with transaction(connection):
            make_durable(connection)
            backfill_chunks.hold_backfill_chunk(connection, chunk)
            result = self._session.kind.write(connection, chunk, known)
            failpoint("backfill.written", connection)
            self._complete(chunk, claim, result, seconds=time.monotonic() - began)
            failpoint("backfill.completed", connection)

    def _commit_elsewhere(self, chunk: HeldChunk, claim: ChunkClaim, known: object) -> None:
        session = self._session
        assert session.marks is not None
        began = time.monotonic()
        with transaction(session.control):
            # Held until the effect is committed there: nobody else has this chunk meanwhile.
            backfill_chunks.hold_backfill_chunk(session.control, chunk)
            with transaction(session.target):
                before = session.marks.begin(session.target, chunk.chunk_no)
                if before is None:
                    result = session.kind.write(session.target, chunk, known)
                    session.marks.end(session.target, chunk.chunk_no, asdict(result))
                else:
                    result = ChunkResult(**before)
                failpoint("backfill.written", session.target)
            failpoint("backfill.marked", session.control)
            self._complete(chunk, claim, result, seconds=time.monotonic() - began)
            failpoint("backfill.completed", session.control)

    def _complete(self, chunk: HeldChunk, claim: ChunkClaim, result: ChunkResult, *, seconds: float) -> None:
        pace = next_pace(
            Pace(claim.seconds_per_row, claim.chunk_rows),
            rows=chunk.rows_cut,
            seconds=seconds,
            processing=self._spec.processing,
            rate_limit=claim.rate_limit,
        )
        backfill_chunks.complete_backfill_chunk(
            self._session.control,
            chunk,
            result,
            seconds=seconds,
            seconds_per_row=pace.seconds_per_row,
            chunk_rows=pace.chunk_rows,
        )

    def _fail(self, chunk: HeldChunk, error: str, *, is_to_blame: bool) -> bool:
        """Give a chunk back; False where it is held no longer."""
        policy = self._spec.processing.retry
        try:
            state = backfill_chunks.fail_backfill_chunk(
                self._session.control,
                chunk,
                error,
                retry_delay_seconds=retry_delay(policy, chunk.attempts if is_to_blame else 1),
                is_to_blame=is_to_blame,
                limits=self._limits,
            )
        except LeaseLostError as lost:
            log.warning("%s", lost)
            return False
        log.warning("chunk %d of backfill %s is %s: %s", chunk.chunk_no, self._spec.name, state, error)
        return True


def _held(claim: ChunkClaim, job_id: int, holder: Holder) -> HeldChunk:
    assert claim.chunk_no is not None
    assert claim.cursor_to is not None
    assert claim.rows_cut is not None
    assert claim.attempts is not None
    assert claim.fence is not None
    return HeldChunk(
        job_id=job_id,
        chunk_no=claim.chunk_no,
        cursor_from=None if claim.cursor_from is None else tuple(claim.cursor_from),
        cursor_to=tuple(claim.cursor_to),
        rows_cut=claim.rows_cut,
        attempts=claim.attempts,
        fence=claim.fence,
        holder=holder,
    )
