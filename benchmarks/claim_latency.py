"""How long a claim takes with little and with much queued, asked in turns so that both meet the same noise."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.contenders import Contender, Disarray, Job
from benchmarks.server import settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.server import Server

CLAIM_LIMIT = 10
FILL_BATCH = 5_000
WARM_UP_CLAIMS = 30


@dataclass(frozen=True)
class Shape:
    """How the queued files are spread over subjects; None: each file has its own."""

    name: str
    subjects: int | None

    def subject_of(self, number: int) -> str:
        """The subject of the n-th file."""
        return f"TOOL{number if self.subjects is None else number % self.subjects:06d}"


SHAPES = (
    Shape("1 subject", 1),
    Shape("100 subjects", 100),
    Shape("a subject per file", None),
)


@dataclass(frozen=True)
class ClaimLatency:
    """Milliseconds that a claim of up to ten items took at one depth of the queue."""

    contender: str
    shape: str
    queued: int
    claims: int
    p50_ms: float
    p99_ms: float


class Backlog:
    """One contender in front of a queue that is kept at its depth."""

    def __init__(self, contender: Contender, shape: Shape) -> None:
        self.contender = contender
        self._shape = shape
        self._numbers = 0
        self.samples: list[float] = []

    async def fill(self, count: int) -> None:
        """Queue new files."""
        for start in range(0, count, FILL_BATCH):
            await self.contender.enqueue([self._job() for _ in range(min(FILL_BATCH, count - start))])

    async def run_dry(self, times: int) -> None:
        """Queue a few files and work them off, again and again: the connection has made all its plans."""
        for _ in range(times):
            await self.fill(CLAIM_LIMIT)
            while claimed := await self.contender.claim(CLAIM_LIMIT):
                await self.contender.complete(claimed)

    async def claim_once(self) -> None:
        """Time one claim; what it took is completed and replaced outside the timing."""
        before = time.perf_counter()
        claimed = await self.contender.claim(CLAIM_LIMIT)
        self.samples.append((time.perf_counter() - before) * 1e3)
        assert claimed, f"{self.contender.name} found nothing in a full queue"
        await self.contender.complete(claimed)
        await self.fill(len(claimed))

    def _job(self) -> Job:
        self._numbers += 1
        return Job(f"file:///share/lab/{self._numbers:09d}.csv", self._shape.subject_of(self._numbers), {})


async def open_disarray(dsn: str) -> Contender:
    """Ours, as many subjects as items: the claim that has most to do."""
    return Disarray(dsn, items_per_subject=1)


async def measure(
    server: Server,
    shape: Shape,
    *,
    depths: tuple[int, ...],
    claims: int,
    opener: Callable[[str], Awaitable[Contender]] = open_disarray,
) -> list[ClaimLatency]:
    """Claims at each depth, one at each in turn.

    The queue is filled in one burst after it was empty and analyzed: plans and statistics are those of an empty queue
    until the server finds out by itself.
    """
    async with AsyncExitStack() as stack:
        backlogs: dict[int, Backlog] = {}
        for depth in depths:
            dsn = stack.enter_context(server.database("latency"))
            contender = await opener(dsn)
            stack.push_async_callback(contender.close)
            backlog = backlogs[depth] = Backlog(contender, shape)
            settle(dsn)
            await backlog.run_dry(WARM_UP_CLAIMS)
            await backlog.fill(depth)
        for backlog in backlogs.values():
            for _ in range(WARM_UP_CLAIMS):
                await backlog.claim_once()
            backlog.samples.clear()
        for _ in range(claims):
            for backlog in backlogs.values():
                await backlog.claim_once()
        return [_percentiles(backlog, shape, depth) for depth, backlog in backlogs.items()]


def _percentiles(backlog: Backlog, shape: Shape, depth: int) -> ClaimLatency:
    ordered = sorted(backlog.samples)
    return ClaimLatency(
        contender=backlog.contender.name,
        shape=shape.name,
        queued=depth,
        claims=len(ordered),
        p50_ms=round(ordered[len(ordered) // 2], 3),
        p99_ms=round(ordered[int(len(ordered) * 0.99)], 3),
    )
