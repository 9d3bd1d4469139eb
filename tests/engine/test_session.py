"""How Spark is started."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own: a JVM that another test has started keeps the niceness that it began with.
TOLD = """
import os
from disarray.engine.runner import SparkRunner
from disarray.engine.session import start_session

session = start_session({"spark.master": "local[1]"})
[theirs] = SparkRunner(session).run(lambda _: os.nice(0), [0])
print(os.nice(0), theirs)
session.stop()
"""


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows a niceness of threads")
def test_what_works_on_repairs_yields_to_those_who_ask_for_values() -> None:
    told = subprocess.run([sys.executable, "-c", TOLD], check=True, stdout=subprocess.PIPE, text=True).stdout
    ours, theirs = map(int, told.split())
    assert theirs > ours
