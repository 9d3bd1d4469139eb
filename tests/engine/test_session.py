"""How Spark is started."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from disarray.engine.authentication import is_authenticated
from disarray.engine.session import NICENESS

# In a process of its own: a JVM that another test has started keeps the niceness and the options that it began with.
TOLD = """
import os
from disarray.engine.runner import SparkRunner
from disarray.engine.session import start_session

session = start_session({"spark.master": "local[1]"})
[theirs] = SparkRunner(session).run(lambda _: os.nice(0), [0])
diagnostics = session._jvm.java.lang.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
machine = session._jvm.java.lang.management.ManagementFactory.getPlatformMXBean(diagnostics)
print(os.nice(0), theirs, machine.getVMOption("Tier4InvocationThreshold").getValue())
session.stop()
"""


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows a niceness of threads")
def test_what_works_on_repairs_yields_to_those_who_ask_and_leaves_the_second_compiler_to_rows() -> None:
    told = subprocess.run([sys.executable, "-c", TOLD], check=True, stdout=subprocess.PIPE, text=True).stdout
    ours, theirs, calls_until_compiled_again = map(int, told.split())
    # Also where the tests themselves were told to yield.
    assert theirs == max(ours, NICENESS)
    assert NICENESS > 0
    assert calls_until_compiled_again == 100_000


# Every process below this one, as another user of the machine sees it, and what the JVM says about itself.
SEEN = """
import json, os, pathlib, socket
from disarray.engine.session import start_session

SECRET = 'a = #5 "quoted" \\\\ and µ 🜁'
session = start_session({"spark.master": "local[1]", "spark.hadoop.fs.s3a.secret.key": SECRET})
context = session.sparkContext


def below(pid):
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                yield int(stat.parent.name)
                yield from below(int(stat.parent.name))
        except OSError:
            pass


def shown(pid, name):
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it has ended meanwhile


def answer(port):
    # An RPC that asks for something right away: length of the frame, kind 3, request id, length of the body, the body.
    body = b"hello"
    frame = bytes([3]) + (7).to_bytes(8, "big") + len(body).to_bytes(4, "big") + body
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall((len(frame) + 8).to_bytes(8, "big") + frame)
        return stranger.recv(65_536).decode("latin-1")


processes = [os.getpid(), *below(os.getpid())]
lines = [shown(pid, "cmdline") for pid in processes]
environments = [shown(pid, "environ") for pid in processes]
print(json.dumps({
    "authenticates": context.getConf().get("spark.authenticate"),
    "took_it": context.getConf().get("spark.hadoop.fs.s3a.secret.key") == SECRET,
    "has_ours": context.getConf().get("spark.sql.session.timeZone"),
    "processes": len(processes),
    "shown": [line for line in lines + environments if "quoted" in line or "AUTH_SECRET" in line],
    "answer": answer(int(context.getConf().get("spark.driver.port"))),
}))
session.stop()
"""


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows processes in files")
def test_strangers_on_the_machine_get_no_answer_from_spark_and_see_no_secret() -> None:
    # Not as an argument: the text of the probe holds the secret itself.
    told = subprocess.run(
        [sys.executable, "-"], input=SEEN, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    seen = json.loads(told)
    assert seen.pop("processes") > 1
    refusal = seen.pop("answer")
    assert seen == {
        "authenticates": "true",
        "took_it": True,
        "has_ours": "UTC",
        "shown": [],
    }
    # Without authentication it takes the body for an object of Java's, and makes one of whatever it is sent.
    assert "Expected SaslMessage" in refusal


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"spark.master": "local[4]"}, True),
        ({"spark.master": "yarn"}, True),
        ({"spark.master": "spark://host:7077"}, False),
        ({"spark.master": "spark://host:7077", "spark.authenticate": "true"}, True),
        ({"spark.authenticate": "false"}, False),
    ],
)
def test_whether_a_session_knows_who_talks_to_it(settings: dict[str, str], expected: bool) -> None:
    assert is_authenticated(settings) is expected
