"""Lines of readings as the plants of the tests take them in: with gaps, repeated keys and numbers that round."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from datetime import datetime

HEADER = "time,sensor,part,work_order,volts\n"
_PARTS = ("", "0", "1", "2", "3", "-4")
_ORDERS = ("", "W1", "W2")
# Among them what a sum in another order rounds differently, and what is lost beside anything else.
_VOLTS = (
    "",
    "0.1",
    "0.30000000000000004",
    "7.25",
    "-3.5",
    "4.9",
    "1e-3",
    "-0.0",
    "3e-290",
    "5e-324",
    "-1e-279",
)


def reading_line(generator: random.Random, at: datetime) -> str:
    """One reading of that time."""
    part, order, volts = (generator.choice(choices) for choices in (_PARTS, _ORDERS, _VOLTS))
    return f"{at.isoformat()},{generator.choice('abb')},{part},{order},{volts}\n"
