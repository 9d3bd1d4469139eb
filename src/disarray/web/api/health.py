"""Whether the server lives, whether it can work, and where everything stands."""

from dataclasses import dataclass
from datetime import datetime

from disarray import __version__
from disarray.control import migrations
from disarray.control.status import queue_status
from disarray.web.route import API, Call, Nothing, Route, Scope


@dataclass(frozen=True)
class Health:
    """The process answers."""

    version: str


@dataclass(frozen=True)
class Readiness:
    """The database answers, and its schema is one that this program can work with."""

    schema_version: int


@dataclass(frozen=True)
class QueueFigures:
    """What is queued; the age is that of the oldest item."""

    available: int
    delayed: int
    claimed: int
    oldest_seconds: float | None


@dataclass(frozen=True)
class LaneFigures:
    """What is available, by lane: numbers wait for what is live."""

    live: int
    backfill: int


@dataclass(frozen=True)
class SubjectFigures:
    """Subjects by where they stand."""

    known: int
    held: int
    waiting: int


@dataclass(frozen=True)
class SideEffectFigures:
    """Messages to hooks that are not sent."""

    pending: int
    sending: int
    dead: int
    oldest_seconds: float | None


@dataclass(frozen=True)
class Status:
    """The whole control plane at one moment."""

    at: datetime
    queue: QueueFigures
    lanes: LaneFigures
    files: dict[str, int]
    subjects: SubjectFigures
    unserved_subjects: list[str]
    open_dirty_ranges: int
    dead_letters: int
    side_effects: SideEffectFigures


def show_health(_: Call, __: Nothing) -> Health:
    """Answer."""
    return Health(__version__)


def show_readiness(call: Call, _: Nothing) -> Readiness:
    """Ask the database."""
    migrations.check_schema(call.connection)
    return Readiness(migrations.schema_version(call.connection) or 0)


def show_status(call: Call, _: Nothing) -> Status:
    """Count everything in one snapshot."""
    found = queue_status(call.connection)
    return Status(
        at=datetime.fromisoformat(found["at"]),
        queue=QueueFigures(**found["queue"]),
        lanes=LaneFigures(**found["lanes"]),
        files=found["files"],
        subjects=SubjectFigures(**found["subjects"]),
        unserved_subjects=found["unserved_subjects"],
        open_dirty_ranges=found["open_dirty_ranges"],
        dead_letters=found["dead_letters"],
        side_effects=SideEffectFigures(**found["side_effects"]),
    )


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/health",
        scope=None,
        summary="Whether the process answers; asks nobody else",
        asks=Nothing,
        answers=Health,
        handle=show_health,
        is_instant=True,
    ),
    Route(
        method="GET",
        path=f"{API}/ready",
        scope=None,
        summary="Whether the database answers and has the right schema; 503 where not",
        asks=Nothing,
        answers=Readiness,
        handle=show_readiness,
    ),
    Route(
        method="GET",
        path=f"{API}/status",
        scope=Scope.READ,
        summary="Queue, files, subjects and open ranges, counted in one snapshot",
        asks=Nothing,
        answers=Status,
        handle=show_status,
    ),
)
