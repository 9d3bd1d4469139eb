"""No step of the product is left without somebody who dies there."""

from __future__ import annotations

from disarray.failpoints import POINTS
from tests.backfill import test_killed_backfills, test_killed_resyncs, test_rebuild, test_replay
from tests.events import test_producer
from tests.faults import test_announcing, test_killed, test_recovery, test_upkeep
from tests.sinks import test_destination_faults, test_destination_pieces, test_killed_senders, test_views
from tests.sources import (
    test_killed_deliveries,
    test_killed_drainers,
    test_killed_loaders,
    test_killed_pullers,
)


def test_every_failpoint_has_a_case_that_proves_it_was_hit() -> None:
    # Each of these cases asserts what its process has written down: that the point was reached, and what struck.
    killed = {
        *test_killed.KILLED,
        *test_recovery.AFTER_A_FAULT,
        *test_recovery.OPEN_SHIFTS,
        *test_recovery.GIVEN_BACK,
        test_recovery.RENEWAL,
        *test_announcing.AGENT,
        *test_announcing.CONSUMER,
        test_announcing.CONFIRMED,
        *test_upkeep.HOUSEKEEPING,
        *test_upkeep.REBUILD,
        *test_upkeep.COPY,
        *test_killed_deliveries.DELIVERIES,
        *test_killed_drainers.DRAINERS,
        *test_killed_pullers.PULLERS,
        *test_killed_loaders.LOADERS,
        *test_producer.PRODUCERS,
        *test_views.VIEWS,
        *test_destination_faults.LOADERS,
        *test_destination_pieces.POINTS,
        *test_killed_senders.SENDERS,
        *test_killed_senders.REPORTS,
        *test_killed_backfills.BACKFILLS,
        *test_replay.REPLAYS,
        test_replay.APPLIED,
        *test_rebuild.REBUILDS,
        *test_killed_resyncs.RESYNCS,
    }
    assert killed == set(POINTS)
