"""The kind `republish`: all subjects of a destination are loaded anew, and compared with what is answered here."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from disarray.backfill.checksum import add_checksums
from disarray.backfill.kind import ChunkCheck, Cut, Extent
from disarray.backfill.target_rows import answered_rows, target_rows
from disarray.control import destinations
from disarray.control.backfill_chunks import ChunkResult
from disarray.errors import (
    BackfillChunkError,
    BackfillTargetError,
    DatabaseBusyError,
    DatabaseUnavailableError,
    DefinitionChangedError,
    DestinationConflictError,
    DestinationMisfitError,
    DestinationUnavailableError,
    DisarrayError,
    ExcessiveDeletesError,
    HandedBackError,
    InvalidRequestError,
    ReadingsGoneError,
    UnloadableRowsError,
)
from disarray.failpoints import failpoint
from disarray.sinks.destination_changes import EVERYTHING, without

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from disarray.backfill.description import RepublishSpec
    from disarray.control.backfill_chunks import ChunkRecord, HeldChunk
    from disarray.control.connections import Connection
    from disarray.control.destinations import SubjectPosition
    from disarray.sinks.destination_loader import DestinationLoader

# How often a subject is compared anew because it was loaded meanwhile.
_COMPARISONS = 5
_ALL = 1_000_000


@dataclass(frozen=True, slots=True)
class LoadedSubject:
    """A subject that was loaded anew: how many rows changed, and what the target has of it then."""

    subject_key: str
    rows_loaded: int
    rows: int
    checksum: str


@dataclass(frozen=True)
class RepublishKind:
    """At work on one destination. A row is a subject; a load that is repeated is harmless, so it precedes the end."""

    spec: RepublishSpec
    loader: DestinationLoader
    is_over: Callable[[], bool] = lambda: False  # whether the tasks at work are broken off

    @property
    def can_be_undone(self) -> bool:
        """What is loaded is committed where it is loaded."""
        return False

    def extent(self, connection: Connection) -> Extent:
        """How many subjects the destination has."""
        with self._guarded():
            size = destinations.measure_destination(connection, self.spec.destination)
            with self.loader.open_checked():
                pass
        last = None if size.last_subject is None else (size.last_subject,)
        return Extent(last=last, rows=size.subjects, is_estimate=False, bytes=0)

    def cut(
        self, connection: Connection, after: Sequence[str] | None, *, end: Sequence[str], rows: int
    ) -> Cut:
        """The next so many subjects by name."""
        found = self._subjects(connection, after, end, limit=rows)
        is_last = len(found) < rows or found[-1].subject_key == end[0]
        return Cut(tuple(end) if is_last else (found[-1].subject_key,), len(found), is_last)

    def read(self, connection: Connection, chunk: HeldChunk) -> object:
        """Load the subjects of a chunk, and measure what the target has of each."""
        # Whoever has the chunk has the turns of its subjects.
        loader = replace(self.loader, holder=chunk.holder)
        loaded = []
        for subject in self._subjects(connection, chunk.cursor_from, chunk.cursor_to):
            with self._guarded():
                report = loader.load_whole(subject.subject_key)
                failpoint("backfill.republished", connection, about=subject.subject_key)
                with self.loader.open_checked() as target:
                    has = target_rows(target, subject.subject_key, (EVERYTHING,))
            loaded.append(LoadedSubject(subject.subject_key, report.rows_loaded, has.rows, has.checksum))
        return loaded

    def write(self, connection: Connection, chunk: HeldChunk, known: object) -> ChunkResult:
        """Note what was loaded, in the transaction that ends the chunk."""
        assert isinstance(known, list)
        loaded: list[LoadedSubject] = known
        return ChunkResult(
            rows_written=sum(each.rows_loaded for each in loaded),
            rows_read_again=0,
            rows_after=sum(each.rows for each in loaded),
            checksum=add_checksums(each.checksum for each in loaded),
            details={"subjects": [asdict(each) for each in loaded]},
        )

    def answer(self, connection: Connection) -> Any:
        """There is no query of the user."""
        return None

    def verify(self, connection: Connection, chunk: ChunkRecord) -> ChunkCheck:
        """Compare the target with what is answered here, subject by subject, while the destination follows commits."""
        checks = []
        after = chunk.cursor_from
        for subject in self._subjects(connection, chunk.cursor_from, chunk.cursor_to):
            checks.append(self._compare(connection, subject, after=after))
            after = [subject.subject_key]
        return ChunkCheck(
            rows=sum(check.rows for check in checks),
            failed=tuple(sentence for check in checks for sentence in check.failed),
            changed=tuple(sentence for check in checks for sentence in check.changed),
        )

    def _compare(
        self, connection: Connection, subject: SubjectPosition, *, after: Sequence[str] | None
    ) -> ChunkCheck:
        key = subject.subject_key
        for _ in range(_COMPARISONS):
            if not subject.is_current:
                break
            with self._guarded(), self.loader.open_checked() as target:
                answered, kept = answered_rows(self.loader, key, commit_seq=subject.commit_seq)
                has = target_rows(target, key, without((EVERYTHING,), kept))
            if has == answered:
                return ChunkCheck(rows=has.rows)
            now = {each.subject_key: each for each in self._subjects(connection, after, [key])}
            if key not in now:
                return ChunkCheck(rows=0, changed=(f"subject {key} is gone",))
            if now[key] == subject:
                sentence = (
                    f"subject {key}: the target has {has.rows} rows with checksum {has.checksum}, and "
                    f"{answered.rows} with {answered.checksum} are answered here"
                )
                return ChunkCheck(rows=has.rows, failed=(sentence,))
            subject = now[key]
        sentence = f"subject {key}: commit {subject.newest_seq} is not loaded yet; verify it again when it is"
        return ChunkCheck(rows=0, changed=(sentence,))

    def _subjects(
        self, connection: Connection, after: Sequence[str] | None, to: Sequence[str], *, limit: int = _ALL
    ) -> list[SubjectPosition]:
        return destinations.list_destination_stretch(
            connection,
            self.spec.destination,
            after=None if after is None else after[0],
            to=to[0],
            limit=limit,
        )

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """The same as `_own_errors`, while tasks may be broken off."""
        try:
            with _own_errors():
                yield
        except DisarrayError:
            raise
        except Exception as error:
            # Whatever Spark says of tasks that were broken off.
            if self.is_over():
                raise HandedBackError(
                    "the process ends: what it was at is given back, and done again"
                ) from error
            raise


@contextmanager
def _own_errors() -> Iterator[None]:
    """Tell whose fault an error of a load is: the destination's, the chunk's, or nobody's (busy, away)."""
    try:
        yield
    except DestinationUnavailableError as error:
        raise DatabaseUnavailableError(str(error)) from error
    except (DestinationMisfitError, ExcessiveDeletesError, InvalidRequestError) as error:
        raise BackfillTargetError(str(error)) from error
    except (UnloadableRowsError, ReadingsGoneError) as error:
        # Readings that a pass moved on are found by the next attempt; those of a lake that is not here never are.
        raise BackfillChunkError(str(error)) from error
    except (DefinitionChangedError, DestinationConflictError) as error:
        # A rebuild is pending, or somebody else wrote to the target at the same moment.
        raise DatabaseBusyError(str(error)) from error
