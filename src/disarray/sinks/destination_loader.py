"""One destination kept up with the commits of its subjects: claimed, computed, loaded, and only then moved on.

Killed between any two of these steps, a loader leaves a lease that runs out and a target that is as it was, or as it
is to be: what is loaded twice is loaded once.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from disarray.control import destinations, subject_commits
from disarray.control.lease_renewal import renewed
from disarray.errors import (
    CommitsDroppedError,
    ControlError,
    DatabaseBusyError,
    DatabaseUnavailableError,
    DefinitionChangedError,
    DestinationConflictError,
    DestinationError,
    ExcessiveDeletesError,
    LeaseLostError,
    ReadingsGoneError,
    TargetFencedError,
    UnloadableRowsError,
)
from disarray.failpoints import failpoint
from disarray.model.breaker import Breaker
from disarray.sinks.destination_changes import WHOLE, Changes, changes_of
from disarray.sinks.destination_deletes import excess_of
from disarray.sinks.destination_rows import SubjectRows, from_last_reading
from disarray.sinks.destination_shape import shape_of
from disarray.sinks.destination_targets import Cutting, definition_of, opened_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from disarray.control.connections import Connection, Pool
    from disarray.control.destinations import LoadTurn, LoneSweep
    from disarray.control.queue import Holder
    from disarray.engine.runner import Runner
    from disarray.model.description.destination import Destination
    from disarray.sinks.destination_database import Loaded
    from disarray.sinks.destination_targets import OpenTarget
    from disarray.store.lake import Lake

log = logging.getLogger(__name__)

# More commits than that are not looked at one by one: everything is loaded.
_MOST_COMMITS = 1_000
_SOON = timedelta(seconds=2)
_LONGEST_DELAY_SECONDS = 1_500


@dataclass(frozen=True, slots=True)
class LoaderSettings:
    """How often is looked for commits, and how long a turn holds, in seconds; what is too much for one transaction.

    A load that would delete more than such a share of a target, of which this database knows nothing, is refused.
    """

    every_seconds: float = 2.0
    lease_seconds: int = 300
    cut_readings: int = 1_000_000
    most_deleted_percent: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """What one load of a subject did."""

    destination: str
    subject_key: str
    commits: int
    is_whole: bool
    rows_loaded: int
    rows_deleted: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationLoader:
    """Keeps one destination up to date. Any number of workers may do so at once; each subject has one at a time."""

    pool: Pool
    lake: Lake
    destination: Destination
    holder: Holder
    settings: LoaderSettings = field(default_factory=LoaderSettings)
    runner: Runner | None = None  # None: no load is cut into tasks
    breaker: Breaker = field(init=False)

    def __post_init__(self) -> None:
        breaker = Breaker(f"destination {self.destination.name}", DestinationError)
        object.__setattr__(self, "breaker", breaker)

    def register(self) -> None:
        """Make the destination known; what it was under another definition is loaded anew."""
        with self.pool.connection() as connection:
            destinations.register_destination(
                connection,
                self.destination.name,
                dataset=self.destination.dataset.name,
                definition=definition_of(self.destination, shape_of(self.destination)),
                subject_patterns=self.destination.subjects,
            )

    def load_due(self) -> Iterator[LoadReport]:
        """Load every subject that is behind; a target that cannot be loaded at all is an error."""
        turn = self._claim()
        if turn is None:
            self._sweep_alone()
            return
        try:
            with self._noted_errors(), self.open_checked() as target:
                while turn is not None:
                    if not turn.is_sweep_due or self._sweep_turn(target, turn):
                        report = self._load_turn(target, turn)
                        if report is not None:
                            yield report
                    turn = self._claim()
        except DestinationError:
            if turn is not None:
                with suppress(ControlError):
                    self._give_back(turn, timedelta(0))
            raise

    def load_whole(self, subject_key: str) -> LoadReport:
        """Load all of one subject anew, whether it is behind or not; whatever keeps it from that is raised."""
        began = time.monotonic()
        with self.pool.connection() as connection:
            turn = destinations.claim_destination_subject(
                connection,
                self.destination.name,
                subject_key,
                self.holder,
                lease_seconds=self.settings.lease_seconds,
                definition=definition_of(self.destination, shape_of(self.destination)),
            )
        if turn is None:
            raise DatabaseBusyError(
                f"{subject_key} of destination {self.destination.name} is being loaded by another. It is tried again"
            )
        try:
            with self.open_checked() as target, self._renewed(turn):
                loaded = self._load(target, turn, WHOLE, began)
        except TargetFencedError as error:
            self._fail(turn, error, target_fence=error.target_fence)
            raise DatabaseBusyError(str(error)) from error
        except LeaseLostError:
            raise
        except Exception:
            with suppress(ControlError):
                self._give_back(turn, _SOON)
            raise
        return _report(turn, WHOLE, loaded, seconds=time.monotonic() - began)

    def vacuum(self) -> int:
        """Clear the target of what nobody asks for any more; how many rows or files.

        One that is paused, or described otherwise by now, is left alone: its target may be somebody's to work on.
        """
        definition = definition_of(self.destination, shape_of(self.destination))
        with self.pool.connection() as connection:
            states = destinations.list_destinations(connection)
        if not any(
            state.destination == self.destination.name
            and state.paused_at is None
            and state.definition == definition
            for state in states
        ):
            return 0
        try:
            with self._noted_errors(), self.open_checked() as target:
                done = target.vacuum()
        except DestinationConflictError:
            return 0  # a load came first: the next hour does
        # Where nothing has to be loaded, nobody else would find out that it is well again.
        with self.pool.connection() as connection:
            destinations.note_destination_error(connection, self.destination.name, None)
        return done

    def _claim(self) -> LoadTurn | None:
        with self.pool.connection() as connection:
            turn = destinations.claim_destination(
                connection,
                self.destination.name,
                self.holder,
                lease_seconds=self.settings.lease_seconds,
                definition=definition_of(self.destination, shape_of(self.destination)),
            )
            if turn is not None:
                failpoint("destination.claimed", connection, about=self.destination.name)
        return turn

    @contextmanager
    def open_checked(self) -> Iterator[OpenTarget]:
        """The target, checked: it fits, or `DestinationError`."""
        lease_seconds = self.settings.lease_seconds
        cutting = None
        if self.runner is not None:
            cutting = Cutting(self.runner.beside("destinations"), self.settings.cut_readings, lease_seconds)
        with opened_target(
            self.destination,
            shape_of(self.destination),
            pool=self.pool,
            lease_seconds=lease_seconds,
            cutting=cutting,
            most_deleted_percent=self.settings.most_deleted_percent,
        ) as target:
            target.prepare()
            yield target

    @contextmanager
    def _noted_errors(self) -> Iterator[None]:
        """An error of the target as a whole is kept for whoever looks."""
        try:
            yield
        except DestinationConflictError:
            raise  # nothing is wrong with it
        except DestinationError as error:
            with suppress(ControlError), self.pool.connection() as connection:
                destinations.note_destination_error(connection, self.destination.name, str(error))
            raise

    def _load_turn(self, target: OpenTarget, turn: LoadTurn) -> LoadReport | None:
        began = time.monotonic()
        try:
            with self._renewed(turn):
                changes = self._changes(turn)
                loaded = self._load(target, turn, changes, began)
        except TargetFencedError as error:
            self._fail(turn, error, target_fence=error.target_fence)
            return None
        except LeaseLostError as error:
            log.warning("%s", error)
            return None
        except (DefinitionChangedError, ReadingsGoneError, DestinationConflictError) as error:
            # A rebuild is pending, a pass moved on while its rows were read, or somebody else wrote: soon it can be.
            log.debug("%s waits: %s", turn.subject_key, error)
            self._give_back(turn, _SOON)
            return None
        except ExcessiveDeletesError as error:
            self._hold_back(turn, error)
            return None
        except DatabaseUnavailableError:
            raise
        except DestinationError as error:
            if not isinstance(error, UnloadableRowsError):
                raise
            self._fail(turn, error)
            return None
        except Exception as error:
            # One subject is to blame, or nobody knows who: the others are loaded.
            self._fail(turn, error)
            return None
        return _report(turn, changes, loaded, seconds=time.monotonic() - began)

    def _changes(self, turn: LoadTurn) -> Changes:
        if turn.is_whole_due or turn.newest_seq - turn.commit_seq > _MOST_COMMITS:
            return WHOLE
        with self.pool.connection() as connection:
            try:
                notices = subject_commits.list_commits(
                    connection,
                    turn.subject_key,
                    turn.dataset,
                    after_seq=turn.commit_seq,
                    limit=_MOST_COMMITS,
                )
            except CommitsDroppedError:
                return WHOLE
            changes = changes_of(
                self.destination, [each for each in notices if each.commit_seq <= turn.newest_seq]
            )
            return from_last_reading(connection, self.lake, self.destination, turn.subject_key, changes)

    def _load(self, target: OpenTarget, turn: LoadTurn, changes: Changes, began: float) -> Loaded:
        def advance(connection: Connection, loaded: Loaded) -> None:
            destinations.advance_destination(
                connection,
                turn,
                rows_loaded=loaded.rows_loaded,
                rows_deleted=loaded.rows_deleted,
                seconds=time.monotonic() - began,
                is_target_touched=loaded.is_target_touched,
            )

        with self.pool.connection() as connection:
            rows = SubjectRows(
                connection=connection,
                lake=self.lake,
                destination=self.destination,
                shape=shape_of(self.destination),
                subject_key=turn.subject_key,
                commit_seq=turn.newest_seq,
                changes=changes,
            )
            loaded = target.load(turn, rows, advance=advance)
            failpoint("destination.advanced", connection, about=self.destination.name)
            return loaded

    def _renewed(self, turn: LoadTurn) -> AbstractContextManager[None]:
        """Keep the turn while something is loaded."""
        lease_seconds = self.settings.lease_seconds

        def renew(connection: Connection) -> None:
            destinations.renew_destination(connection, turn, lease_seconds=lease_seconds)

        return renewed(self.pool, renew, about=f"destination {turn.destination}", lease_seconds=lease_seconds)

    def _sweep_turn(self, target: OpenTarget, turn: LoadTurn) -> bool:
        """Sweep before the first load; whether it was done."""
        try:
            self._sweep(target, turn)
        except LeaseLostError as error:
            log.warning("subjects that are not asked for may be left: %s", error)
            return False
        except ExcessiveDeletesError as error:
            self._hold_back(turn, error)
            return False
        return True

    def _sweep(self, target: OpenTarget, turn: LoadTurn) -> None:
        """Clear the target of subjects that it is not to have: of another dataset, or from after a backup.

        Nothing more is deleted by who has lost its turn: then it is paused, described otherwise or swept by another.
        """

        def renew(connection: Connection) -> None:
            destinations.renew_destination(connection, turn, lease_seconds=self.settings.lease_seconds)

        with self._renewed(turn):
            self._clear(target, turn.fence, are_deletes_allowed=turn.are_deletes_allowed, go_on=renew)

    def _sweep_alone(self) -> None:
        """Sweep where nothing is to be loaded: no subject is asked for, or all of them were loaded by a backfill."""
        definition = definition_of(self.destination, shape_of(self.destination))

        def find(connection: Connection) -> LoneSweep:
            sweep = destinations.find_lone_sweep(connection, self.destination.name, definition)
            if sweep is None:
                raise LeaseLostError("it was paused, described otherwise, or swept by another")
            return sweep

        try:
            with self.pool.connection() as connection:
                sweep = find(connection)
        except LeaseLostError:
            return
        with self._noted_errors(), self.open_checked() as target:
            try:
                self._clear(target, sweep.fence, are_deletes_allowed=sweep.are_deletes_allowed, go_on=find)
            except LeaseLostError as error:
                log.warning("subjects that are not asked for may be left: %s", error)
            except DestinationConflictError as error:
                log.debug("the sweep of %s waits: %s", self.destination.name, error)
            except ExcessiveDeletesError as error:
                log.error("destination %s is held back: %s", self.destination.name, error)
                with suppress(LeaseLostError), self.pool.connection() as connection:
                    destinations.hold_lone_sweep_back(
                        connection,
                        self.destination.name,
                        self.holder,
                        definition=definition,
                        reason=str(error),
                    )
        # Where nothing is loaded, nobody else would find out that it is well again.
        with self.pool.connection() as connection:
            destinations.note_destination_error(connection, self.destination.name, None)

    def _clear(
        self,
        target: OpenTarget,
        fence: int,
        *,
        are_deletes_allowed: bool,
        go_on: Callable[[Connection], object],
    ) -> None:
        """Count what a sweep deletes unless all may go, and delete it for as long as `go_on` does not refuse."""

        def list_unasked(found: Sequence[str]) -> Sequence[str]:
            with self.pool.connection() as connection:
                unasked = destinations.list_unasked_subjects(connection, self.destination.name, found)
                go_on(connection)
                return unasked

        if not are_deletes_allowed:
            deletes = target.count_deletes(list_unasked)
            percent = self.settings.most_deleted_percent
            if (excess := excess_of(self.destination.name, deletes, percent=percent)) is not None:
                raise excess
        target.sweep(fence, list_unasked)
        list_unasked([])
        with self.pool.connection() as connection:
            destinations.end_destination_sweep(connection, self.destination.name)

    def _hold_back(self, turn: LoadTurn, error: ExcessiveDeletesError) -> None:
        """Pause the destination: what would be deleted may be the only copy, and somebody has to look."""
        log.error("destination %s is held back: %s", self.destination.name, error)
        with suppress(LeaseLostError), self.pool.connection() as connection:
            destinations.hold_destination_back(connection, turn, str(error))

    def _give_back(
        self,
        turn: LoadTurn,
        next_in: timedelta,
        error: str | None = None,
        target_fence: int | None = None,
    ) -> None:
        # Whoever has lost its turn has nothing to say of it.
        with suppress(LeaseLostError), self.pool.connection() as connection:
            destinations.end_destination_turn(
                connection, turn, next_in=next_in, error=error, target_fence=target_fence
            )

    def _fail(self, turn: LoadTurn, error: Exception, *, target_fence: int | None = None) -> None:
        delay = min(60 * 5 ** min(turn.failure_count, 4), _LONGEST_DELAY_SECONDS)
        log.warning(
            "%s of destination %s could not be loaded and is tried again in %d s: %s",
            turn.subject_key,
            self.destination.name,
            delay,
            error,
        )
        is_ours = isinstance(error, DestinationError | TargetFencedError)
        message = str(error) if is_ours else f"{type(error).__name__}: {error}"
        self._give_back(turn, timedelta(seconds=delay), message, target_fence)


def _report(turn: LoadTurn, changes: Changes, loaded: Loaded, *, seconds: float) -> LoadReport:
    return LoadReport(
        destination=turn.destination,
        subject_key=turn.subject_key,
        commits=turn.newest_seq - turn.commit_seq,
        is_whole=changes.is_whole or loaded.is_whole,
        rows_loaded=loaded.rows_loaded,
        rows_deleted=loaded.rows_deleted,
        seconds=seconds,
    )
