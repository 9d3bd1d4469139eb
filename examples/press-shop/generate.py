"""The files of two presses: `python3 generate.py` writes them into inbox/ and later/, the same ones every time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

FIRST_SHIFT, SECOND_SHIFT = datetime(2026, 8, 31, 8, tzinfo=UTC), datetime(2026, 9, 1, 8, tzinfo=UTC)
EVERY = timedelta(minutes=5)


def strokes(begin: datetime, *forces_kn: float) -> list[str]:
    """A stroke every five minutes."""
    return [
        f"{begin + number * EVERY:%Y-%m-%dT%H:%M:%SZ},{force}\n" for number, force in enumerate(forces_kn)
    ]


def write(name: str, lines: list[str]) -> None:
    """Put a file where it lands."""
    path = Path(__file__).parent / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("time,force_kn\n" + "".join(lines), encoding="utf-8")
    print(f"{name}: {len(lines)} strokes")  # noqa: T201 - somebody looks on


def main() -> None:
    """Three files that are there, and one that comes later: for half an hour, PRESS-1 wrote to its panel."""
    hour = timedelta(hours=1)
    before, after = strokes(FIRST_SHIFT, *[100.0] * 12), strokes(FIRST_SHIFT + 1.5 * hour, *[110.0] * 6)
    write("inbox/PRESS-1_2026-08-31.csv", [*before, *after])
    write("inbox/PRESS-1_2026-09-01.csv", strokes(SECOND_SHIFT, *[120.0] * 12))
    write("inbox/PRESS-2_2026-08-31.csv", strokes(FIRST_SHIFT, *[80.0] * 12, *[90.0] * 12))
    write("later/PRESS-1_panel.csv", strokes(FIRST_SHIFT + hour, *[100.0] * 5, 130.0))


if __name__ == "__main__":
    main()
