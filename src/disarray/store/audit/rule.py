"""What a rule of an audit is, and the guarantees that rules look after."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Guarantee(StrEnum):
    """What the product promises; the text is what an operator reads."""

    NO_LOSS = "G1 no loss"
    NO_DOUBLE_EFFECT = "G2 no double effect"
    CONFLUENCE = "G3 confluence"
    ATOMICITY = "G4 atomicity"
    FENCING = "G5 fencing"
    ONE_HOLDER = "G6 one holder"
    LIVENESS = "G7 liveness"
    BOUNDED = "G8 bounded"
    EXPLAINABLE = "G9 explainable"


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that can be looked up; `is_deep` where all that is stored has to be read for it."""

    name: str
    guarantee: Guarantee
    meaning: str
    next_step: str
    is_deep: bool = False
