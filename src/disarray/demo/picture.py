"""A picture of a running total before and after files landed weeks late, as an SVG that any browser shows."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    Points = Sequence[tuple[datetime, float]]

WIDTH, HEIGHT = 860, 400
LEFT, RIGHT, TOP, BOTTOM = 76, 24, 64, 44
BEFORE, AFTER, GAP = "#9a6700", "#0969da", "#fff3d6"


@dataclass(frozen=True)
class Picture:
    """What was read of a metric before and after, and the span that was missing."""

    title: str
    subtitle: str
    before: Points
    after: Points
    missing: tuple[datetime, datetime]

    def svg(self) -> str:
        """The whole picture."""
        return "\n".join(self._elements()) + "\n"

    def _elements(self) -> Iterator[str]:
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="system-ui, sans-serif" font-size="13" fill="#57606a">'
        )
        yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
        yield f'<text x="{LEFT}" y="26" font-size="17" font-weight="600" fill="#1f2328">{self.title}</text>'
        yield f'<text x="{LEFT}" y="46">{self.subtitle}</text>'
        x, end = (self._x(edge) for edge in self.missing)
        yield (
            f'<rect x="{x:.1f}" y="{TOP}" width="{end - x:.1f}" height="{HEIGHT - TOP - BOTTOM}" fill="{GAP}"/>'
        )
        yield f'<text x="{(x + end) / 2:.1f}" y="{TOP + 18}" text-anchor="middle">offline</text>'
        yield from self._axes()
        for points, colour, dash in (
            (self.before, BEFORE, ' stroke-dasharray="6 4"'),
            (self.after, AFTER, ""),
        ):
            line = " ".join(f"{self._x(at):.1f},{self._y(number):.1f}" for at, number in points)
            yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"{dash}/>'
        yield self._label(self.after, AFTER, "after the backlog landed", above=True)
        yield self._label(self.before, BEFORE, "before", above=False)
        yield "</svg>"

    def _axes(self) -> Iterator[str]:
        bottom = HEIGHT - BOTTOM
        for number in _ticks(self._highest):
            y = self._y(number)
            yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d8dee4"/>'
            yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{number:,}</text>'
        first, last = self._span
        day = first.replace(hour=0, minute=0, second=0, microsecond=0)
        every = max(1, round((last - first).days / 8))
        while day <= last:
            if day >= first:
                x = self._x(day)
                yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}" stroke="#8c959f"/>'
                yield f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{day:%d %b}</text>'
            day += timedelta(days=every)

    def _label(self, points: Points, colour: str, text: str, *, above: bool) -> str:
        at, number = points[-1]
        y = self._y(number) + (-12 if above else 64)
        return (
            f'<text x="{self._x(at):.1f}" y="{y:.1f}" text-anchor="end" font-weight="600" fill="{colour}">'
            f"{number:,.10g} {text}</text>"
        )

    @property
    def _span(self) -> tuple[datetime, datetime]:
        instants = [at for at, _ in (*self.before, *self.after)]
        return min(instants), max(instants)

    @property
    def _highest(self) -> float:
        return max(number for _, number in (*self.before, *self.after))

    def _x(self, at: datetime) -> float:
        first, last = self._span
        return LEFT + (WIDTH - LEFT - RIGHT) * ((at - first) / (last - first))

    def _y(self, number: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * number / (self._highest * 1.08)


def _ticks(highest: float) -> Sequence[int]:
    """Round numbers from zero up, eight of them at the most."""
    steps = (lead * 10**power for power in itertools.count() for lead in (1, 2, 5))
    return range(0, int(highest) + 1, next(step for step in steps if highest / step < 8))
