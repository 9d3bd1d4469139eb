"""Failpoints: silent unless armed, all declared in one place, and striking exactly when they were told to."""

from __future__ import annotations

import ast
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import disarray
from disarray import failpoints
from disarray.errors import ConfigError
from disarray.failpoints import POINTS, Armoury, InjectedError, armoury_of, failpoint


def armed(line: str, **more: str) -> Armoury:
    found = armoury_of({"DISARRAY_FAILPOINTS": line, **more})
    assert found is not None
    return found


def placed() -> list[str]:
    """The names at all calls of `failpoint` in the product."""
    root = Path(disarray.__file__).parent
    calls = [
        node
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "failpoint"
    ]
    names = [call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)]
    assert len(names) == len(calls), "the name of a failpoint is written where it is"
    return [str(name) for name in names]


def test_every_point_is_declared_with_its_meaning_and_every_declared_one_is_placed() -> None:
    assert set(placed()) == set(POINTS)


def test_nothing_is_armed_unless_the_environment_asks_for_it() -> None:
    assert armoury_of({}) is None
    assert failpoints._armed is None
    failpoint("a name that nobody declared")  # not even looked at


def test_an_undeclared_name_is_an_error_once_anything_is_armed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failpoints, "_armed", armed("claim.after=raise@9"))
    with pytest.raises(ConfigError, match="is no failpoint"):
        failpoint("claim.sideways")


@pytest.mark.parametrize(
    "line", ["claim.sideways=kill", "claim.after", "claim.after=explode", "claim.after=kill@0", "=kill"]
)
def test_a_rule_that_cannot_be_is_refused_with_what_to_write_instead(line: str) -> None:
    with pytest.raises(ConfigError, match="Write POINT=kill"):
        armed(line)


def test_a_rule_strikes_at_its_hit_and_at_no_other() -> None:
    rules = armed("claim.after=raise@2; read.file[TOOL13]=raise@1")
    rules.hit("claim.after", "", None)
    rules.hit("read.file", "/inbox/TOOL01/a.csv", None)
    with pytest.raises(InjectedError, match=r"claim\.after"):
        rules.hit("claim.after", "", None)
    rules.hit("claim.after", "", None)
    with pytest.raises(InjectedError):
        rules.hit("read.file", "/inbox/TOOL13/a.csv", None)


def struck(rules: Armoury, *, hits: int = 200) -> list[int]:
    found = []
    for number in range(hits):
        try:
            rules.hit("claim.after", "", None)
        except InjectedError:
            found.append(number)
    return found


def test_a_chance_is_drawn_from_the_seed_and_the_same_seed_strikes_alike() -> None:
    line = "claim.after=raise~0.1"
    [first, again, other] = (struck(armed(line, DISARRAY_FAILPOINT_SEED=seed)) for seed in ("1", "1", "2"))
    assert first == again != other
    assert 5 < len(first) < 50


def test_a_dropped_connection_is_cut_on_both_ends_and_keeps_its_descriptor() -> None:
    near, far = socket.socketpair()
    with near, far:
        armed("claim.after=drop").hit("claim.after", "", near)
        assert far.recv(1) == b""
        assert near.recv(1) == b""
    with pytest.raises(ConfigError, match="no connection"):
        armed("claim.after=drop").hit("claim.after", "", None)


@pytest.mark.parametrize("action", ["kill", "stop"])
def test_a_process_dies_or_freezes_at_the_point_and_has_said_so_before(tmp_path: Path, action: str) -> None:
    log = tmp_path / "hits"
    environment = {
        **os.environ,
        "DISARRAY_FAILPOINTS": f"claim.after={action}@2",
        "DISARRAY_FAILPOINT_LOG": str(log),
    }
    script = "from disarray.failpoints import failpoint\nfor _ in range(3): failpoint('claim.after')"
    process = subprocess.Popen([sys.executable, "-c", script], env=environment)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    if action == "stop":
        assert os.WIFSTOPPED(status)
        os.kill(process.pid, signal.SIGCONT)
        _, status = os.waitpid(process.pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
    else:
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    process.returncode = 0  # waited for above
    told = [line.split()[2:] for line in log.read_text().splitlines()]
    assert told == [["claim.after", "hit"], ["claim.after", action]]


def test_the_documentation_has_the_table_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    failpoints.main()
    documented = Path(__file__).parents[1] / "docs" / "reliability.md"
    assert capsys.readouterr().out in documented.read_text()
