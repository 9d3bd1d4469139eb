"""One plant whose files are about several subjects, beside one that has a file for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.store.audit.audit import AuditSettings, Outcome, audit
from tests.worker.conftest import DATASET

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tests.plant import Plant

SPLIT = DATASET.replace(
    "subject = { path = '^(?P<subject>[^/]+)/' }", 'subject = { column = "tool" }'
).replace(
    "[dataset.columns.watts]",
    '[dataset.columns.tool]\ntype = "string"\n[dataset.columns.watts]',
)
# The same columns, one file for each subject.
APART = DATASET.replace(
    "[dataset.columns.watts]",
    '[dataset.columns.tool]\ntype = "string"\n[dataset.columns.watts]',
)
HEADER = "time,tool,watts,good\n"

Line = tuple[str, int, float]  # tool, minute of the day, watts


def text_of(lines: Iterable[Line]) -> str:
    """Lines as an instrument writes them."""
    return "".join(
        f"2026-09-01T{minute // 60:02d}:{minute % 60:02d}:00Z,{tool},{watts},1\n"
        for tool, minute, watts in lines
    )


def mixed(minutes: Sequence[int], tools: Sequence[str] = ("TOOL01", "TOOL02", "TOOL03")) -> list[Line]:
    """A line of each tool for each minute."""
    return [
        (tool, minute, 100.0 + minute * (place + 1)) for minute in minutes for place, tool in enumerate(tools)
    ]


def write_lines(plant: Plant, name: str, lines: Iterable[Line]) -> Path:
    """A file about several subjects."""
    return plant.write(name, HEADER + text_of(lines))


def write_apart(plant: Plant, name: str, lines: Sequence[Line]) -> list[Path]:
    """The same lines, in one file for each subject."""
    return [
        plant.write(f"{tool}/{name}", HEADER + text_of(line for line in lines if line[0] == tool))
        for tool in sorted({tool for tool, *_ in lines})
    ]


def assert_sound(plant: Plant) -> None:
    """Nothing waits, no line is lost, every rule of an audit holds."""
    assert plant.rows("select count(*) from disarray.part_delivery") == [(0,)]
    with plant.pool.connection() as connection:
        verdicts = audit(
            connection,
            plant.place.lake,
            AuditSettings(is_deep=True, datasets=list(plant.datasets.values())),
        )
    broken = [each.findings for each in verdicts if each.outcome is Outcome.BROKEN]
    assert broken == [], broken
