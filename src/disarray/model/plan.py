"""All that one commit will do to one subject, worked out before anything is done: a value that can be printed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from disarray.model.description.dataset import Store
from disarray.model.fragments import FragmentState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.model.catalog_changes import CatalogChanges
    from disarray.model.description.dataset import Dataset, Version
    from disarray.model.scan_units import ScanUnit


@dataclass(frozen=True, slots=True)
class StoredRows:
    """What the table of a dataset holds of one segment."""

    rows: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildStep:
    """From which definition a commit moves its subject; what is not scanned again keeps the numbers named here."""

    before: Version
    kept_metrics: tuple[str, ...]
    kept_rollups: tuple[str, ...]
    moved: Mapping[str, str] = field(default_factory=dict)  # uri → the subject that the file is about now


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectPlan:
    """All that one commit will do to one subject's readings of one dataset."""

    dataset: str
    subject_key: str
    changes: CatalogChanges
    units: tuple[ScanUnit, ...]
    rebuild: RebuildStep | None = None
    former: Dataset | None = None  # the definition that numbers were made under, where a rebuild leaves it
    restates: bool = False  # whether values that people may have used can change
    store: Store = Store.LAKE
    in_table: Mapping[int, StoredRows] = field(default_factory=dict)  # of the units, what the table holds
    copied: Mapping[int, str] = field(
        default_factory=dict
    )  # units that only change their store: their digests

    def __str__(self) -> str:
        changes = self.changes
        parked = sum(fragment.state is FragmentState.PARKED for fragment in changes.added)
        return (
            f"{self.dataset}/{self.subject_key}: fragments: {len(changes.added)} added ({parked} parked), "
            f"{len(changes.cut)} cut, {len(changes.dropped)} dropped, {len(changes.released)} released, "
            f"{len(changes.restored)} restored; "
            f"segments scanned again: {len(self.units)} (readings: {sum(unit.readings for unit in self.units)})"
            + (f"; {len(changes.sealed)} in sealed segments left as they are" if changes.sealed else "")
            + ("" if self.rebuild is None else "; rebuilt under another definition")
        )
