"""The landing folder kept small: orphans of batches that never were, and deliveries that nothing needs any more."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from disarray.control import deliveries
from disarray.failpoints import failpoint
from disarray.model.uris import file_uri

if TYPE_CHECKING:
    from disarray.control.connections import Connection
    from disarray.sources.landing import LandedFile, Landing
    from disarray.worker.workplace import Workplace

_PAGE = 1_000


def sweep_landing(
    connection: Connection, workplace: Workplace, *, is_rehearsal: bool = False
) -> list[LandedFile]:
    """Delete files that no batch ever named, old enough that none can name them any more."""
    landing = workplace.landing
    if landing is None or not landing.root.is_dir():
        return []
    # A batch is committed within the lease of its source, which is shorter than this by far.
    written_before = _landing_time(landing) - workplace.housekeeping.vacuum_after.total_seconds()
    swept: list[LandedFile] = []
    found = list(landing.list_files(written_before=written_before))
    for page in (found[start : start + _PAGE] for start in range(0, len(found), _PAGE)):
        unknown = set(deliveries.find_unknown_deliveries(connection, [file_uri(each.path) for each in page]))
        for each in page:
            if file_uri(each.path) in unknown:
                if not is_rehearsal:
                    Path(each.path).unlink(missing_ok=True)
                    failpoint("sweep.deleted", connection, about=each.path)
                swept.append(each)
    return swept


def drop_spent_deliveries(connection: Connection, workplace: Workplace, *, is_rehearsal: bool = False) -> int:
    """Delete deliveries that were taken in long ago and of which nothing counts or waits; how many bytes that is."""
    keep = workplace.housekeeping.keep_landing
    if keep is None or workplace.landing is None:
        return 0
    dropped = 0
    while True:
        spent = deliveries.list_spent_deliveries(connection, keep=keep, limit=_PAGE)
        dropped += sum(each.bytes for each in spent)
        if is_rehearsal or not spent:
            return dropped
        # Noted first: wherever this ends, no file is gone that is not known to be. One that is left is swept by nobody,
        # and does no harm.
        deliveries.note_deleted_deliveries(connection, [each.source_uri for each in spent])
        for each in spent:
            Path(unquote(each.source_uri.removeprefix("file://"))).unlink(missing_ok=True)


def _landing_time(landing: Landing) -> float:
    """What time it is where the folder lies, in seconds since 1970: its files are dated by that clock."""
    with tempfile.NamedTemporaryFile(prefix=".clock-", dir=landing.root) as probe:
        return Path(probe.name).stat().st_mtime
