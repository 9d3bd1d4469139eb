"""What was given up, and what is decided about it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from disarray.control import dead_letters
from disarray.queries import dead_letters as view
from disarray.queries.dead_letters import DeadLetters
from disarray.web.parameters import Limit, Reason, Subject, Uri
from disarray.web.route import API, Call, Route, Scope
from disarray.web.schema import About

Uris = Annotated[list[Uri], About(text="Files, all or none.", min_length=1, max_length=1000)]


@dataclass(frozen=True, kw_only=True)
class DeadLettersAsked:
    """Whose dead letters, and how old."""

    subject_key: Subject | None = None
    failed_before: datetime | None = None
    limit: Limit = 100


@dataclass(frozen=True)
class DeadLetterDecision:
    """What is decided about which of them, and why."""

    source_uris: Uris
    reason: Reason


@dataclass(frozen=True)
class Retried:
    """The items that ask for the same once more, by uri."""

    queue_ids: dict[str, int]


@dataclass(frozen=True)
class Discarded:
    """These are no longer listed. The files stay known; a new version of one revives it."""

    source_uris: list[str]


def list_dead_letters(call: Call, asked: DeadLettersAsked) -> DeadLetters:
    """What was given up and not discarded, oldest first."""
    return view.list_dead_letters(
        call.connection,
        subject_key=asked.subject_key,
        failed_before=asked.failed_before,
        limit=asked.limit,
    )


def retry_dead_letters(call: Call, asked: DeadLetterDecision) -> Retried:
    """Ask for the same once more, with a full set of attempts."""
    items = dead_letters.retry_dead_letters(
        call.connection, _unique(asked.source_uris), reason=asked.reason, by=call.who
    )
    return Retried({uri: int(queue_id) for uri, queue_id in items.items()})


def discard_dead_letters(call: Call, asked: DeadLetterDecision) -> Discarded:
    """Take them off the list."""
    uris = _unique(asked.source_uris)
    dead_letters.discard_dead_letters(call.connection, uris, reason=asked.reason, by=call.who)
    return Discarded(uris)


def _unique(uris: list[str]) -> list[str]:
    return list(dict.fromkeys(uris))


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/dead-letters",
        scope=Scope.READ,
        summary="Files whose last request failed for good, oldest first",
        asks=DeadLettersAsked,
        answers=DeadLetters,
        handle=list_dead_letters,
    ),
    Route(
        method="POST",
        path=f"{API}/dead-letters/retry",
        scope=Scope.OPERATE,
        summary="Ask for the same once more, with a full set of attempts; all or none",
        asks=DeadLetterDecision,
        answers=Retried,
        handle=retry_dead_letters,
    ),
    Route(
        method="POST",
        path=f"{API}/dead-letters/discard",
        scope=Scope.OPERATE,
        summary="Take dead letters off the list; all or none",
        asks=DeadLetterDecision,
        answers=Discarded,
        handle=discard_dead_letters,
    ),
)
