"""Which segments are recomputed: all, those from some time on, or a sample."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_STEPS = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Segments that end after `since_us`, and of these so large a share, another one for each seed.

    Segments that are left out are believed: what follows from them, the bases, is verified all the same.
    """

    since_us: int | None = None
    share: float | None = None
    seed: str = ""

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return self.since_us is None and self.share is None

    def takes(self, subject_key: str, segment_us: int, *, length_us: int) -> bool:
        """Whether a segment is recomputed."""
        if self.since_us is not None and segment_us + length_us <= self.since_us:
            return False
        if self.share is None:
            return True
        # Not Python's own hash, which is another one in each process: tasks must agree with the driver.
        text = f"{self.seed}\0{subject_key}\0{segment_us}"
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) < self.share * _STEPS

    def taken(self, subject_key: str, segments_us: NDArray[np.int64], *, length_us: int) -> NDArray[np.bool_]:
        """By reading or row: whether its segment is recomputed."""
        if self.is_everything:
            return np.ones(len(segments_us), dtype=np.bool_)
        known, places = np.unique(segments_us, return_inverse=True)
        found = [self.takes(subject_key, each, length_us=length_us) for each in known.tolist()]
        return np.array(found, dtype=np.bool_)[places.reshape(-1)]

    def only(self, subject_key: str, segments_us: Iterable[int], *, length_us: int) -> frozenset[int]:
        """Those of some segments that are recomputed."""
        return frozenset(each for each in segments_us if self.takes(subject_key, each, length_us=length_us))


EVERYTHING = Selection()
