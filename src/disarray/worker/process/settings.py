"""The `[worker]` settings as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from disarray.errors import ConfigError
from disarray.model.duration import SECOND
from disarray.sinks.destination_loader import LoaderSettings
from disarray.sources.inbox import InboxSettings

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
    patterns = config.words("worker.patterns") if config.is_set("worker.patterns") else None
    if patterns == ():
        raise ConfigError(
            "worker.patterns is empty: the worker would serve nothing. Write 'TOOL0*, CELL-??' or leave it out"
        )
    runner = config.text("worker.runner")
    if runner not in set(RunnerKind):
        raise ConfigError(f"worker.runner {runner!r} must be one of: {', '.join(RunnerKind)}")
    return WorkerSettings(
        name=config.text("worker.name"),
        patterns=patterns,
        runner=RunnerKind(runner),
        lease_seconds=config.length_us("worker.lease") // SECOND,
        drain_seconds=config.length_us("worker.drain_within") / SECOND,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationSettings:
    """How often workers verify by themselves, and for how long at a time."""

    every: timedelta = timedelta(days=1)
    budget: timedelta = timedelta(minutes=10)


def serves_backfills(config: Config) -> bool:
    """Whether a worker processes chunks of backfills."""
    answer = config.text("backfill.on_workers")
    if answer not in ("yes", "no"):
        raise ConfigError(f"backfill.on_workers {answer!r} must be yes or no. Nothing was started")
    return answer == "yes"


def verification_settings(config: Config) -> VerificationSettings | None:
    """The `[verify]` settings of a configuration; None where workers do not verify by themselves."""
    answer = config.text("verify.on_workers")
    if answer not in ("yes", "no"):
        raise ConfigError(f"verify.on_workers {answer!r} must be yes or no. Nothing was started")
    if answer == "no":
        return None
    return VerificationSettings(every=config.length("verify.every"), budget=config.length("verify.budget"))


def inbox_settings(config: Config) -> InboxSettings:
    """The `[inbox]` settings of a configuration; a claim of events holds as long as that of a subject."""
    return InboxSettings(
        every_seconds=config.length_us("inbox.every") / SECOND,
        max_attempts=config.number("inbox.max_attempts"),
        lease_seconds=worker_settings(config).lease_seconds,
    )


def loader_settings(config: Config) -> LoaderSettings:
    """The `[sinks]` settings of a configuration; the turn to load a subject holds as long as that of a worker."""
    return LoaderSettings(
        every_seconds=config.length_us("sinks.load_every") / SECOND,
        most_deleted_percent=config.number("sinks.most_deleted_percent"),
        lease_seconds=worker_settings(config).lease_seconds,
    )
