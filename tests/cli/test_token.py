"""`disarray token` and `disarray api`: a token is made, used over a real socket, and revoked."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.postgres


def test_a_token_is_shown_once_listed_without_its_secret_and_revoked(run: Run) -> None:
    assert "There is no token." in run("token", "list").stdout
    made = run("token", "create", "grafana", "--scope", "read", "--expires", "90d", "--by", "ada")
    token = made.stdout.strip()
    assert token.startswith("dsr_")
    assert "grafana may read until " in made.stderr
    [listed] = json.loads(run("token", "list", "--json").stdout)
    assert (listed["token_name"], listed["scope"], listed["created_by"]) == ("grafana", "read", "ada")
    assert token.rpartition("_")[2] not in run("token", "list").stdout
    assert run("token", "revoke", "grafana").stdout == "grafana is revoked.\n"
    assert run("token", "revoke", "grafana").stdout == "grafana was revoked before.\n"
    unknown = run("token", "revoke", "nobody")
    assert (unknown.returncode, "there is no token named 'nobody'" in unknown.stderr) == (1, True)


def test_a_token_needs_a_scope_that_there_is(run: Run) -> None:
    assert run("token", "create", "x").returncode == 2
    assert run("token", "create", "x", "--scope", "root").returncode == 2
    assert run("token", "create", "x", "--scope", "read", "--expires", "soon").returncode == 2


def test_the_server_answers_until_it_is_told_to_stop(
    run: Run, command: Callable[..., list[str]], environment: dict[str, str], tmp_path: Path
) -> None:
    token = run("token", "create", "ada", "--scope", "admin").stdout.strip()
    with subprocess.Popen(
        command("api", "--port", "0"),
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:")
            # A database by DSN is not the embedded mode: being on this machine is not enough.
            assert httpx.get(f"{url}/api/v1/status").status_code == 401
            headers = {"Authorization": f"Bearer {token}"}
            assert httpx.get(f"{url}/api/v1/status", headers=headers).status_code == 200
            assert "disarray_commits_total" in httpx.get(f"{url}/metrics", headers=headers).text
            taken = run("api", "--port", url.rpartition(":")[2])
            assert (taken.returncode, "cannot listen" in taken.stderr) == (1, True)
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0


def test_the_embedded_mode_answers_on_this_machine_without_a_token(
    state_dir: Path, environment: dict[str, str]
) -> None:
    import sys

    project = state_dir.parent
    project.mkdir()
    base = [sys.executable, "-m", "disarray"]
    subprocess.run([*base, "db", "migrate"], cwd=project, env=environment, check=True, capture_output=True)
    for arguments, expected in ((["--port", "0"], 200), (["--port", "0", "--require-token"], 401)):
        with subprocess.Popen(
            [*base, "api", *arguments],
            cwd=project,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                url = process.stdout.readline().strip()
                assert httpx.get(f"{url}/api/v1/status").status_code == expected
            finally:
                process.terminate()
