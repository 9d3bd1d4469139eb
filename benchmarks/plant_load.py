"""Twenty tools, two workers, one broker, one database: what an hour brings, pushed through at full speed.

    python -m benchmarks.plant_load [--days 12] [--broker amqp://guest:guest@127.0.0.1:5672/%2F]

Real processes: an agent, two workers with Spark (tools split by pattern), an embedded PostgreSQL. Reports land in eight
waves in the order of the seeded factory: 38 % out of order, a tail of forty minutes, growing files, copies. The agent
announces each wave as it lands, and announces all of it again at the end as if its memory had been lost. Then nothing
may be missing, `disarray verify` must find the same numbers, and no subject was ever held by the wrong worker.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pika  # type: ignore[import-untyped]

from benchmarks.goals import Goal, conclude
from disarray import embedded
from disarray.broker.topology import Names
from disarray.control import connections
from disarray.control.status import queue_status
from disarray.demo.factory import DATASET, Factory, land, out_of_order_percent

if TYPE_CHECKING:
    from disarray.control.connections import Connection

WORKERS = {"Worker01": "TOOL0*", "Worker02": "TOOL1*, TOOL20"}
WAVES = 8
MOST_SECONDS = 1800


def main() -> None:
    """Run the load, check what came of it, and end with 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=24)
    parser.add_argument("--broker", default="amqp://guest:guest@127.0.0.1:5672/%2F")
    given = parser.parse_args()
    names = Names(f"load-{uuid.uuid4().hex[:8]}")
    folder = Path(tempfile.mkdtemp(prefix="disarray-load-"))
    try:
        run(folder, names, days=given.days, broker=given.broker)
    finally:
        embedded.stop(folder / ".disarray")
        shutil.rmtree(folder, ignore_errors=True)
        remove_from_broker(given.broker, names)


def run(project: Path, names: Names, *, days: int, broker: str) -> None:
    """One load from empty to verified."""
    (project / "inbox").mkdir()
    (project / "disarray.toml").write_text(
        f'[broker]\nurl = "{broker}"\nprefix = "{names.prefix}"\n[spark]\nmaster = "local[1]"\n{DATASET}'
    )
    command(project, "db", "migrate")
    dsn = embedded.start(project / ".disarray").dsn
    factory = Factory(20, days, 7)
    arrivals = factory.arrivals() + factory.backlog()
    files = len({arrival.name for arrival in arrivals})
    workers = [start_worker(project, name, patterns) for name, patterns in WORKERS.items()]
    try:
        for name in WORKERS:
            wait_for_text(project / f"{name}.log", "consumes from")
        began = time.monotonic()
        size = -(-len(arrivals) // WAVES)
        for first in range(0, len(arrivals), size):
            for arrival in arrivals[first : first + size]:
                land(project / "inbox", arrival)
            command(project, "agent", "--once")
            print(f"{time.monotonic() - began:6.1f} s  {first + size:,} landings announced", flush=True)
        with connections.connect(dsn) as connection:
            wait_until_drained(connection, files)
            seconds = time.monotonic() - began
            # As if the agent's memory were lost: every file is announced once more, and absorbed.
            shutil.rmtree(project / ".disarray" / "agent")
            command(project, "agent", "--once")
            wait_until_drained(connection, files)
            again = time.monotonic() - began - seconds
    finally:
        codes = [end(worker) for worker in workers]
    with connections.connect(dsn) as connection:
        figures = look(connection, project)
    verified = command(project, "verify", check=False)
    print(verified.stdout)
    goals = [
        Goal("files lost", files - figures["processed"], 0, at_least=False),
        Goal("subjects held by the wrong worker", figures["misplaced"], 0, at_least=False),
        Goal("dead letters, leases lost, locks left over", figures["wrong"], 0, at_least=False),
        Goal("exit codes of worker 1, worker 2, verify", sum(codes) + verified.returncode, 0, at_least=False),
    ]
    conclude(
        "plant_load",
        goals,
        {
            "files": files,
            "landings": len(arrivals),
            "out_of_order_percent": out_of_order_percent(factory.arrivals()),
            "seconds": round(seconds, 1),
            "files_per_second": round(files / seconds, 1),
            "announced_again_seconds": round(again, 1),
            **figures,
        },
    )


def start_worker(project: Path, name: str, patterns: str) -> subprocess.Popen[bytes]:
    """A worker as a process of its own; what it tells goes into a file."""
    with (project / f"{name}.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "disarray", "worker", "--name", name, "--patterns", patterns],
            cwd=project,
            stderr=log,
        )


def end(worker: subprocess.Popen[bytes]) -> int:
    """Tell a worker to end; how it did."""
    worker.send_signal(signal.SIGTERM)
    return worker.wait(timeout=120)


def command(project: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command of disarray to its end."""
    return subprocess.run(
        [sys.executable, "-m", "disarray", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        check=check,
    )


def wait_for_text(log: Path, text: str) -> None:
    """Wait until a process has said something."""
    deadline = time.monotonic() + 180
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


def wait_until_drained(connection: Connection, files: int) -> None:
    """Wait until every file was announced, nothing is queued, and it stays so for a moment."""
    deadline = time.monotonic() + MOST_SECONDS
    calm = 0
    while calm < 3:
        assert time.monotonic() < deadline, queue_status(connection)
        status = queue_status(connection)
        queued = status["queue"]["available"] + status["queue"]["claimed"]
        calm = calm + 1 if queued == 0 and sum(status["files"].values()) == files else 0
        time.sleep(0.5)


def look(connection: Connection, project: Path) -> dict[str, int]:
    """What the database and the logs say about the run."""
    [(processed, misplaced, wrong, readings, duplicates, passes)] = connection.execute(
        """
        select
            (select count(*) from disarray.file_info where status = 'processed'),
            (select count(*) from disarray.run
             where instance_name <> case when subject_key < 'TOOL10' then 'Worker01' else 'Worker02' end),
            (select count(*) from disarray.ingest_event
             where event_type in ('dead_letter', 'lease_expired', 'taken_over', 'failed'))
            + (select count(*) from disarray.subject_lock),
            (select sum(readings)::bigint from disarray.segment),
            (select sum(duplicates)::bigint from disarray.segment),
            (select count(distinct run_id) from disarray.run)
        """
    ).fetchall()
    told = "".join((project / f"{name}.log").read_text() for name in WORKERS)
    return {
        "processed": processed,
        "misplaced": misplaced,
        "wrong": wrong + told.count(" ERROR "),
        "readings": readings,
        "duplicates": duplicates,
        "passes": passes,
    }


def remove_from_broker(url: str, names: Names) -> None:
    """Leave the broker as it was."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    for queue in (names.dead_queue, *(names.worker_queue(name) for name in WORKERS)):
        channel.queue_delete(queue)
    for exchange in (names.exchange, names.dead_exchange):
        channel.exchange_delete(exchange)
    connection.close()


if __name__ == "__main__":
    main()
