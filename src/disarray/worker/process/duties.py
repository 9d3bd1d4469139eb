"""What a worker does once an hour, whatever else there is to do."""

from __future__ import annotations

import logging
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control import events
from disarray.errors import DestinationError
from disarray.worker.upkeep.housekeeping import keep_house

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from disarray.worker.workplace import Workplace

log = logging.getLogger(__name__)

HOUR_SECONDS = 3600.0


@dataclass(frozen=True)
class Duty:
    """Something to be done regularly. Each guards itself: several workers may come to it at the same time."""

    name: str
    perform: Callable[[Workplace], object]


def provision_events(workplace: Workplace) -> None:
    """Make the partitions of the coming months, so that no event ever waits for one."""
    with workplace.pool.connection() as connection:
        events.provision_event_partitions(connection)


def vacuum_destinations(workplace: Workplace) -> None:
    """Clear destinations of rows that were superseded long ago. One that is away is told of, and others are done."""
    for loader in workplace.loaders():
        try:
            loader.vacuum()
        except DestinationError as error:
            log.warning("%s was not cleared of superseded rows: %s", loader.destination.name, error)


DUTIES = (
    Duty("event partitions", provision_events),
    Duty("housekeeping", keep_house),
    Duty("destinations", vacuum_destinations),
)


def perform_duties(
    workplace: Workplace,
    stop: threading.Event,
    *,
    duties: Sequence[Duty] = DUTIES,
    every_seconds: float = HOUR_SECONDS,
) -> None:
    """Do each duty every so often until told to stop. One that fails is told of, and tried again at its next time."""
    # Workers that were started together do not all come at the same minute.
    while not stop.wait(every_seconds * random.uniform(0.9, 1.1)):  # noqa: S311 - spreads load, guards nothing
        for duty in duties:
            if stop.is_set():
                return
            began = time.monotonic()
            try:
                duty.perform(workplace)
                log.debug("%s: %.1f s", duty.name, time.monotonic() - began)
            except Exception as error:
                log.warning("%s could not be done and is tried again later: %s", duty.name, error)
