"""What the figures mean: ratios, goals met or missed, and tables for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.contenders import Disarray
from benchmarks.goals import Goal, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.claim_latency import ClaimLatency
    from benchmarks.throughput import Throughput

OURS = Disarray.name


def throughput_goals(results: Sequence[Throughput], *, own_batch: int) -> list[Goal]:
    """Ahead of both at equal batch sizes; at our own, twice what either reached at any size."""
    goals = []
    for batch in sorted({result.batch for result in results} - {own_batch}):
        rivals = [one.jobs_per_second for one in results if one.batch == batch and one.contender != OURS]
        ratio = _ours(results, batch) / max(rivals)
        goals.append(
            Goal(f"jobs/s at batch {batch}: ours / faster rival", round(ratio, 2), 1.0, at_least=True)
        )
    best_rival = max(one.jobs_per_second for one in results if one.contender != OURS)
    ratio = _ours(results, own_batch) / best_rival
    name = f"jobs/s at our batch {own_batch}: ours / best rival at any batch"
    return [*goals, Goal(name, round(ratio, 2), 2.0, at_least=True)]


def latency_goals(results: Sequence[ClaimLatency]) -> list[Goal]:
    """A claim of ours is as quick with much queued as with little."""
    goals = []
    for shape in dict.fromkeys(one.shape for one in results if one.contender == OURS):
        by_depth = {one.queued: one.p99_ms for one in results if one.shape == shape and one.contender == OURS}
        shallow, deep = min(by_depth), max(by_depth)
        name = f"claim p99, {shape}: {deep:,} queued / {shallow:,} queued"
        goals.append(Goal(name, round(by_depth[deep] / by_depth[shallow], 2), 1.5, at_least=False))
    return goals


def throughput_table(results: Sequence[Throughput]) -> str:
    """Jobs per second and what each stage cost, with ours as a multiple of each rival."""
    return table(
        ("batch", "queue", "jobs/s", "ours is", "enqueue µs", "claim µs", "complete µs", "of the server µs"),
        (
            (
                str(one.batch),
                one.contender,
                f"{one.jobs_per_second:,.0f}",
                "" if one.contender == OURS else f"{_ours(results, one.batch) / one.jobs_per_second:.2f} ×",
                f"{one.enqueue_us:,.0f}",
                f"{one.claim_us:,.0f}",
                f"{one.complete_us:,.0f}",
                "" if one.server_us is None else f"{one.server_us:,.0f}",
            )
            for one in results
        ),
    )


def latency_table(results: Sequence[ClaimLatency]) -> str:
    """Percentiles of a claim by depth and shape of the queue."""
    return table(
        ("queue", "shape", "queued", "p50 ms", "p99 ms"),
        (
            (one.contender, one.shape, f"{one.queued:,}", f"{one.p50_ms:.2f}", f"{one.p99_ms:.2f}")
            for one in results
        ),
    )


def _ours(results: Sequence[Throughput], batch: int) -> float:
    return next(one.jobs_per_second for one in results if one.batch == batch and one.contender == OURS)
