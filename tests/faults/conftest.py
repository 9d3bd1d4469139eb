"""A plant with a history, a batch that waits, and somebody who reads all through the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.prepared import PreparedSite
from tests.faults.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.faults.site import Site


@pytest.fixture(scope="session")
def site_with_history(
    tmp_path_factory: pytest.TempPathFactory, server_dsn: str, template_database: str
) -> Iterator[PreparedSite]:
    """The plant whose history is taken in once for all cases."""
    prepared = PreparedSite(
        tmp_path_factory.mktemp("history"),
        server_dsn,
        template_database,
        bring_about=lambda site: site.deliveries.deliver_history(),
    )
    yield prepared
    prepared.remove()


@pytest.fixture
def site(site_with_history: PreparedSite, tmp_path: Path) -> Iterator[Site]:
    """A plant with a history in it."""
    with site_with_history.copy(tmp_path / "site") as copied:
        yield copied


@pytest.fixture
def watcher(site: Site) -> Iterator[Watcher]:
    """Somebody who reads all through the test."""
    with Watcher(site.dsn, site.deliveries) as watching:
        yield watching
