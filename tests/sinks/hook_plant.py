"""A plant whose hooks are told of what happens, and a process that sends what waits."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from disarray import config
from disarray.control import connections, instances
from disarray.formats.loader import load_datasets
from disarray.sinks.hook_sending import HookSender
from disarray.sinks.hook_settings import hook_settings, register_all_hooks
from tests.plant import Plant

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.control.side_effects import SideEffect
    from disarray.sinks.hook_sending import SentEffect
    from disarray.sinks.hook_settings import HookSettings

DATASET = """
[[dataset]]
name = "press"
roots = ["inbox"]
files = ["**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>[^/]+)/' }
event_time = { from = "time", layouts = ["iso"] }
zone = "UTC"
segment = "1 h"
restate_after = "0 s"
horizon = "10 d"
[dataset.columns.watts]
type = "float64"
[dataset.columns.good]
type = "int64"
[dataset.metrics.energy]
kind = "sum"
input = "watts"
[dataset.metrics.parts]
kind = "sum"
input = "good"
"""


def webhook(port: int, *, name: str = "quality", on: str = '["restatement"]', more: str = "") -> str:
    """A `[[hook]]` that posts to a port of this machine."""
    return f"""
[[hook]]
name = "{name}"
kind = "webhook"
url = "http://127.0.0.1:{port}/told"
timeout = "2 s"
on = {on}
{more}
"""


def mail(
    port: int,
    *,
    on: str = '["restatement"]',
    to: str = '["a@example.com", "b@example.com"]',
    smtp: str = "starttls = false",
) -> str:
    """A `[[hook]]` that sends mails to two."""
    return f"""
[[hook]]
name = "shift"
kind = "mail"
smtp = {{ host = "127.0.0.1", port = {port}, {smtp} }}
from = "disarray@example.com"
to = {to}
subject = "[plant] {{cause}}: {{subject}}"
on = {on}
timeout = "2 s"
"""


def report(*, name: str = "paper", on: str = '["restatement"]', more: str = "") -> str:
    """A `[[hook]]` that writes files."""
    return f"""
[[hook]]
name = "{name}"
kind = "report"
path = "reports/{{dataset}}/{{subject}}/{{date}}-{{key}}.json"
on = {on}
{more}
"""


class HookPlant(Plant):
    """A plant with hooks; `send` is the thread of a worker that sends."""

    def __init__(self, root: Path, dsn: str, hooks: str) -> None:
        self.root = root
        super().__init__(root, dsn, description=described(hooks))
        self.configure(hooks)

    def configure(self, hooks: str) -> None:
        """The worker is started with these hooks."""
        self.description.write_text(described(hooks))
        self.settings = settings_of(self.root)
        self.place = replace(self.place, hook_settings=self.settings)
        with self.pool.connection() as connection:
            register_all_hooks(connection, self.settings.hooks)

    def send(self) -> list[SentEffect]:
        """Send what is due."""
        sent = []
        for hook in self.settings.hooks:
            sender = HookSender(
                pool=self.pool, holder=self.place.holder, hook=hook, allow=self.settings.allow
            )
            while (one := sender.send_next()) is not None:
                sent.append(one)
        return sent

    def effects(self, *, state: str | None = None) -> list[SideEffect]:
        """The ledger."""
        from disarray.control.side_effects import list_side_effects

        with self.pool.connection() as connection:
            return list_side_effects(connection, state=state)

    def states(self) -> list[str]:
        return [each.state for each in self.effects()]

    def advance(self, minutes: float) -> None:
        """Let time pass."""
        with self.pool.connection() as connection:
            connection.execute(
                "update disarray.test_clock set ahead = ahead + make_interval(secs => %s)", (minutes * 60,)
            )

    def late_file(self, name: str = "late", *, subject: str = "TOOL07", watts: float = 5.0) -> None:
        """A file that changes what was published."""
        self.ingest(self.write(f"{subject}/{name}.csv", csv({30: watts})))

    def first_file(self, *, subject: str = "TOOL07") -> None:
        """Two hours of readings."""
        self.ingest(self.write(f"{subject}/first.csv", csv(dict.fromkeys((0, 60, 120), 1.0))))


def csv(watts: dict[int, float]) -> str:
    """Readings by minutes after noon of 1 October."""
    lines = [
        f"2026-10-01T{12 + minute // 60:02}:{minute % 60:02}:00Z,{value},1" for minute, value in watts.items()
    ]
    return "time,watts,good\n" + "".join(f"{line}\n" for line in lines)


def described(hooks: str) -> str:
    """A disarray.toml that allows what its hooks name."""
    allow = ", ".join(f'"127.0.0.1:{port}"' for port in re.findall(r"(?:127.0.0.1:|port = )(\d+)", hooks))
    return f"[hooks]\nallow = [{allow}]\n{hooks}\n{DATASET}"


def settings_of(folder: Path) -> HookSettings:
    loaded = config.load(folder, environment={})
    return hook_settings(loaded, {each.name: each for each in load_datasets(folder / "disarray.toml")})


def send_all(dsn: str, folder: Path) -> None:
    """One life of a sender."""
    settings = settings_of(folder)
    with connections.open_pool(dsn, max_size=2) as pool:
        with pool.connection() as connection:
            holder = instances.register_instance(connection, "Sender")
        for hook in settings.hooks:
            sender = HookSender(pool=pool, holder=holder, hook=hook, allow=settings.allow)
            while sender.send_next() is not None:
                pass
