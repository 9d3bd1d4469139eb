"""How fast are notifications turned away whose file has not changed?

    python -m benchmarks.replay [--notifications 10000] [--turns 5]

As many files as notifications are known as processed; then each is announced again with the hash that is stored, as
an agent's rescan does after a restart. One connection, a hundred to a call, as they come from the broker; one by one
beside it. The median of the turns.
"""

from __future__ import annotations

import argparse
import statistics
from typing import TYPE_CHECKING

from benchmarks.goals import Goal, conclude
from benchmarks.plant import timed
from benchmarks.server import settle, shared_server
from disarray.control import claim_ends, claims, connections, files, instances, migrations
from disarray.control.files import Notification, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.control.connections import Connection

BATCH = 100


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--notifications", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--dsn", help="an empty server instead of the embedded one")
    given = parser.parse_args()
    notifications = [
        Notification(
            f"file:///share/TOOL{number // 100 % 20:02d}/{number:06d}.csv",
            f"TOOL{number // 100 % 20:02d}",
            metadata={"dataset": "cycler", "content_hash": f"{number:064x}", "size": number},
        )
        for number in range(given.notifications)
    ]
    with (
        shared_server(given.dsn) as server,
        server.database("replay") as dsn,
        connections.connect(dsn) as connection,
    ):
        migrations.migrate(connection)
        process(connection, notifications)
        settle(dsn)
        rates, singly = [], []
        for _ in range(given.turns):
            rates.append(given.notifications / timed(announce, connection, notifications))
            few = notifications[:500]
            singly.append(len(few) / timed(announce, connection, few, batch=1))
    conclude(
        "replay",
        [Goal("unchanged notifications per second", round(statistics.median(rates)), 2_000, at_least=True)],
        {"batch": BATCH, "per_second": rates, "per_second_one_by_one": singly},
    )


def process(connection: Connection, notifications: Sequence[Notification]) -> None:
    """Let every file be known as processed, without reading any."""
    holder = instances.register_instance(connection, "Bench")
    for start in range(0, len(notifications), 1_000):
        files.enqueue_files(connection, notifications[start : start + 1_000])
    policy = claims.FetchPolicy(limit=1_000, max_subjects=20)
    while items := claims.fetch_items(connection, holder, policy):
        hashes = [{"content_hash": item.metadata["content_hash"]} for item in items]
        claim_ends.complete_items(connection, [item.queue_id for item in items], holder, metadata=hashes)


def announce(connection: Connection, notifications: Sequence[Notification], *, batch: int = BATCH) -> None:
    """Announce files that are known; none of them may be queued."""
    for start in range(0, len(notifications), batch):
        answers = files.enqueue_files(connection, notifications[start : start + batch])
        assert all(answer.verdict is Verdict.UNCHANGED for answer in answers), answers[:3]


if __name__ == "__main__":
    main()
