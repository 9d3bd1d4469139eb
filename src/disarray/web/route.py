"""How a route is declared: scope, what it takes, what it gives. Document, checks and tests follow from that."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from disarray.model.api_token import Scope as Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from disarray.control.connections import Connection, Pool
    from disarray.model.description.dataset import Dataset
    from disarray.store.lake import Lake

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")

API = "/api/v1"
JSON = "application/json"
# A connection that cannot be had by then is not worth waiting for: the client is told, and can ask again.
CONNECT_SECONDS = 5.0


@dataclass(frozen=True)
class Preview:
    """What a release would change, by subject, and why some of it would fail."""

    plans: list[dict[str, object]]
    failures: dict[str, str]


@dataclass(frozen=True)
class Sources:
    """What answers are made from."""

    pool: Pool
    lake: Lake
    datasets: Mapping[str, Dataset]
    # By whoever may reach the engine, which this package must not: previews read and scan as a worker does.
    preview: Callable[[Connection, str, str | None], Preview] | None = None


class Call:
    """One request at work: who asks, and a connection once it is needed."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.who = ""
        self.scope = Scope.READ
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @cached_property
    def connection(self) -> Connection:
        """A connection of the pool until the request has ended."""
        return self._stack.enter_context(self.sources.pool.connection(timeout=CONNECT_SECONDS))


def on_connection(view: Callable[..., Answered]) -> Callable[[Call, Any], Answered]:
    """A handler that asks a view of `queries`: what the route takes has the names of the view's arguments."""

    @wraps(view)
    def handle(call: Call, asked: Any) -> Answered:
        return view(call.connection, **vars(asked))

    return handle


@dataclass(frozen=True)
class Nothing:
    """A request without parameters."""


@dataclass(frozen=True, kw_only=True)
class Body(Generic[Asked]):
    """A body that is no JSON object of what the route asks.

    `media_types` has for each what it holds and an example; `read` gets the parameters of the path, the media type and
    the bytes.
    """

    media_types: Mapping[str, tuple[Any, Any]]
    most_bytes: int
    read: Callable[[Mapping[str, str], str, bytes], Asked]


@dataclass(frozen=True, kw_only=True)
class Route(Generic[Asked, Answered]):
    """One path and method. GETs take `asks` from the query, POSTs from a JSON body; unknown names are refused.

    `scope` None is open to everybody; there is no default, so that nothing is open by accident.
    """

    method: str
    path: str
    scope: Scope | None
    summary: str
    asks: type[Asked]
    answers: type[Answered]
    handle: Callable[[Call, Asked], Answered]
    media_type: str = JSON
    body: Body[Asked] | None = None  # None: a JSON object
    refusals: tuple[int, ...] = ()
    # Of a POST whose work is done later: the items that its answer names. Told as 202 with where to look.
    queued: Callable[[Any], Iterable[int | None]] | None = None
    # Of a POST with which workers go on, at what is no item of the queue: where to look. Always told as 202.
    followed_at: Callable[[Any], str] | None = None
    # Answered in the event loop: also while every thread is busy.
    is_instant: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def noun(self) -> str:
        """What the route is about, for the table of contents."""
        return self.path.removeprefix(f"{API}/").partition("/")[0].partition(".")[0].replace("-", " ") or "/"


AnyRoute = Route[Any, Any]
