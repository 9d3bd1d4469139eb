"""What the processes below one of them use, from /proc: memory, and processor time that other work does not distort."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.server import Server

Arguments = ParamSpec("Arguments")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """A process, its parent, and the processor time of itself and of those children that have ended."""

    number: int
    parent: int
    name: str
    cpu_s: float


def processes_below(root: int) -> list[Process]:
    """A process and all that descend from it."""
    known = list(_all_processes())
    found = {root}
    # A child may be listed before its parent: look until nothing is added.
    while added := {each.number for each in known if each.parent in found} - found:
        found |= added
    return [each for each in known if each.number in found]


def cpu_seconds(server: Server) -> float:
    """Processor time so far of this process, of all below it (Spark, its workers) and of the database server."""
    with psycopg.connect(server.dsn) as connection:
        backend = connection.info.backend_pid
        [postmaster] = [each.parent for each in _all_processes() if each.number == backend]
        found = {each.number: each for root in (os.getpid(), postmaster) for each in processes_below(root)}
    return sum(each.cpu_s for each in found.values())


@dataclass(frozen=True)
class Cost:
    """Seconds on the clock, and of processors in all processes together."""

    clock_s: float
    cpu_s: float


def cost_of(
    server: Server,
    action: Callable[Arguments, object],
    *args: Arguments.args,
    **named: Arguments.kwargs,
) -> Cost:
    """What an action costs; on a busy machine the second figure is the one that can be compared."""
    before, began = cpu_seconds(server), time.perf_counter()
    action(*args, **named)
    clock_s = time.perf_counter() - began
    return Cost(round(clock_s, 3), round(cpu_seconds(server) - before, 2))


def _all_processes() -> Iterator[Process]:
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = entry.read_text()
        except OSError:
            continue
        name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        ticks = sum(map(int, rest[11:15]))
        yield Process(int(entry.parent.name), int(rest[1]), name, ticks / _TICKS)
