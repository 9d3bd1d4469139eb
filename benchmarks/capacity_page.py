"""The tables of docs/capacity.md, from the committed result: `python -m benchmarks.capacity_page` writes them anew.

`benchmarks.capacity` does so at the end of a full run, so that what the page says is what was measured last.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.goals import COMMITTED_RESULTS, table

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = Path(__file__).parents[1] / "docs" / "capacity.md"
MARKS = {
    name: (f"<!-- {name}: python -m benchmarks.capacity_page -->", f"<!-- end of {name} -->")
    for name in ("things", "plants", "formula")
}
CHANNELS = 2
READINGS_A_DAY = 24 * 60 * CHANNELS
AGGREGATES = 4
SEGMENTS_PER_BLOCK = 128
# What a table grows with. The others have a row for each thing that is configured, or are empty at rest.
GROWS_WITH = {
    "file_info": "file",
    "file_fingerprint": "file",
    "fragment": "file",
    "lake_file": "file",
    "ingest_event": "file",
    "run": "commit",
    "subject_commit": "commit",
    "dirty_range": "commit",
    "restatement": "restatement",
    "segment": "segment",
    "segment_summary": "summary",
    "metric_block": "block",
    "rollup_block": "part",
    "subject": "subject",
    "subject_lock": "subject",
    "subject_version": "subject",
    "raw_event": "event",
}
UNITS = {
    "restatement": "span of a restatement",
    "summary": "segment, metric and channel",
    "block": f"block of {SEGMENTS_PER_BLOCK} segments, metric and channel",
    "part": "rollup part (segment, aggregate, channel and bucket)",
    "event": "event of the inbox, delivered",
}
# Days for which housekeeping keeps a row by default; the other tables grow for ever.
KEPT_DAYS = {"ingest_event": 365, "run": 90, "dirty_range": 90, "subject_commit": 30}
KEPT = {
    "ingest_event": "`keep_events`, 365 days",
    "run": "`keep_history`, 90 days",
    "dirty_range": "`keep_history`, 90 days",
    "subject_commit": "`keep_commits`, 30 days, and until every sink has it",
    "lake_file": "while something of it counts",
    "subject_lock": "while it is held",
    "raw_event": "`keep_inbox`, 90 days",
}
PLANTS = (
    ("1 subject, 1 year", 1, 1),
    ("100 subjects, 1 year", 100, 1),
    ("100 subjects, 5 years", 100, 5),
    ("10,000 subjects, 1 year", 10_000, 1),
    ("10,000 subjects, 5 years", 10_000, 5),
)


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a database holds: how many of each thing, and rows and bytes by table."""

    units: dict[str, int]
    rows: dict[str, int]
    bytes: dict[str, int]

    def __or__(self, other: Held) -> Held:
        """The same, with what another database tells better."""
        return Held(
            units=self.units | other.units, rows=self.rows | other.rows, bytes=self.bytes | other.bytes
        )

    def only(self, name: str) -> Held:
        """One table and what it grows with."""
        unit = GROWS_WITH[name]
        return Held(
            units={unit: self.units[unit]},
            rows={name: self.rows[name]},
            bytes={name: self.bytes[name]},
        )

    def bytes_a_unit(self, name: str) -> float:
        return self.bytes[name] / max(self.units[GROWS_WITH[name]], 1)

    def rows_a_unit(self, name: str) -> float:
        return self.rows[name] / max(self.units[GROWS_WITH[name]], 1)

    def bytes_of(self, unit: str) -> float:
        """Bytes of all tables that grow with a thing, for each of it."""
        return sum(self.bytes_a_unit(name) for name, with_what in GROWS_WITH.items() if with_what == unit)


def things_table(small: Held, large: Held) -> str:
    """Rows and bytes of each table for each thing that it grows with."""
    return table(
        ("grows with", "table", "rows for each", "bytes, small plant", "bytes, large plant", "kept"),
        (
            (
                UNITS.get(unit, unit),
                f"`{name}`",
                f"{large.rows_a_unit(name):.2g}",
                f"{small.bytes_a_unit(name):,.0f}",
                f"{large.bytes_a_unit(name):,.0f}",
                KEPT.get(name, "for ever"),
            )
            for name, unit in GROWS_WITH.items()
        ),
    )


def plants_table(held: Held) -> str:
    """What plants with a file a day for each subject hold after so many years."""
    return table(
        ("plant, a file a day for each subject", "files", "readings", "in PostgreSQL", "most of it"),
        (_extrapolated(held, *one) for one in PLANTS),
    )


def formula(held: Held) -> str:
    """What stays for ever, for any plant."""
    file = sum(held.bytes_a_unit(name) for name in ("file_info", "file_fingerprint", "fragment"))
    series = held.bytes_of("summary") + held.bytes_of("block") / SEGMENTS_PER_BLOCK
    return (
        f"    F × {file / 1e3:.1f} kB  +  S × ({held.bytes_of('segment') / 1e3:.1f} kB + M × C × {series / 1e3:.2f} kB)"
        f"  +  S × P × {held.bytes_of('part'):.0f} bytes"
    )


def write_page(figures: Mapping[str, Any], page: Path = PAGE) -> None:
    """Put what was measured between its marks."""
    text = page.read_text("utf-8")
    for name, made in sections(figures).items():
        begin, end = MARKS[name]
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n\n{made}\n\n{end}{after}"
    page.write_text(text, "utf-8")


def sections(figures: Mapping[str, Any]) -> dict[str, str]:
    """What belongs between the marks, by name."""
    small, large = (Held(**figures[name]) for name in ("small", "large"))
    return {"things": things_table(small, large), "plants": plants_table(large), "formula": formula(large)}


def _extrapolated(held: Held, name: str, subjects: int, years: int) -> tuple[str, ...]:
    days = years * 365
    files = subjects * days
    units = {
        "file": files,
        "segment": files,
        "commit": files,
        "summary": files * CHANNELS,
        "block": subjects * CHANNELS * (1 + days // SEGMENTS_PER_BLOCK),
        "part": files * CHANNELS * 24 * AGGREGATES,
        "subject": subjects,
    }
    grown = {
        table: held.bytes_a_unit(table) * units[unit] * min(1, KEPT_DAYS.get(table, days) / days)
        for table, unit in GROWS_WITH.items()
        if unit in units
    }
    most = sorted(grown.items(), key=lambda one: -one[1])[:3]
    return (
        name,
        f"{files:,}",
        f"{files * READINGS_A_DAY / 1e6:,.0f} M",
        _shown_bytes(sum(grown.values())),
        ", ".join(f"`{table}` {size / sum(grown.values()):.0%}" for table, size in most),
    )


def _shown_bytes(size: float) -> str:
    if size < 1e8:
        return f"{size / 1e6:,.0f} MB"
    return f"{size / 1e9:,.2f} GB" if size < 1e10 else f"{size / 1e9:,.0f} GB"


if __name__ == "__main__":
    write_page(json.loads((COMMITTED_RESULTS / "capacity.json").read_text("utf-8"))["figures"])
