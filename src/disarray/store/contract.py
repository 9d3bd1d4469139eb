"""What every store does: tell the readings of a segment with their folds, and take in a commit's changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from disarray.control.catalog import SegmentEntry
    from disarray.control.connections import Connection
    from disarray.control.queue import Holder
    from disarray.kernels.scanning.running_values import Locals
    from disarray.model.description.dataset import Store
    from disarray.model.description.metrics import Metric
    from disarray.model.fragments import FragmentEntry
    from disarray.store.staging import StagedRows


@dataclass(frozen=True, slots=True)
class SegmentContent:
    """A segment as the catalog had it in one snapshot: what to read, without having read it."""

    entry: SegmentEntry
    fragments: tuple[FragmentEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentReadings:
    """The readings of a segment that count, in canonical order, the same bits from whichever store."""

    readings: pa.Table  # event time, position, channel if there is one, declared columns
    source_uris: pa.Array[Any]  # by reading
    channels: tuple[str, ...]  # by UTF-8 bytes
    channel: NDArray[np.int64]  # by reading: its index in `channels`
    locals_of: Callable[[Metric], Locals]
    # uri of the winner, uri of the loser, how many: known only where the readings were merged just now
    conflict_pairs: tuple[tuple[str, str, int], ...] = ()

    def indices(self, channel: str) -> NDArray[np.int64]:
        """Where the readings of one channel stand."""
        return np.flatnonzero(self.channel == self.channels.index(channel))


class ReadingStore(Protocol):
    """One dataset in one store."""

    def read(
        self, subject_key: str, content: SegmentContent, channels: Collection[str] | None = None
    ) -> SegmentReadings | None:
        """The readings of a segment, of all channels or of some; None where this store does not hold them so."""
        ...

    def write(
        self,
        connection: Connection,
        subject_key: str,
        changed: Mapping[int, StagedRows | None],
        *,
        planned_on: Store,
        holder: Holder,
        fence: int,
    ) -> None:
        """Let the store hold these segments as they are now, inside the transaction of their commit.

        None: nothing is left of the segment here. Called before the catalog is changed; refused unless the holder has
        the subject, and the dataset the store that the commit was planned on.
        """
        ...
