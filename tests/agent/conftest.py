"""A project with a share, an agent whose clock the test sets, and a transport that keeps what it is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from disarray.agent.agent import Agent
from disarray.agent.settings import DEFAULTS, AgentSettings
from disarray.agent.state import StateFile
from disarray.broker.transport import Receipt
from disarray.errors import TransportUnavailableError
from disarray.formats.loader import load_datasets
from disarray.model.duration import MINUTE, SECOND

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from disarray.broker.transport import Announcement
    from disarray.model.description.dataset import Dataset
    from disarray.model.notification import Notification

DATASETS = r"""
[[dataset]]
name = "tool"
roots = ["share"]
files = ["TOOL*/**/*.csv"]
format = "csv"
subject = { path = '^(?P<subject>TOOL\d+)/' }
zone = "UTC"
quiet_after = "10 min"
event_time = { from = "time", layouts = ["iso"] }
columns.value = { from = "value", type = "float64" }

[[dataset]]
name = "cell"
roots = ["share"]
files = ["cells/*.txt"]
subject = { preamble = "serial" }
zone = "UTC"
quiet_after = "10 min"
event_time = { from = "time", layouts = ["iso"] }

[dataset.format]
like = "csv"
preamble = { max_lines = 20, fields = { serial = 'Serial: (?P<value>\S+)' } }
header = { pattern = '^time,' }

[dataset.columns]
value = { from = "value", type = "float64" }
"""


@dataclass
class KeptTransport:
    """Stands for the other side of the wire: takes what it is given, unless it is away or knows no queue."""

    taken: list[Announcement] = field(default_factory=list)
    is_away: bool = False
    unroutable: frozenset[str] = frozenset()

    def publish(self, announcements: Sequence[Announcement]) -> Receipt:
        if self.is_away:
            raise TransportUnavailableError("the broker is away.")
        routable = [each for each in announcements if each.notification.subject_key not in self.unroutable]
        self.taken += routable
        refused_subjects = {each.notification.subject_key for each in announcements} & self.unroutable
        return Receipt(frozenset(each.id for each in routable), frozenset(refused_subjects))

    def idle(self) -> None:
        pass

    def close(self) -> None:
        pass

    def news(self) -> list[Notification]:
        """What came since the last time that somebody asked."""
        news, self.taken = [each.notification for each in self.taken], []
        return news


@dataclass
class Lab:
    """A project folder with a clock that stands still until it is moved."""

    folder: Path
    settings: AgentSettings = DEFAULTS
    transport: KeptTransport = field(default_factory=KeptTransport)
    now_us: int = 1_800_000_000_000_000
    agent: Agent = field(init=False)
    state: StateFile | None = None

    @property
    def share(self) -> Path:
        return self.folder / "share"

    @property
    def state_path(self) -> Path:
        return self.folder / ".disarray" / "agent" / "state.sqlite"

    @property
    def datasets(self) -> tuple[Dataset, ...]:
        return load_datasets(self.folder / "disarray.toml")

    def start(self, settings: AgentSettings | None = None) -> Agent:
        """A new life of the agent on the same state file."""
        if self.state is not None:
            self.state.close()
        self.settings = settings or self.settings
        self.state = StateFile(self.state_path)
        self.agent = Agent(
            self.datasets,
            self.settings,
            state=self.state,
            transport=self.transport,
            clock_us=lambda: self.now_us,
        )
        return self.agent

    def write(self, name: str, text: str | bytes, *, age_s: float = 0) -> Path:
        """A file of the share, last changed so many seconds before now."""
        path = self.share / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        self.touch(name, age_s=age_s)
        return path

    def touch(self, name: str, *, age_s: float = 0) -> None:
        import os

        stamp = self.now_us * 1_000 - int(age_s * 1e9)
        os.utime(self.share / name, ns=(stamp, stamp))

    def after(self, seconds: float = 1) -> list[Notification]:
        """Let time pass, step once, and tell what was announced."""
        self.now_us += int(seconds * SECOND)
        self.agent.step()
        return self.transport.news()

    def minutes(self, minutes: float) -> list[Notification]:
        """The same for minutes."""
        return self.after(minutes * MINUTE / SECOND)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A started agent that watches an empty share."""
    (tmp_path / "disarray.toml").write_text(DATASETS)
    (tmp_path / "share").mkdir()
    lab = Lab(tmp_path)
    lab.start()
    lab.agent.step()
    yield lab
    if lab.state is not None:
        lab.state.close()
