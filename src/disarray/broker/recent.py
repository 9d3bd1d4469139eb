"""A bounded memory of what was already taken in, so that copies of a message cost nothing further."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class RecentIds:
    """Remembers the newest ids. One that was forgotten comes through again, and the queue absorbs it by its hash."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._ids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, id_: str) -> bool:
        return id_ in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, ids: Iterable[str]) -> None:
        """Remember these, and forget the oldest beyond the capacity."""
        for id_ in ids:
            self._ids[id_] = None
            self._ids.move_to_end(id_)
        while len(self._ids) > self._capacity:
            self._ids.popitem(last=False)
