"""How fast is our queue beside procrastinate and PgQueuer, and does a claim stay quick when much is queued?

    python -m benchmarks.queue                               # the embedded server
    python -m benchmarks.queue --dsn "host=… user=postgres"  # any PostgreSQL ≥ 15
    python -m benchmarks.queue --quick                       # a minute, for a first look

One run, one server, commits that wait for the disk, one connection each. The contenders take turns (A B C A B C), the
first round of each load is warm-up, each database is vacuumed and analyzed before every round, and the median round
counts. The claims of the latency part alternate between the depths, on plans that were made while the queue was empty.
The JSON goes to benchmarks/results/queue.json; the exit code is 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import uvloop

from benchmarks import claim_latency, report, throughput
from benchmarks.claim_latency import SHAPES, ClaimLatency
from benchmarks.contenders import Contender, Disarray, PgQueuer, Procrastinate
from benchmarks.goals import conclude
from benchmarks.server import Server, shared_server
from benchmarks.throughput import Load, Throughput

if TYPE_CHECKING:
    from collections.abc import Sequence

SEED = 20260101
OWN_BATCH = 1_000


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    loads: tuple[Load, ...]
    depths: tuple[int, int]
    claims: int


FULL = Extent(
    loads=(
        Load(batch=1, jobs=400, rounds=5),
        Load(batch=10, jobs=1_000, rounds=5),
        Load(batch=100, jobs=2_000, rounds=5),
        Load(batch=OWN_BATCH, jobs=4_000, rounds=5),
    ),
    depths=(1_000, 100_000),
    claims=1_000,
)
QUICK = Extent(
    loads=(
        Load(batch=1, jobs=100, rounds=3),
        Load(batch=10, jobs=500, rounds=3),
        Load(batch=100, jobs=1_000, rounds=3),
        Load(batch=OWN_BATCH, jobs=2_000, rounds=3),
    ),
    depths=(1_000, 20_000),
    claims=200,
)


async def measure_throughput(
    server: Server, loads: Sequence[Load]
) -> tuple[list[Throughput], dict[str, str]]:
    """Every load on the same three databases; the results, and which versions ran."""
    async with AsyncExitStack() as stack:
        contenders: dict[str, Contender] = {}
        for kind in (Disarray, Procrastinate, PgQueuer):
            dsn = stack.enter_context(server.database(kind.name))
            contenders[dsn] = await kind.open(dsn)
            stack.push_async_callback(contenders[dsn].close)
        jobs = throughput.notifications(random.Random(SEED))
        results = []
        for load in loads:
            results += await throughput.measure(contenders, load, jobs)
        return results, {contender.name: contender.version for contender in contenders.values()}


async def measure_latency(server: Server, extent: Extent) -> list[ClaimLatency]:
    """Ours in every shape; the rivals, who know no subjects, in one."""
    results = []
    for shape in SHAPES:
        results += await claim_latency.measure(server, shape, depths=extent.depths, claims=extent.claims)
    for opener in (Procrastinate.open, PgQueuer.open):
        results += await claim_latency.measure(
            server, SHAPES[0], depths=extent.depths, claims=extent.claims // 4, opener=opener
        )
    return results


def main() -> None:
    """Measure, print and keep; ends with 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dsn", help="a superuser of any PostgreSQL ≥ 15; the embedded server otherwise")
    parser.add_argument("--quick", action="store_true", help="fewer jobs and rounds, a shallower queue")
    arguments = parser.parse_args()
    extent = QUICK if arguments.quick else FULL

    with shared_server(arguments.dsn) as server, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rates, versions = runner.run(measure_throughput(server, extent.loads))
        print(f"\nPostgreSQL {server.version}, {platform.machine()}, {os.cpu_count()} cores, {versions}\n")
        print(report.throughput_table(rates), flush=True)
        latencies = runner.run(measure_latency(server, extent))
    goals = [*report.throughput_goals(rates, own_batch=OWN_BATCH), *report.latency_goals(latencies)]

    print("", report.latency_table(latencies), sep="\n\n")
    figures = {
        "seed": SEED,
        "server": server.describe(),
        "versions": versions,
        "extent": asdict(extent),
        "throughput": [asdict(one) for one in rates],
        "claim_latency": [asdict(one) for one in latencies],
    }
    conclude("queue", goals, figures)


if __name__ == "__main__":
    main()
