"""The inbox drained: events that programs sent become deliveries, batch by batch.

Three steps, each whole or not at all: events are claimed, and the claim is committed; their files are written and
brought to disk; one transaction names the files and ends the claims. Killed between any two of them, a drainer leaves
claims that go back and files that nobody names.
"""

from __future__ import annotations

import logging
import uuid
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from disarray.control import deliveries, raw_events
from disarray.control.connections import transaction
from disarray.control.deliveries import Batch, BatchCounts
from disarray.control.status import current_us
from disarray.errors import ConfigError, ControlError, LeaseLostError
from disarray.failpoints import failpoint
from disarray.kernels.reading.line_check import refused_lines
from disarray.model.description.spec_table import MisfitError
from disarray.sources.delivering import commit_batch, refuse_misplaced, write_lines
from disarray.sources.landing import JSON_LINES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from disarray.control.connections import Connection, Pool
    from disarray.control.queue import Holder
    from disarray.control.raw_events import ClaimedEvent, EventId, Settled
    from disarray.model.description.dataset import Dataset
    from disarray.sources.landing import Landing

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxSettings:
    """How events are drained; times in seconds."""

    every_seconds: float = 5.0
    batch_events: int = 5_000
    max_attempts: int = 3
    lease_seconds: int = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainedBatch:
    """What became of the events of one batch: events = delivered + waiting + dead."""

    dataset: str
    events: int
    delivered: int
    waiting: int  # refused, and tried again later
    dead: int
    files: int


@dataclass(frozen=True, slots=True)
class _Sorted:
    """The events of a batch: lines by subject, and why others are no readings."""

    lines: Mapping[str, Sequence[str]]
    refused: Mapping[EventId, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """Drains the events of the datasets that take them. Any number of workers may do so at once."""

    pool: Pool
    landing: Landing
    datasets: Collection[Dataset]
    holder: Holder
    settings: InboxSettings = field(default_factory=InboxSettings)

    @property
    def served(self) -> dict[str, Dataset]:
        """The datasets that take events."""
        return {dataset.name: dataset for dataset in self.datasets if dataset.events is not None}

    def drain(self) -> Iterator[DrainedBatch]:
        """Deliver batches until nothing waits."""
        while (drained := self.drain_batch()) is not None:
            yield drained

    def drain_batch(self) -> DrainedBatch | None:
        """Claim a batch and deliver it; None where nothing waits, or where the claim was lost on the way.

        An error that no event is to blame for gives the events back, and is raised.
        """
        if not self.served:
            return None
        with self.pool.connection() as connection:
            failpoint("inbox.before_claim", connection)
            batch, events = self._claim(connection)
            if not events:
                return None
            failpoint("inbox.claimed", connection)
        try:
            with self.pool.connection() as connection:
                return self._deliver(connection, batch, self.served[events[0].dataset], events)
        except LeaseLostError as error:
            log.warning("%s", error)
            return None
        except Exception:
            # Where the database is away, their lease runs out.
            with suppress(ControlError), self.pool.connection() as connection:
                raw_events.release_raw_events(connection, self.holder, batch_no=batch.batch_no)
            raise

    def _claim(self, connection: Connection) -> tuple[Batch, list[ClaimedEvent]]:
        with transaction(connection):
            batch = deliveries.begin_batch(connection, "inbox", run_id=uuid.uuid4())
            events = raw_events.claim_raw_events(
                connection,
                self.holder,
                list(self.served),
                batch_no=batch.batch_no,
                limit=self.settings.batch_events,
                lease_seconds=self.settings.lease_seconds,
                max_attempts=self.settings.max_attempts,
            )
        # Only now is it known whose events they are.
        return (replace(batch, source_name=source_name(events[0].dataset)) if events else batch), events

    def _deliver(
        self, connection: Connection, batch: Batch, dataset: Dataset, events: Sequence[ClaimedEvent]
    ) -> DrainedBatch:
        latest_us = current_us(connection) + dataset.future_tolerance_us
        sorted_events = _sort(events, dataset, latest_us=latest_us)
        files = write_lines(
            self.landing, batch, sorted_events.lines, dataset=dataset.name, datasets=self.datasets
        )
        settled: list[Settled] = []

        def settle() -> None:
            settled.append(
                raw_events.settle_raw_events(
                    connection,
                    self.holder,
                    batch_no=batch.batch_no,
                    events=len(events),
                    refused=sorted_events.refused,
                    max_attempts=self.settings.max_attempts,
                )
            )

        commit_batch(
            connection,
            batch,
            files,
            advance=settle,
            dataset=dataset.name,
            counts=BatchCounts(
                seen=len(events),
                taken=len(events) - len(sorted_events.refused),
                rejected=len(sorted_events.refused),
            ),
            instance_name=self.holder.instance_name,
            cursor_from=str(events[0].event_id),
            cursor_to=str(events[-1].event_id),
        )
        [ended] = settled
        return DrainedBatch(
            dataset=dataset.name,
            events=len(events),
            delivered=ended.done,
            waiting=ended.waiting,
            dead=ended.dead,
            files=len(files),
        )


def source_name(dataset: str) -> str:
    """The source whose deliveries hold the events of a dataset; no `[[source]]` can have such a name."""
    return f"inbox-{dataset}"


def refuse_unreadable_inboxes(landing: Landing, datasets: Collection[Dataset]) -> None:
    """Refuse datasets whose events would be delivered where nobody reads them for that dataset."""
    for dataset in datasets:
        if dataset.events is not None:
            batch = Batch(batch_no=0, source_name=source_name(dataset.name), run_id=uuid.UUID(int=0))
            try:
                refuse_misplaced(
                    landing, batch, "SUBJECT", dataset=dataset.name, datasets=datasets, suffix=JSON_LINES
                )
            except ConfigError as error:
                raise ConfigError(f"dataset {dataset.name} takes events, but {error}") from error


def _sort(events: Sequence[ClaimedEvent], dataset: Dataset, *, latest_us: int) -> _Sorted:
    try:
        return _sorted_at_once(events, dataset, latest_us=latest_us)
    except Exception as error:
        if len(events) > 1:
            # One of them is to blame: alone, it is refused alone.
            parts = [_sort([event], dataset, latest_us=latest_us) for event in events]
            lines: dict[str, list[str]] = {}
            for part in parts:
                for subject, found in part.lines.items():
                    lines.setdefault(subject, []).extend(found)
            return _Sorted(lines, {key: why for part in parts for key, why in part.refused.items()})
        log.exception("event %d of %s cannot be read", events[0].event_id, dataset.name)
        return _Sorted({}, {events[0].event_id: f"{type(error).__name__}: {error}"})


def _sorted_at_once(events: Sequence[ClaimedEvent], dataset: Dataset, *, latest_us: int) -> _Sorted:
    assert dataset.events is not None
    rejected = refused_lines(
        [event.payload.encode() for event in events], dataset.read_spec(), latest_us=latest_us
    )
    lines: dict[str, list[str]] = {}
    refused: dict[EventId, str] = {}
    for index, event in enumerate(events):
        if index in rejected:
            why = rejected[index]
            refused[event.event_id] = why.reason if why.column is None else f"{why.reason}: {why.column}"
            continue
        try:
            subject = dataset.events.subject_of(event.payload)
        except MisfitError as misfit:
            refused[event.event_id] = f"no subject: expected {misfit.expected} in {dataset.events.subject}"
            continue
        lines.setdefault(subject, []).append(event.payload)
    return _Sorted(lines, refused)
