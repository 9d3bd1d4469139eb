"""What strikes, how often, and when: all of it follows from the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """What is done to the plant."""

    KILL_WORKER = "worker killed"
    KILL_AT_FAILPOINT = "worker killed or failed at a failpoint"
    KILL_AGENT_AT_FAILPOINT = "agent killed at a failpoint"
    KILL_SPARK_WORKER = "worker with Spark killed"
    FREEZE_WORKER = "worker frozen past its lease"
    REPLACE_FROZEN_WORKER = "worker frozen, replaced, woken"
    CRASH_POSTGRES = "PostgreSQL stopped at once"
    CRASH_BROKER = "RabbitMQ killed"
    CUT_DATABASE = "connections to PostgreSQL cut"
    DEAD_DATABASE = "line to PostgreSQL dead"
    CUT_BEFORE_COMMIT = "COMMIT lost"
    CUT_AFTER_COMMIT = "answer to COMMIT lost"
    CUT_BROKER = "connections to RabbitMQ cut"
    KILL_AGENT = "agent killed"
    SHARE_AWAY = "share away"
    BLACKLIST = "file blacklisted"
    ALLOW = "file allowed again"
    REINGEST = "file read again on request"
    RELEASE = "parked file released"
    REJECT = "parked file rejected"
    RETRY = "dead letters retried"
    RECONCILE = "reconcile asked for"
    KEEP_HOUSE = "housekeeping with compaction and vacuum"


RATES: dict[Fault, float] = {
    Fault.KILL_WORKER: 7.2,
    Fault.KILL_AT_FAILPOINT: 1.5,
    Fault.KILL_AGENT_AT_FAILPOINT: 0.3,
    Fault.KILL_SPARK_WORKER: 0.37,
    Fault.FREEZE_WORKER: 0.5,
    Fault.REPLACE_FROZEN_WORKER: 0.4,
    Fault.CRASH_POSTGRES: 0.4,
    Fault.CRASH_BROKER: 0.4,
    Fault.CUT_DATABASE: 1.0,
    Fault.DEAD_DATABASE: 0.3,
    Fault.CUT_BEFORE_COMMIT: 1.0,
    Fault.CUT_AFTER_COMMIT: 1.5,
    Fault.CUT_BROKER: 1.0,
    Fault.KILL_AGENT: 0.8,
    Fault.SHARE_AWAY: 0.35,
    Fault.BLACKLIST: 1.2,
    Fault.ALLOW: 0.9,
    Fault.REINGEST: 0.8,
    Fault.RELEASE: 0.3,
    Fault.REJECT: 0.2,
    Fault.RETRY: 0.25,
    Fault.RECONCILE: 0.2,
    Fault.KEEP_HOUSE: 0.4,
}


@dataclass(frozen=True)
class Strike:
    """One fault: when, in seconds from the start, at whom, and how hard, both between 0 and 1."""

    at: float
    fault: Fault
    target: float
    amount: float


def plan_strikes(seed: int, *, seconds: float, faults: frozenset[Fault] = frozenset(Fault)) -> list[Strike]:
    """Every kind spread over the whole time, one in each equal part of it at a random moment."""
    strikes = []
    for fault in faults:
        # Each kind draws for itself: one that is left out, or a new one, changes nothing about the others.
        generator = random.Random(f"{seed}/{fault}")
        count = max(1, round(RATES[fault] * seconds / 60))
        strikes += [
            Strike(
                seconds * (number + generator.random()) / count, fault, generator.random(), generator.random()
            )
            for number in range(count)
        ]
    return sorted(strikes, key=lambda strike: (strike.at, strike.fault))
