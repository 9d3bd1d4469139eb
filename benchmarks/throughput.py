"""Jobs per second through enqueue, claim and complete, the contenders taking turns."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.contenders import Job
from benchmarks.server import processor_seconds, settle

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.contenders import Contender

# Files come in runs of one tool, and tools take turns.
SUBJECTS = 20
RUN_OF_ONE_SUBJECT = 100


@dataclass(frozen=True)
class Load:
    """How many jobs at which batch size, how often, after how many rounds that do not count."""

    batch: int
    jobs: int
    rounds: int
    warm_up_rounds: int = 1


@dataclass(frozen=True)
class Timing:
    """Seconds that one round of a load took, by stage."""

    enqueue: float
    claim: float
    complete: float
    server: float | None  # of a processor, all stages together

    @property
    def total(self) -> float:
        """All stages together."""
        return self.enqueue + self.claim + self.complete


@dataclass(frozen=True)
class Throughput:
    """The median round of one contender under one load; microseconds are per job."""

    contender: str
    batch: int
    jobs: int
    jobs_per_second: float
    enqueue_us: float
    claim_us: float
    complete_us: float
    server_us: float | None
    jobs_per_second_of_rounds: list[float]


def notifications(seed: random.Random) -> Iterator[Job]:
    """Files as they come in, about 200 bytes of metadata each, never the same twice."""
    number = 0
    while True:
        yield Job(
            f"file:///share/lab/{seed.getrandbits(32):08x}/{number:09d}.csv",
            f"TOOL{number // RUN_OF_ONE_SUBJECT % SUBJECTS:02d}",
            {
                "content_hash": f"{seed.getrandbits(256):064x}",
                "size": seed.randrange(10**9),
                "mtime": f"2026-01-{number % 28 + 1:02d}T00:00:00Z",
                "dataset": "cycler",
            },
        )
        number += 1


async def measure(contenders: Mapping[str, Contender], load: Load, jobs: Iterator[Job]) -> list[Throughput]:
    """Every contender (by the DSN of its database) through the same number of jobs, A B C A B C."""
    timings: dict[str, list[Timing]] = {dsn: [] for dsn in contenders}
    for round_number in range(-load.warm_up_rounds, load.rounds):
        for dsn, contender in contenders.items():
            batch_of_jobs = [next(jobs) for _ in range(load.jobs)]
            settle(dsn)
            timing = await _run(contender, load.batch, batch_of_jobs)
            if round_number >= 0:
                timings[dsn].append(timing)
    return [_median(contender.name, load, timings[dsn]) for dsn, contender in contenders.items()]


async def _run(contender: Contender, batch: int, jobs: Sequence[Job]) -> Timing:
    clock = time.perf_counter
    server_before = processor_seconds(contender.backend_pid)
    began = clock()
    for start in range(0, len(jobs), batch):
        await contender.enqueue(jobs[start : start + batch])
    enqueue = clock() - began
    claim = complete = 0.0
    done = 0
    while done < len(jobs):
        before = clock()
        claimed = await contender.claim(batch)
        between = clock()
        await contender.complete(claimed)
        complete += clock() - between
        claim += between - before
        done += len(claimed)
        assert claimed, f"{contender.name} lost {len(jobs) - done} jobs"
    server_after = processor_seconds(contender.backend_pid)
    server = None if server_before is None or server_after is None else server_after - server_before
    assert await contender.claim(1) == [], f"{contender.name} has more jobs than were enqueued"
    return Timing(enqueue, claim, complete, server)


def _median(name: str, load: Load, timings: list[Timing]) -> Throughput:
    def per_job(seconds: list[float]) -> float:
        return round(statistics.median(seconds) / load.jobs * 1e6, 1)

    servers = [timing.server for timing in timings if timing.server is not None]
    rates = [round(load.jobs / timing.total, 1) for timing in timings]
    return Throughput(
        contender=name,
        batch=load.batch,
        jobs=load.jobs,
        jobs_per_second=statistics.median(rates),
        enqueue_us=per_job([timing.enqueue for timing in timings]),
        claim_us=per_job([timing.claim for timing in timings]),
        complete_us=per_job([timing.complete for timing in timings]),
        server_us=per_job(servers) if servers else None,
        jobs_per_second_of_rounds=rates,
    )
