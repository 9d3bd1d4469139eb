"""What is seen of a plant from outside while it works: how long numbers are stale, and what its processes hold."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from benchmarks.processes import processes_below

if TYPE_CHECKING:
    from collections.abc import Iterator

STALE_EVERY_S = 0.05
MEMORY_EVERY_S = 0.5
# What `disarray.stale_from` looks at, for all subjects in one statement.
OPEN_RANGES = """
select subject_key from disarray.dirty_range where resolved_at is null
union
select subject_key from disarray.moving_file
"""


@dataclass
class Seen:
    """The longest time in which readers of one subject were told that numbers are stale, and the most bytes held."""

    longest_stale_s: float = 0.0
    times_stale: int = 0
    peak_bytes: dict[str, int] = field(default_factory=dict)


@contextmanager
def watched(dsn: str, seen: Seen) -> Iterator[None]:
    """Look at a plant's database and at the processes below this one until the block ends."""
    ended = threading.Event()
    threads = [
        threading.Thread(target=_watch_ranges, args=(dsn, seen, ended), daemon=True),
        threading.Thread(target=_watch_memory, args=(dsn, seen, ended), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _watch_ranges(dsn: str, seen: Seen, ended: threading.Event) -> None:
    since: dict[str, float] = {}
    with psycopg.connect(dsn, autocommit=True) as connection:
        while not ended.wait(STALE_EVERY_S):
            # From before the question on: what is told is never less than what a reader saw.
            asked = time.monotonic()
            stale = {subject for (subject,) in connection.execute(OPEN_RANGES)}
            for subject in stale:
                if subject not in since:
                    since[subject] = asked
                    seen.times_stale += 1
            now = time.monotonic()
            for subject in list(since):
                seen.longest_stale_s = max(seen.longest_stale_s, now - since[subject])
                if subject not in stale:
                    del since[subject]


def _watch_memory(dsn: str, seen: Seen, ended: threading.Event) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        while not ended.wait(MEMORY_EVERY_S):
            sessions = connection.execute("select pid from pg_stat_activity where pid is not null").fetchall()
            own = processes_below(os.getpid())
            machines = [each.number for each in own if each.name == "java"]
            tasks = {
                each.number
                for machine in machines
                for each in processes_below(machine)
                if each.name.startswith("python")
            }
            _note(seen, "a task of Spark", [status_bytes(each, "VmHWM") for each in tasks])
            _note(seen, "the JVM of Spark", [status_bytes(each, "VmHWM") for each in machines])
            _note(seen, "a session of PostgreSQL", [status_bytes(pid, "RssAnon") for (pid,) in sessions])


def _note(seen: Seen, name: str, found: list[int]) -> None:
    seen.peak_bytes[name] = max([seen.peak_bytes.get(name, 0), *found])


def status_bytes(pid: int, name: str) -> int:
    """What /proc says of the memory of a process of this host; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)
