"""The connection to PostgreSQL breaks at a step of a pass: all of a commit counts, or nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.site import assert_sound

if TYPE_CHECKING:
    from tests.faults.site import Site
    from tests.faults.watcher import Watcher

pytestmark = pytest.mark.postgres

CUT = (
    "claim.before",
    "claim.after",
    "plan.after",
    "commit.before_begin",
    "commit.begun",
    "commit.rows_cleared",
    "commit.rows_copied",
    "commit.stated",
    "commit.before_commit",
)


@pytest.mark.slow
@pytest.mark.parametrize("point", CUT)
def test_a_connection_that_breaks_at_any_step_changes_nothing_or_all(
    site: Site, watcher: Watcher, point: str
) -> None:
    site.deliveries.deliver_batch()
    life = site.live_until_struck(f"{point}=drop")
    assert life.strikes == [(point, "drop")], life.log
    assert life.code is None, f"a worker outlives its connection\n{life.log}"
    assert_sound(site, watcher)
