"""Crashes of this process that a test survives: at a step, the work is left as it is and nothing tidies up."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from disarray import failpoints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class CrashError(BaseException):
    """The end of a life: like a kill, no handler of errors of ours takes it, and connections are rolled back."""


@dataclass
class Strike:
    """What happens once, at one hit of a step; takes the place of the rules of the environment."""

    point: str
    action: Callable[[], None]
    at_hit: int = 1
    has_struck: bool = False
    _hits: int = field(default=0)

    def hit(self, name: str, _about: str, _connection: object) -> None:
        """Count, and strike when it is time."""
        if name != self.point or self.has_struck:
            return
        self._hits += 1
        if self._hits == self.at_hit:
            self.has_struck = True
            self.action()


@contextmanager
def striking(point: str, action: Callable[[], None], *, at_hit: int = 1) -> Iterator[Strike]:
    """Do something at a step, the next time that it is come to."""
    assert point in failpoints.POINTS
    strike, former = Strike(point, action, at_hit), failpoints._armed
    failpoints._armed = strike  # type: ignore[assignment]
    try:
        yield strike
    finally:
        failpoints._armed = former


def crash() -> None:
    """Die here."""
    raise CrashError


def fail() -> None:
    """Let the step fail, as a disk or a network does."""
    raise failpoints.InjectedError("a test wanted a step to fail")
