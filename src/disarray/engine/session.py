"""The one place that configures Spark."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql import SparkSession

from disarray.engine.authentication import makes_its_own_secret

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Our tasks run in Python, and of the JVM's own code only what sees every row of a DataFrame is worth the second
# compiler: twenty times its usual thresholds. Otherwise it spends half of a start and a tenth of every ingest on code
# that dispatches tasks. A JVM that does not know them starts all the same.
_COMPILER_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=20000 "
    "-XX:Tier4CompileThreshold=300000 -XX:Tier4BackEdgeThreshold=800000"
)
DEFAULTS: Mapping[str, str] = {
    "spark.master": "local[*]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Tasks move descriptors, never rows: many shuffle partitions would be many empty tasks.
    "spark.sql.shuffle.partitions": "4",
    # Pools share the cores: a large load of a destination holds up no pass.
    "spark.scheduler.mode": "FAIR",
    # A second copy of a task would write its fragments twice.
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.driver.extraJavaOptions": (
        f"-Dlog4j2.configurationFile={files('disarray.engine') / 'log4j2.properties'} {_COMPILER_OPTIONS}"
    ),
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
# Spark's ports on this machine are open to every login here. The secret is made by the JVM and stays in it.
AUTHENTICATION: Mapping[str, str] = {"spark.authenticate": "true"}

# Of 19: on two cores a reader beside a repair gets nine tenths of the core that it needs.
NICENESS = 10


def start_session(settings: Mapping[str, str] | None = None, *, log_file: Path | None = None) -> SparkSession:
    """The Spark session of this process; ``settings`` are ``spark.*`` keys that win over ours.

    With a log file, what Spark and its workers have to say goes there instead of the terminal.
    """
    own = settings or {}
    master = own.get("spark.master", DEFAULTS["spark.master"])
    is_local = master.startswith("local")
    # The workers must be this interpreter, with these packages, whatever `python3` means on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    chosen = {
        **DEFAULTS,
        **(LOCAL_DEFAULTS if is_local else {}),
        **(AUTHENTICATION if makes_its_own_secret(master) else {}),
        "spark.pyspark.python": sys.executable,
        **own,
    }
    builder = SparkSession.builder.appName("disarray")
    if SparkContext._gateway is not None:  # the JVM of an earlier session runs already
        for key, value in chosen.items():
            builder = builder.config(key, value)
        chosen = {}
    # In a thread of its own: it yields to others for good, and Spark leaves Ctrl-C alone outside the main thread.
    with (
        _stderr_into(log_file),
        _submitted(chosen),
        ThreadPoolExecutor(1, initializer=_yield_to_readers) as starter,
    ):
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
def _submitted(settings: Mapping[str, str]) -> Iterator[None]:
    """Give the JVM its settings in a file that only we can read: its command line is there for everybody to see."""
    if not settings:
        yield
        return
    former = os.environ.get("PYSPARK_SUBMIT_ARGS")
    with tempfile.TemporaryDirectory(prefix="disarray-spark-") as folder:
        file = Path(folder, "spark.properties")
        file.touch(mode=0o600)
        file.write_text(properties_text(settings), encoding="ascii")
        given = former or "pyspark-shell"
        os.environ["PYSPARK_SUBMIT_ARGS"] = (
            f"--load-spark-defaults --properties-file {shlex.quote(str(file))} {given}"
        )
        try:
            yield
        finally:
            if former is None:
                del os.environ["PYSPARK_SUBMIT_ARGS"]
            else:
                os.environ["PYSPARK_SUBMIT_ARGS"] = former


def properties_text(settings: Mapping[str, str]) -> str:
    """Settings as `java.util.Properties` reads them: whatever could mean something there is written as a code."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[index : index + 2], "big") for index in range(0, len(units), 2)]
    return "".join(
        chr(code) if (code < 128 and chr(code).isalnum()) or chr(code) in "._-/" else f"\\u{code:04x}"
        for code in codes
    )


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
