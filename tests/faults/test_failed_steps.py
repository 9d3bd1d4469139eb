"""A step of a pass fails while its worker lives on: it is tried again, and nothing else waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.site import assert_sound

if TYPE_CHECKING:
    from tests.faults.site import Site
    from tests.faults.watcher import Watcher

pytestmark = pytest.mark.postgres

# Where an error is worth something other than a death: the process goes on, or ends in good order.
FAILED = (
    "claim.after",
    "read.before",
    "read.mid",
    "read.written",
    "plan.after",
    "scan.segment",
    "commit.before_begin",
    "commit.rows_copied",
    "commit.stated",
    "commit.before_commit",
    "commit.after_commit",
)


@pytest.mark.slow
@pytest.mark.parametrize("point", FAILED)
def test_a_step_that_fails_is_tried_again_and_the_rest_goes_on(
    site: Site, watcher: Watcher, point: str
) -> None:
    site.deliveries.deliver_batch()
    life = site.live_until_struck(f"{point}=raise")
    assert life.strikes == [(point, "raise")], life.log
    assert_sound(site, watcher)
