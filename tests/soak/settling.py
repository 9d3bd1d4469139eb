"""When the faults have stopped: wait until everything is in, ask again for what gave up, and look at what is left."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.control.dead_letters import retry_dead_letters
from disarray.control.files import reingest_file
from disarray.errors import ControlError
from tests.soak.landing import DAMAGED, DRAWER, is_ordinary
from tests.soak.plan import Fault

if TYPE_CHECKING:
    from tests.soak.site import Site

_LOOK_SECONDS = 1.0
_CALM_LOOKS = 3
# What waits longer than this waits for the delay after a failure; an operator does not.
_SOON_SECONDS = 20
_ASK_SECONDS = 30
_COUNTS = """
select
    (select count(*) from disarray.ingest_queue),
    (select count(*) from disarray.ingest_queue where available_at <= now() + make_interval(secs => %s)),
    (select count(*) from disarray.subject_lock),
    (select count(*) from disarray.dirty_range where resolved_at is null)
"""


@dataclass(frozen=True)
class Counts:
    """What is not done yet."""

    queued: int
    due_soon: int
    held: int
    dirty: int

    @property
    def is_calm(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.queued or self.held or self.dirty)


def counts(site: Site) -> Counts | None:
    """What is not done yet; None while the database is away."""
    try:
        with site.house.pool.connection() as connection:
            row = connection.execute(_COUNTS, (_SOON_SECONDS,)).fetchone()
    except Exception:
        return None
    assert row is not None
    return Counts(*row)


@dataclass(frozen=True)
class Drained:
    """How the backlog went."""

    seconds: float
    asked_again: int
    left: str = ""

    @property
    def is_all(self) -> bool:
        """Whether nothing is left."""
        return not self.left


def drain(site: Site, *, within_seconds: float) -> Drained:
    """Wait for calm; what waits for a delay or was given up is asked for again, as an operator would."""
    began = time.monotonic()
    asked, calm, left = 0, 0, "nothing was seen"
    ask_at = began + _ASK_SECONDS
    while time.monotonic() - began < within_seconds:
        time.sleep(_LOOK_SECONDS)
        now = counts(site)
        if now is None:
            calm, left = 0, "the database is away"
            continue
        unannounced = _unannounced(site)
        left = f"{now}, {len(unannounced)} versions not announced: {sorted(unannounced)[:3]}"
        is_time = now.due_soon == 0 or time.monotonic() > ask_at
        if is_time and not unannounced and (again := _ask_again(site)):
            asked, calm, ask_at = asked + again, 0, time.monotonic() + _ASK_SECONDS
            continue
        calm = calm + 1 if now.is_calm and not unannounced else 0
        if calm == _CALM_LOOKS:
            return Drained(time.monotonic() - began, asked)
    return Drained(time.monotonic() - began, asked, left)


def _unannounced(site: Site) -> set[str]:
    """Files whose newest version is known to nobody: they only grow here, so the size tells.

    `size` is of the last version that was announced while it was news, `bytes` of the one that was read; a worker often
    reads what has grown before it is told of.
    """
    with site.house.pool.connection() as connection:
        rows = connection.execute(
            "select source_uri, metadata ->> 'size', metadata ->> 'bytes' from disarray.file_info"
        ).fetchall()
    known = {uri: {size, read} for uri, size, read in rows}
    return {
        name
        for name, text in site.inbox.texts.items()
        if str(len(text)) not in known.get(site.inbox.uri(name), ())
    }


def _ask_again(site: Site) -> int:
    with site.house.pool.connection() as connection:
        delayed = [
            str(uri)
            for (uri,) in connection.execute(
                """
                select source_uri
                from disarray.ingest_queue
                where available_at > now() + interval '5 seconds' and dataset is not null
                """
            )
        ]
        given_up = [
            str(uri)
            for (uri,) in connection.execute(
                "select source_uri from disarray.file_info where failed_at is not null and discarded_at is null"
            )
            if DAMAGED not in str(uri)
        ]
        try:
            for uri in delayed:
                reingest_file(connection, uri, reason="the plant is healed", by="soak")
            if given_up:
                retry_dead_letters(connection, given_up, reason="the plant is healed", by="soak")
        except ControlError:
            return 1  # asked again with the next look
    return len(delayed) + len(given_up)


@dataclass(frozen=True)
class Outcome:
    """What became of the files, by the decisions that the database holds."""

    accepted: dict[str, str]
    statuses: Counter[str]
    recovered: int
    complaints: tuple[str, ...]


def outcome(site: Site) -> Outcome:
    """Which files count, and every file that is where it must not be."""
    with site.house.pool.connection() as connection:
        status: dict[str, str] = dict(
            connection.execute("select source_uri, status::text from disarray.file_info").fetchall()
        )
        active = _uris(site, "select distinct source_uri from disarray.fragment where state = 'active'")
        interrupted = _uris(
            site,
            """
            select distinct source_uri
            from disarray.ingest_event
            where event_type in ('lease_expired', 'taken_over') and source_uri is not null
            """,
        )
    complaints, accepted, statuses = [], {}, Counter[str]()
    certain = site.operator.certain()
    for name, text in site.inbox.texts.items():
        uri = site.inbox.uri(name)
        stands = status.get(uri, "unknown")
        statuses[stands] += 1
        is_in = uri in active if DRAWER in name else stands == "processed"
        if is_in and DAMAGED not in name:
            accepted[name] = text
        if stands not in _allowed(name) or not _is_in_force(certain.get(name), stands, is_in=is_in):
            complaints.append(f"{name} is {stands}, decided: {certain.get(name)}")
    recovered = sum(1 for name in accepted if site.inbox.uri(name) in interrupted)
    return Outcome(accepted, statuses, recovered, tuple(complaints))


def _allowed(name: str) -> tuple[str, ...]:
    if DAMAGED in name:
        return ("failed",)
    return ("processed", "blacklisted") if is_ordinary(name) else ("processed", "parked")


def _is_in_force(decision: Fault | None, stands: str, *, is_in: bool) -> bool:
    match decision:
        case Fault.BLACKLIST:
            return stands == "blacklisted"
        case Fault.ALLOW | Fault.RELEASE:
            return is_in
        case Fault.REJECT:
            return not is_in
        case _:
            return True


def _uris(site: Site, query: str) -> set[str]:
    with site.house.pool.connection() as connection:
        rows: list[Any] = connection.execute(query.encode()).fetchall()
    return {str(uri) for (uri,) in rows}
