"""What the files of a plant must come to, whatever happened on the way."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from disarray.control.files import Reason
from disarray.model.segments import microseconds_of
from disarray.store.audit.audit import AuditSettings, audit
from tests.accepted import Source
from tests.arrivals import differences, stored
from tests.oracle import derive
from tests.worker.deliveries import START

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.oracle import Table
    from tests.plant import Plant


def assert_sound(plant: Plant, paths: Sequence[Path]) -> None:
    """All that is stored is what a loop over these files gives, and every guarantee holds."""
    assert_stored(plant, paths)
    assert_all_holds(plant)


def assert_stored(plant: Plant, paths: Sequence[Path]) -> None:
    """All that is stored is what a loop over these files gives."""
    [dataset] = plant.datasets.values()
    expected: dict[str, Table] = {"segments": {}, "metrics": {}, "rollups": {}}
    for subject in sorted({path.parent.name for path in paths}):
        said = []
        for path in paths:
            if path.parent.name == subject:
                source = Source(path, dataset, subject, text=path.read_text())
                source.process({Reason.FILE_NOTIFICATION}, high_us=None)
                said += source.said()
        window = (microseconds_of(START - timedelta(days=1)), microseconds_of(START + timedelta(days=2)))
        for table, rows in derive(dataset, subject, said, window=window).items():
            expected[table] |= rows
    assert expected["segments"], "nothing was expected"
    assert differences(stored(plant), expected) == []


def assert_all_holds(plant: Plant) -> None:
    """Every rule of an audit, of a plant at rest."""
    with plant.pool.connection() as connection:
        verdicts = audit(connection, plant.place.lake, AuditSettings(patience=timedelta(0), is_deep=True))
    assert [finding for verdict in verdicts for finding in verdict.findings] == []
