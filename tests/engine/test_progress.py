"""What a long verification tells of itself."""

from __future__ import annotations

from disarray.engine.verification.progress import Progress


def test_rate_and_time_left_are_told_every_ten_seconds_and_not_at_the_end() -> None:
    now, lines = [100.0], list[str]()
    progress = Progress(20_000_000, lines.append, clock=lambda: now[0])
    for seconds, readings in ((4, 1_000_000), (6, 1_500_000), (5, 500_000), (5, 1_000_000), (80, 16_000_000)):
        now[0] += seconds
        progress.advance(readings)
    assert lines == [
        "2,500,000 of 20,000,000 readings (12 %), 250,000 a second, 1 min 10 s left",
        "4,000,000 of 20,000,000 readings (20 %), 200,000 a second, 1 min 20 s left",
    ]
