"""A digest of what a user can see of a segment: equal digests mean that nothing has to be restated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.kernels.fragments.ordering import digest_table
from disarray.model.description.format import POSITION

if TYPE_CHECKING:
    import pyarrow as pa


def digest_readings(readings: pa.Table) -> str:
    """A hash over event time, channel and declared columns of readings in canonical order.

    In which order columns are declared leaves no trace, so that moving one restates nothing. Where a reading stands in
    its file is left out: a copy of a file that takes over from the original changes no number.
    """
    return digest_table(readings.select(sorted(set(readings.column_names) - {POSITION})))
