"""Units of work into tasks, so that no core waits for another."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def pack_by_weight(weights: Sequence[int], *, tasks: int) -> list[list[int]]:
    """Indices of units by task: the heaviest first, each into the lightest task. No task is empty.

    The driver packs because Spark does not: a `groupBy` on a handful of descriptors runs as one task under
    adaptive execution, whatever the number of cores.
    """
    heap = [(0, task) for task in range(min(tasks, len(weights)))]
    packed: list[list[int]] = [[] for _ in heap]
    for unit in sorted(range(len(weights)), key=lambda unit: (-weights[unit], unit)):
        load, task = heapq.heappop(heap)
        packed[task].append(unit)
        # A unit costs something even where it weighs nothing: a thousand empty files are not one task's work.
        heapq.heappush(heap, (load + weights[unit] + 1, task))
    return [sorted(units) for units in packed]


def task_count(weights: Sequence[int], *, cores: int, most_per_task: int) -> int:
    """How many tasks to make: one a core at least, more where a task would become too large."""
    needed = -(-sum(weights) // most_per_task)
    rounds = max(1, -(-needed // cores))
    return min(len(weights), rounds * cores)
