"""What a worker was told, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from disarray.errors import ConfigError
from disarray.model.duration import SECOND, parse_duration

if TYPE_CHECKING:
    from disarray.config import Config


class RunnerKind(StrEnum):
    """Where kernels run."""

    SPARK = "spark"
    IN_PROCESS = "in-process"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Who it is, what it serves, and how long it may take to end; times in seconds."""

    name: str
    patterns: tuple[str, ...] | None
    runner: RunnerKind
    lease_seconds: int
    drain_seconds: float


def worker_settings(config: Config) -> WorkerSettings:
    """The `[worker]` settings of a configuration."""
    patterns = config.worker_patterns
    if patterns == ():
        raise ConfigError(
            "worker.patterns is empty: the worker would serve nothing. Write 'TOOL0*, CELL-??' or leave it out"
        )
    runner = config.text("worker.runner")
    if runner not in set(RunnerKind):
        raise ConfigError(f"worker.runner {runner!r} must be one of: {', '.join(RunnerKind)}")
    lease_seconds = parse_duration(config.text("worker.lease")) // SECOND
    if not 1 <= lease_seconds <= 86_400:
        raise ConfigError(f"worker.lease {config.text('worker.lease')!r} must be 1 s to 1 d")
    return WorkerSettings(
        name=config.worker_name,
        patterns=patterns,
        runner=RunnerKind(runner),
        lease_seconds=lease_seconds,
        drain_seconds=parse_duration(config.text("worker.drain_within")) / SECOND,
    )
