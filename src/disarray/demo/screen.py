"""What the demo counts, and how it shows that: live on a terminal, line by line elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

import typer

from disarray.cli.support.pass_report import pass_sentence
from disarray.cli.support.rendering import counted
from disarray.cli.support.terminal import open_console
from disarray.cli.support.text_tables import is_terminal
from disarray.demo.factory import LATE_TOOL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from rich.live import Live

BAR = 24


@dataclass
class Figures:
    """What the demo counted."""

    files: int = 0
    landings: int = 0
    out_of_order_percent: int = 0
    readings: int = 0
    duplicates: int = 0
    late_files: int = 0
    late_by: str = ""
    late_readings_scanned: int = 0
    late_bases_shifted: int = 0
    late_readings_to_the_right: int = 0
    seconds: float = 0
    late_seconds: float = 0
    verify_seconds: float = 0
    check_seconds: float = 0
    picture: str = ""
    restatements: list[str] = field(default_factory=list)
    quarantined: list[str] = field(default_factory=list)
    dead_letters: list[str] = field(default_factory=list)
    verify: str = ""
    check: str = ""

    def add_late(self, passes: Sequence[dict[str, Any]]) -> None:
        """Count what the backlog cost, beside what it left alone."""
        for done in passes:
            self.late_readings_scanned += done["readings_scanned"]
            self.late_bases_shifted += done["bases_shifted"]
            self.late_readings_to_the_right += done["readings_to_the_right"]


@dataclass
class Progress:
    """How far the landings are, how late they come, and what had to be scanned for them so far."""

    of: int
    landed: int = 0
    at: datetime | None = None
    held_up_minutes: float = 0
    segments_scanned: int = 0
    newest: str = ""

    def add(
        self, passes: Sequence[dict[str, Any]], *, landed: int, at: datetime, held_up_minutes: float
    ) -> None:
        """Count a batch of landings and what came of it."""
        self.landed, self.at, self.held_up_minutes = landed, at, held_up_minutes
        self.segments_scanned += sum(done["segments_scanned"] for done in passes)
        self.newest = pass_sentence(passes[-1]) if passes else self.newest

    @property
    def is_quarter(self) -> bool:
        """Whether it is worth a line where lines stay."""
        return self.landed == self.of or self._done % (BAR // 4) == 0

    def line(self) -> str:
        """How far it is, and what it took."""
        bar = "#" * self._done + "." * (BAR - self._done)
        return (
            f"  {self.at:%d %b} [{bar}] {self.landed:5,} of {self.of:,} landed, up to {self.held_up_minutes:.0f} min "
            f"late; {counted(self.segments_scanned, 'segment')} scanned"
        )

    @property
    def _done(self) -> int:
        return BAR * self.landed // self.of


class Screen:
    """Where the demo speaks."""

    def __init__(self, *, is_silent: bool) -> None:
        self._is_silent = is_silent
        self._is_live = is_terminal()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        # However it ends: a live view hides the cursor of the terminal.
        self._end_live()

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._is_silent:
            return
        self._end_live()
        typer.echo(text)

    def progress(self, progress: Progress) -> None:
        """How far it is: lines that move on a terminal, four that stay elsewhere."""
        if self._is_silent:
            return
        if self._is_live:
            self._show_live(f"{progress.line()}\n  {progress.newest}")
        elif progress.is_quarter:
            typer.echo(progress.line())

    def show(self, figures: Figures) -> None:
        """The table at the end."""
        self.say("")
        for name, text in _rows(figures):
            self.say(f"{name:<12} {text}")
        self.say(f"\ncheck: {figures.check}")
        self.say(f"verify: {figures.verify}")

    def _end_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show_live(self, text: str) -> None:
        from rich.live import Live
        from rich.text import Text

        if self._live is None:
            self._live = Live(console=open_console(), auto_refresh=False)
            self._live.start()
        self._live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)


def in_words(lateness: timedelta) -> str:
    """How late something is, as people say it: 1 day, 3 weeks."""
    days = round(lateness / timedelta(days=1))
    return counted(days, "day") if days < 14 else counted(round(days / 7), "week")


def _rows(figures: Figures) -> Iterator[tuple[str, str]]:
    arrived = (
        f"{figures.files:,} in {figures.landings:,} landings, {figures.out_of_order_percent} % out of order"
    )
    yield "files", f"{arrived}, taken in within {figures.seconds:.1f} s"
    yield "readings", f"{figures.readings:,} kept, {figures.duplicates:,} duplicates absorbed"
    mended = f"{figures.late_files} files of {LATE_TOOL}, {figures.late_by} late"
    yield "backlog", f"{mended}, mended within {figures.late_seconds:.1f} s:"
    scanned = counted(figures.late_readings_scanned, "reading")
    yield "", f"{scanned} scanned and {counted(figures.late_bases_shifted, 'base')} shifted,"
    yield "", f"{counted(figures.late_readings_to_the_right, 'reading')} to the right left as they are"
    for label, texts in (
        ("restated", figures.restatements),
        ("quarantine", figures.quarantined),
        ("dead letter", figures.dead_letters),
    ):
        for number, text in enumerate(texts):
            yield label if number == 0 else "", text
    yield "picture", figures.picture
    yield "verified", f"everything, from the files, within {figures.verify_seconds:.1f} s"
    yield "replayed", f"everything, by our own kernels, within {figures.check_seconds:.1f} s"
