"""The one place that configures Spark."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Mapping

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
}


def start_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """The Spark session of this process; ``settings`` are ``spark.*`` keys that win over ours."""
    # The workers must be this interpreter, with these packages, whatever `python3` means on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("disarray")
    for key, value in {**DEFAULTS, "spark.pyspark.python": sys.executable, **(settings or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
