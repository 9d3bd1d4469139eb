"""`disarray demo --keep`: the factory goes on, with a REST server and an inbox that is watched."""

from __future__ import annotations

import shutil
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from disarray.cli.support.signals import stop_on_signals
from disarray.demo.factory import LATE_TOOL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.config import Config
    from disarray.worker.workplace import Workplace

METRIC = "in_spec_total"
COPIED = f"inbox/{LATE_TOOL}/report_0901_0018.csv"


def keep_running(config: Config, place: Workplace) -> None:
    """What `disarray up` runs, in this process, until Ctrl-C; says first how to look at it."""
    from disarray.agent.state import STATE_FILE, StateFile
    from disarray.cli.support import worker_services
    from disarray.worker.process.service import ThreadService, run_services
    from disarray.worker.process.settings import worker_settings

    stop = stop_on_signals()
    settings = worker_settings(config)
    scheduler = worker_services.make_scheduler(place, settings)
    server = worker_services.make_rest_server(config, place)
    with ExitStack() as stack:
        state = stack.enter_context(closing(StateFile(config.state_dir / STATE_FILE)))
        watcher = worker_services.make_watcher(config, place, state, on_queued=scheduler.wake)
        # Outside of the others: it is ended last, and its URL is known when the guide is printed.
        server.start()
        stack.callback(server.stop)
        for line in guide(server.url, config.project, program=_program()):
            typer.echo(line, err=True)
        services = worker_services.make_services(place, scheduler=scheduler, settings=settings, stop=stop)
        services["agent"] = ThreadService("agent", watcher.run, ended=stop)
        run_services(services, stop)
    typer.echo(
        f"Ended. It is all in {config.project}: '{_program()} up' goes on there; delete it if you are done.",
        err=True,
    )


def guide(url: str, folder: Path, *, program: str) -> Iterator[str]:
    """How to look at what runs, in commands that can be copied."""
    yield f"\nIt keeps running at {url} and watches {folder / 'inbox'}; Ctrl-C ends it. In another terminal:\n"
    yield f"  cd {folder}"
    token = f'-H "Authorization: Bearer $({program} token local)"'
    yield f"  curl {token} '{url}/api/v1/values?subject_key={LATE_TOOL}&metric={METRIC}'"
    yield f"  {program} restatements {LATE_TOOL}           # what the late files changed"
    yield f"  {program} explain {LATE_TOOL} {METRIC}  # where a number comes from"
    yield f"  {program} status                        # what waits, what failed, who works"
    yield f"  cp {COPIED} inbox/{LATE_TOOL}/again.csv  # a copy changes nothing\n"


def _program() -> str:
    """How disarray is called from another folder: by its name where the shell finds it, else by its path."""
    found = shutil.which("disarray")
    if found is not None:
        return "disarray"
    script = Path(sys.executable).with_name("disarray")
    return str(script) if script.exists() else f"{sys.executable} -m disarray"
