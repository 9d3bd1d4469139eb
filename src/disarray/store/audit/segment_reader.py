"""Fragments of one segment after the other: each row group is decoded once, however many rules look at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.kernels.fragments.fragment_reader import FragmentReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa


class SegmentReader(FragmentReader):
    """Keeps what it read of the segment at hand; whoever goes on to the next one says so.

    A compacted row group has fragments of many files: decoded for each, a thousand files would cost a thousand times
    the readings of their segment.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[tuple[str, int], pa.Table] = {}

    def next_segment(self) -> None:
        """Let go of what was read."""
        self._kept.clear()

    def read(
        self,
        path: str,
        row_groups: Sequence[int],
        *,
        digests: Mapping[int, str] | None = None,
        checksum: str | None = None,
    ) -> dict[int, pa.Table]:
        """The readings of some fragments of one file; those that are kept have been held against their digests."""
        missing = [number for number in row_groups if (path, number) not in self._kept]
        if missing:
            wanted = {number: digest for number, digest in (digests or {}).items() if number in missing}
            found = super().read(path, missing, digests=wanted, checksum=checksum)
            self._kept |= {(path, number): table for number, table in found.items()}
        return {number: self._kept[path, number] for number in row_groups}
