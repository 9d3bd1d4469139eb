"""Where a queued item stands."""

from enum import StrEnum


class ItemStatus(StrEnum):
    """What an item can be while it is queued."""

    AVAILABLE = "available"
    CLAIMED = "claimed"
