"""A reader who asks all along, and accepts no half of a file and no total that its readings do not add up to."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

from disarray.control import connections
from disarray.demo.factory import START
from disarray.errors import DatabaseBusyError, DatabaseUnavailableError, ReadingsGoneError
from disarray.queries.readings import readings
from tests.soak.landing import is_ordinary, report_of, span_of

if TYPE_CHECKING:
    from disarray.model.description.dataset import Dataset
    from disarray.store.lake import Lake
    from tests.soak.landing import Delivery

_PAUSE_SECONDS = 0.4
_DAYS = 2
_HOUR_US = 3_600_000_000


class Reader:
    """Reads two days of a tool at a time, as of one moment.

    Of each report that lies in them whole it must see all lines of one of its versions, or none; and from reading to
    reading the total of parts in spec must grow by what the reading says, unless it is told that numbers are stale.
    """

    def __init__(self, dsn: str, lake: Lake, dataset: Dataset, planned: list[Delivery], *, seed: int) -> None:
        self._dsn = dsn
        self._lake = lake
        self._dataset = dataset
        self._generator = random.Random(f"{seed}/reader")
        self._versions: dict[str, set[int]] = {}
        for each in planned:
            if is_ordinary(each.arrival.name):
                whole = each.arrival.text.count("\n") - 1
                self._versions.setdefault(report_of(each.arrival.name), set()).add(whole)
        self._tools = sorted({name.partition("/")[0] for name in self._versions})
        self._days = max(1, (max(each.arrival.ends for each in planned) - START).days)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self.looks = 0
        self.readings = 0
        self.away = 0
        self.violations: list[str] = []

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with connections.connect(self._dsn, application_name="soak reader") as connection:
                    while not self._stop.wait(_PAUSE_SECONDS):
                        self._look(connection)
            except ReadingsGoneError:
                continue  # vacuumed under its eyes, and it was told to ask again
            except (DatabaseUnavailableError, DatabaseBusyError):
                self.away += 1
                self._stop.wait(_PAUSE_SECONDS)
            except Exception as error:
                self.violations.append(f"{type(error).__name__}: {error}")

    def _look(self, connection: connections.Connection) -> None:
        tool = self._generator.choice(self._tools)
        begin, end = span_of(self._generator.randrange(self._days), days=_DAYS)
        found = readings(
            connection, self._lake, dataset=self._dataset, subject_key=tool, from_us=begin, to_us=end
        )
        seen: dict[str, set[tuple[int, int]]] = {}
        before: int | None = None
        for table in found:
            rows = table.to_pydict()
            for at, part, width, total, uri in zip(
                rows["event_time"],
                rows["part"],
                rows["width"],
                rows["in_spec_total"],
                rows["source_uri"],
                strict=True,
            ):
                at_us = int(at.timestamp() * 1_000_000)
                seen.setdefault(report_of(_name_of(uri)), set()).add((at_us, part))
                is_told = found.stale_from_us is not None and found.stale_from_us <= at_us
                step = 9.9 < width < 10.1
                if before is not None and not is_told and total != before + step:
                    self.violations.append(f"{tool} at {at}: total {total} after {before}, step {step:d}")
                before = total
        for name, lines in seen.items():
            inside = begin + 4 * _HOUR_US <= min(lines)[0] and max(lines)[0] < end - 4 * _HOUR_US
            if inside and len(lines) not in self._versions.get(name, {len(lines)}):
                self.violations.append(
                    f"{name}: {len(lines)} readings, of versions with {self._versions[name]}"
                )
        self.looks += 1
        self.readings += sum(map(len, seen.values()))


def _name_of(uri: str) -> str:
    return "/".join(uri.split("/")[-2:])
