"""The one place that configures Spark."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.resources import files
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

DEFAULTS: Mapping[str, str] = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Tasks move descriptors, never rows: many shuffle partitions would be many empty tasks.
    "spark.sql.shuffle.partitions": "4",
    # A second copy of a task would write its fragments twice.
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={files('disarray.engine') / 'log4j2.properties'}",
}
# A session of a minute is over before the second compiler has paid for itself; of two cores it would take one.
SHORT_LIVED: Mapping[str, str] = {
    "spark.driver.extraJavaOptions": (
        f"{DEFAULTS['spark.driver.extraJavaOptions']} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    ),
}
# On one machine nothing has to be reachable from another.
LOCAL_DEFAULTS: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

# Of 19: on two cores a reader beside a repair gets nine tenths of the core that it needs.
NICENESS = 10


def start_session(settings: Mapping[str, str] | None = None, *, log_file: Path | None = None) -> SparkSession:
    """The Spark session of this process; ``settings`` are ``spark.*`` keys that win over ours.

    With a log file, what Spark and its workers have to say goes there instead of the terminal.
    """
    own = settings or {}
    is_local = own.get("spark.master", DEFAULTS["spark.master"]).startswith("local")
    # The workers must be this interpreter, with these packages, whatever `python3` means on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("disarray")
    chosen = {
        **DEFAULTS,
        **(LOCAL_DEFAULTS if is_local else {}),
        "spark.pyspark.python": sys.executable,
        **own,
    }
    for key, value in chosen.items():
        builder = builder.config(key, value)
    # In a thread of its own: it yields to others for good, and Spark leaves Ctrl-C alone outside the main thread.
    with _stderr_into(log_file), ThreadPoolExecutor(1, initializer=_yield_to_readers) as starter:
        session = starter.submit(builder.getOrCreate).result()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _yield_to_readers() -> None:
    """What this thread starts, the JVM and its Python workers, lets those who ask for values go first."""
    if sys.platform == "linux":
        # Elsewhere it would mean the whole process, the REST server with it.
        thread = threading.get_native_id()
        already = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, max(already, NICENESS))


@contextmanager
def _stderr_into(log_file: Path | None) -> Iterator[None]:
    """Lead file descriptor 2 elsewhere while the JVM starts: it keeps what it was started with."""
    if log_file is None:
        yield
        return
    log_file.parent.mkdir(parents=True, exist_ok=True)
    own = os.dup(2)
    with log_file.open("wb") as log:
        sys.stderr.flush()
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(own, 2)
            os.close(own)


def stop_session(session: SparkSession) -> None:
    """End the session; one whose JVM is gone already has ended."""
    with suppress(Exception):
        session.stop()
