"""An agent or a consumer dies between seeing a file and having it queued: it is announced again, and taken in once."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

# Fixtures of the broker's own tests.
from tests.broker.conftest import broker_url, channel, names  # noqa: F401
from tests.faults.site import Site
from tests.faults.watcher import Watcher
from tests.processes import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from disarray.broker.topology import Names

pytestmark = pytest.mark.postgres

AGENT = (
    "agent.listed",
    "agent.found",
    "spool.mid",
    "spool.after",
    "publish.before",
    "enqueue.before",
    "enqueue.after",
    "publish.after",
)
CONFIRMED = "publish.confirmed"
CONSUMER = ("consume.batch", "enqueue.before", "enqueue.after", "ack.before", "ack.after")


@pytest.fixture
def site(tmp_path: Path, dsn: str) -> Iterator[Site]:
    """A plant whose files nobody has announced."""
    built = Site(tmp_path, dsn)
    built.deliveries.write_new_files()
    yield built
    built.close()


@pytest.fixture
def broker_site(site: Site, names: Names) -> Site:  # noqa: F811
    """The same, with exchanges and queues of its own."""
    settings = site.root / "disarray.toml"
    settings.write_text(f'[broker]\nprefix = "{names.prefix}"\n' + settings.read_text())
    return site


def assert_each_counts_once(site: Site, watcher: Watcher) -> None:
    site.deliveries.note_versions()
    assert site.problems() == []
    assert watcher.problems() == []
    assert processed(site) == len(site.deliveries.sources)


@pytest.mark.parametrize("point", AGENT)
@pytest.mark.parametrize("lives", [1, pytest.param(2, marks=pytest.mark.long)], ids=["once", "twice"])
def test_an_agent_killed_between_scan_state_and_spool_announces_every_file(
    site: Site, point: str, lives: int
) -> None:
    with Watcher(site.dsn, site.deliveries) as watcher:
        life = site.start("agent", "--once", armed=f"{point}=kill")
        assert (life.await_end(), life.strikes) == (-signal.SIGKILL, [(point, "kill")]), life.log
        for _ in range(1, lives):
            # What the first life has brought to safety the second does not do again, so it may get through.
            site.start("agent", "--once", armed=f"{point}=kill").await_end()
        assert site.start("agent", "--once").await_end() == 0
        site.heal()
    assert_each_counts_once(site, watcher)
    # Nothing is left in the spool: another look has nothing to say.
    site.start("agent", "--once").await_end()
    assert site.queued() == 0


@pytest.mark.parametrize("point", ["enqueue.before", "enqueue.after"])
def test_an_agent_whose_connection_breaks_sends_again_and_the_queue_absorbs_it(
    site: Site, point: str
) -> None:
    with Watcher(site.dsn, site.deliveries) as watcher:
        life = site.start("agent", "--once", armed=f"{point}=drop")
        life.await_end()
        assert life.strikes == [(point, "drop")]
        assert site.start("agent", "--once").await_end() == 0
        site.heal()
    assert_each_counts_once(site, watcher)


@pytest.mark.parametrize("point", CONSUMER)
def test_a_consumer_killed_between_message_queue_and_acknowledgement_gets_it_again(
    broker_site: Site,
    point: str,
    broker_url: str,  # noqa: F811
) -> None:
    with Watcher(broker_site.dsn, broker_site.deliveries) as watcher:
        worker = ("worker", "--name", "Worker01", "--broker", broker_url)
        first = broker_site.start(*worker, armed=f"{point}=kill")
        first.await_(lambda: "consumes from" in first.log)
        announced = broker_site.start("agent", "--once", "--broker", broker_url)
        assert announced.await_end() == 0, announced.log
        assert first.await_end() == -signal.SIGKILL
        assert first.strikes == [(point, "kill")]
        second = broker_site.start(*worker)
        second.await_(lambda: processed(broker_site) == len(broker_site.deliveries.sources))
        second.await_(broker_site.is_drained)
        assert second.end() == 0
    assert_each_counts_once(broker_site, watcher)


def test_an_agent_killed_after_the_broker_confirmed_sends_copies_that_are_absorbed(
    broker_site: Site,
    broker_url: str,  # noqa: F811
) -> None:
    with Watcher(broker_site.dsn, broker_site.deliveries) as watcher:
        worker = broker_site.start("worker", "--name", "Worker01", "--broker", broker_url)
        worker.await_(lambda: "consumes from" in worker.log)
        agent = broker_site.start("agent", "--once", "--broker", broker_url, armed=f"{CONFIRMED}=kill@2")
        assert (agent.await_end(), agent.strikes) == (-signal.SIGKILL, [(CONFIRMED, "kill")])
        again = broker_site.start("agent", "--once", "--broker", broker_url)
        assert again.await_end() == 0, again.log
        eventually(lambda: processed(broker_site) == len(broker_site.deliveries.sources))
        worker.await_(broker_site.is_drained)
        assert worker.end() == 0
    assert_each_counts_once(broker_site, watcher)


def processed(site: Site) -> int:
    return len(site.plant.rows("select 1 from disarray.file_info where status = 'processed'"))
