"""What was given up, and what is decided about it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from disarray.control import dead_letters
from disarray.queries.dead_letters import DeadLetters, list_dead_letters
from disarray.web.parameters import PageAsked, Reason, Subject, Uri
from disarray.web.route import API, Call, Route, Scope, on_connection
from disarray.web.schema import About

Uris = Annotated[list[Uri], About(text="Files, all or none.", min_length=1, max_length=1000)]


@dataclass(frozen=True, kw_only=True)
class DeadLettersAsked(PageAsked):
    """Whose dead letters, and how old."""

    subject_key: Subject | None = None
    failed_before: datetime | None = None


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
        handle=on_connection(list_dead_letters),
    ),
    Route(
        method="POST",
        path=f"{API}/dead-letters/retry",
        scope=Scope.OPERATE,
        summary="Ask for the same once more, with a full set of attempts; all or none",
        asks=DeadLetterDecision,
        answers=Retried,
        queued=lambda answer: answer["queue_ids"].values(),
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
